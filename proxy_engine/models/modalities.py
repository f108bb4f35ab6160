"""The kinds of content that a model reads, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ..extras import is_installed
from ..multimodal.loading import is_multimodal, unsupported

Modality: TypeAlias = Literal["text", "image", "audio"]
"""A kind of content in prompts."""

_IMAGE_KEYS = (
    "vision_config",
    "mm_vision_tower",
    "vision_tower",
    "img_processor",
    "image_token_id",
    "image_token_index",
    "thinker_config",
)
_AUDIO_KEYS = ("audio_config", "thinker_config")


def input_modalities(config: Mapping[str, Any]) -> tuple[Modality, ...]:
    """Return what a model reads, without loading it.

    The processor of a loaded model knows it exactly. A model that requires an extra that is not
    installed reads text only.

    Args:
        config: The content of ``config.json``.
    """
    if not is_installed("vision") or not is_multimodal(config) or unsupported(config) is not None:
        return ("text",)
    images: tuple[Modality, ...] = ("image",) if _has(config, _IMAGE_KEYS) else ()
    audio: tuple[Modality, ...] = ("audio",) if _has(config, _AUDIO_KEYS) else ()
    return ("text", *images, *audio)


def _has(config: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    return any(config.get(key) for key in keys)
