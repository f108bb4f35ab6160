"""Parts that the configurations of small multimodal models share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vision_tokenizers import vocabulary_size

__all__ = ["HIDDEN_SIZE", "NORMALIZATION", "VISION", "WINDOW", "Family", "text_config"]

HIDDEN_SIZE = 48
WINDOW = 24
"""Tokens of a sliding window; shorter than a prompt with an image."""


@dataclass(frozen=True, slots=True)
class Family:
    """The contents of a checkpoint except its weights.

    Attributes:
        config: Content of ``config.json``.
        files: Contents of further JSON files by name, such as ``preprocessor_config.json``.
        special_tokens: In the order of their ids.
        named_tokens: Special tokens by the name of a tokenizer's argument or attribute.
        chat_template: In Jinja; ``None`` for models without one.
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
    seed: int = 0
    tied_output: bool = False
    reads_audio: bool = False
    max_images: int = 20
    reuses_prompts: bool = True
    gains: Mapping[str, float] = field(default_factory=dict)


def text_config(model_type: str, special_tokens: Sequence[str], **options: Any) -> dict[str, Any]:
    """Return the configuration of a language model with ``options`` besides."""
    return {
        "model_type": model_type,
        "vocab_size": vocabulary_size(special_tokens),
        "hidden_size": HIDDEN_SIZE,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        **options,
    }


VISION: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 2,
    "patch_size": 14,
    "image_size": 56,
    "num_channels": 3,
}
"""A vision tower of two layers."""

NORMALIZATION: dict[str, Any] = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "rescale_factor": 1 / 255,
    "resample": 3,
}
"""Options of an image processor."""
