"""The families of small multimodal models: what a checkpoint has besides its weights, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["FAMILIES", "UNSUPPORTED_FAMILIES", "Family"]

_DATA = Path(__file__).parents[1] / "data" / "multimodal"


@dataclass(frozen=True, slots=True)
class Family:
    """The contents of a checkpoint except its weights.

    The language models have a hidden size of 48 and a vocabulary of the 263 tokens of
    ``vision_tokenizers`` and the special ones; windows of 24 tokens are shorter than a prompt with
    an image.

    Attributes:
        config: Content of ``config.json``.
        files: Contents of further JSON files by name, such as ``preprocessor_config.json``.
        special_tokens: In the order of their ids.
        named_tokens: Special tokens by the name of a tokenizer's argument or attribute.
        chat_template: In Jinja; ``None`` for models without one.
        description: What is particular about the family.
        seed: Seed of the weights.
        tied_output: The output layer has the weights of the embeddings.
        reads_audio: The model reads audio recordings as well.
        max_images: Number of images that a conversation can have.
        reuses_prompts: Whether tokens of a prompt attend to earlier ones only.
        gains: Factors of the weights whose name contains a text.
    """

    config: Mapping[str, Any]
    files: Mapping[str, Any]
    special_tokens: Sequence[str]
    named_tokens: Mapping[str, str]
    chat_template: str | None
    description: str = ""
    seed: int = 0
    tied_output: bool = False
    reads_audio: bool = False
    max_images: int = 20
    reuses_prompts: bool = True
    gains: Mapping[str, float] = field(default_factory=dict)


def _read(*names: str) -> dict[str, Family]:
    return {
        name: Family(**json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8")))
        for name in names
    }


FAMILIES = _read(
    *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "gemma3", "gemma4", "paligemma"),
    *("smolvlm", "idefics3", "llava_onevision", "pixtral", "mistral3", "internvl_chat", "lfm2_vl"),
)
"""The families by model type."""

UNSUPPORTED_FAMILIES = _read("llava_next")
"""Families whose images mlx-vlm embeds as another number of tokens than its processor writes."""
