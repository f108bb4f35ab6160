"""Facts about a model that its configuration, ``config.json``, states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from mlx.nn.layers.base import Module

from ..multimodal.loading import MEDIA_KEYS, is_multimodal, unsupported
from ..runtime.extras import is_installed
from ..transcription.loading import is_speech_model

Modality: TypeAlias = Literal["text", "image", "audio"]
"""A kind of content in prompts."""

_TEXT: frozenset[Modality] = frozenset({"text"})

_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "model_dim", "dim", "hidden_dim")
_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx")


def input_modalities(config: Mapping[str, Any]) -> frozenset[Modality]:
    """Return the kinds of content that a model reads, without loading it.

    The processor of a loaded model knows it exactly. A model that requires an extra that is not
    installed reads text only. A speech model reads recordings only.
    """
    if is_speech_model(config):
        return frozenset({"audio"})
    if not is_installed("vision") or not is_multimodal(config) or unsupported(config) is not None:
        return _TEXT
    return _TEXT.union(
        kind for kind, keys in MEDIA_KEYS.items() if any(config.get(key) for key in keys)
    )


def context_length(config: Mapping[str, Any]) -> int | None:
    """Return the longest sequence in tokens; ``None`` if the configuration does not state it."""
    return _stated(_LENGTH_KEYS, [config, *_text_parts(config)])


def num_layers(model: Module, config: Mapping[str, Any]) -> int | None:
    """Return the number of layers; ``None`` if neither model nor configuration has it."""
    # The model may be a stage of a pipeline.
    layers = getattr(model, "layers", None)
    count = len(layers) if isinstance(layers, list | tuple) else None
    return _stated(_LAYER_KEYS, [*_text_parts(config), config]) or count


def hidden_size(config: Mapping[str, Any]) -> int | None:
    """Return the width of the hidden states; ``None`` if the configuration does not state it."""
    # Beside the configuration of the text model, the same key can be that of an image encoder.
    return _stated(_WIDTH_KEYS, [*_text_parts(config), config])


def _text_parts(config: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (part for key in _TEXT_KEYS if isinstance(part := config.get(key), Mapping))


def _stated(keys: Iterable[str], sources: Iterable[Mapping[str, Any]]) -> int | None:
    values = (source.get(key) for source in sources for key in keys)
    return next((value for value in values if isinstance(value, int) and value > 0), None)
