"""The kinds of content that a model reads, by its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ..multimodal.loading import MEDIA_KEYS, is_multimodal, unsupported
from ..runtime.extras import is_installed
from ..transcription.loading import is_speech_model

Modality: TypeAlias = Literal["text", "image", "audio"]
"""A kind of content in prompts."""

_TEXT: frozenset[Modality] = frozenset({"text"})


def input_modalities(config: Mapping[str, Any]) -> frozenset[Modality]:
    """Return the kinds of content that a model reads, without loading it.

    The processor of a loaded model knows it exactly. A model that requires an extra that is not
    installed reads text only. A speech model reads recordings only.

    Args:
        config: The content of ``config.json``.
    """
    if is_speech_model(config):
        return frozenset({"audio"})
    if not is_installed("vision") or not is_multimodal(config) or unsupported(config) is not None:
        return _TEXT
    return _TEXT.union(
        kind for kind, keys in MEDIA_KEYS.items() if any(config.get(key) for key in keys)
    )
