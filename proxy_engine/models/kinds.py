"""The kinds of models, told by their configurations, and the module that loads each kind.

A loader is imported when a model of its kind is loaded: the core imports no library of images or
speech.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from ..errors import InvalidOptionError
from ..runtime.extras import import_extra, is_installed
from .load_options import LoadOptions

if TYPE_CHECKING:
    from mlx.nn.layers.base import Module
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    from ..multimodal.processor import MultimodalProcessor
    from ..transcription.parakeet import Parakeet
    from ..transcription.whisper import Whisper

MediaKind: TypeAlias = Literal["image", "audio"]

MEDIA_KEYS: Mapping[MediaKind, tuple[str, ...]] = {
    "image": (
        "vision_config",
        "mm_vision_tower",
        "vision_tower",
        "img_processor",
        "embd_layer",
        "image_token_id",
        "image_token_index",
        "thinker_config",
    ),
    "audio": ("audio_config", "embd_layer", "thinker_config"),
}
"""Keys of the configurations of models that read each kind of media."""

_REFUSED = {
    "mllama": "its layers attend to the image by cross-attention",
    "florence2": "it is an encoder and a decoder",
    "nemotron_parse": "it is an encoder and a decoder",
    "diffusion_gemma": "it generates by diffusion",
    "falcon_perception": "it returns regions of an image",
    "got": "mlx-vlm runs code of its checkpoints",
    "inkling": "mlx-vlm runs code of its checkpoints",
    "zaya1_vl": "its layers take no other caches than those of mlx-vlm",
}
"""Model types of mlx-vlm that do not generate text token by token from a prompt with media."""

SPEECH_FILES = ("*.safetensors", "*.npz")
"""Files of weights that mlx-audio reads."""

_DIMENSIONS = {"n_mels", "n_audio_ctx", "n_text_ctx"}
"""Fields of a Whisper model's configuration in OpenAI's and mlx-community's form."""

_PARAKEET_TYPES = ("parakeet", "parakeet_tdt")
_PARAKEET_TARGETS = ("EncDecCTCModelBPE", "EncDecHybridRNNTCTCBPEModel", "EncDecRNNTBPEModel")
"""Classes of NeMo that mlx-audio loads as Parakeet."""


class UnsupportedModelError(Exception):
    """A model does not generate text token by token from a prompt with media."""


class ModelParts(NamedTuple):
    """A model as the library returns it that reads its files."""

    model: Module
    tokenizer: TokenizerWrapper
    config: Mapping[str, Any]
    processor: MultimodalProcessor | None = None
    speech: Whisper | Parakeet | None = None
    shard: Callable[[Module, str], None] | None = None
    """Reduces a named model to the share of this process, in place."""


PartsLoader: TypeAlias = Callable[[str, Mapping[str, Any], str, LoadOptions], ModelParts]
"""Loads the model of a path; the other arguments are its configuration, name and options."""


def is_speech_model(config: Mapping[str, Any]) -> bool:
    """Whether a configuration describes a model that transcribes speech."""
    is_whisper = config.get("model_type") == "whisper" or config.keys() >= _DIMENSIONS
    return is_whisper or is_parakeet(config)


def is_parakeet(config: Mapping[str, Any]) -> bool:
    """Whether a configuration describes a Parakeet model, in the form of NeMo or transformers."""
    target = str(config.get("target", "")).rpartition(".")[2]
    return target in _PARAKEET_TARGETS or config.get("model_type") in _PARAKEET_TYPES


def has_tokenizer_files(config: Mapping[str, Any]) -> bool:
    """Whether a model's tokenizer is in files, not in ``config.json``."""
    return not is_parakeet(config)


def is_multimodal(config: Mapping[str, Any]) -> bool:
    """Whether a configuration describes a model that reads media and that mlx-vlm may load."""
    if not any(config.get(key) for keys in MEDIA_KEYS.values() for key in keys):
        return False
    if not is_installed("vision"):
        return True
    utils = import_extra("vision", "mlx_vlm.utils", purpose="reading images")
    try:
        model_type = utils.get_model_type(dict(config))
    except (AttributeError, TypeError, ValueError):
        # The configuration is malformed.
        return False
    # Other types may be models of mlx-lm, or of mlx-audio.
    return (
        isinstance(model_type, str)
        and model_type.isidentifier()
        and importlib.util.find_spec(f"mlx_vlm.models.{model_type}") is not None
    )


def unsupported(config: Mapping[str, Any]) -> str | None:
    """Return why a multimodal model is not supported; ``None`` if no reason is known."""
    if config.get("model_file") is not None:
        # mlx-vlm would run it.
        return "it requires custom code (model_file), which is not run"
    return _REFUSED.get(str(config.get("model_type")))


def whole_model(model: Module) -> Module:
    """Return mlx-vlm's model of a multimodal model, whose parameters have the checkpoint's names.

    Any other model is returned as it is.
    """
    return cast("Module", getattr(model, "multimodal", model))


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A kind of models.

    Attributes:
        matches: Whether a configuration is of this kind.
        module: The module whose ``load_parts``, a ``PartsLoader``, loads such a model.
    """

    matches: Callable[[Mapping[str, Any]], bool]
    module: str


KINDS: Mapping[str, ModelKind] = {
    "speech": ModelKind(is_speech_model, "proxy_engine.transcription.loading"),
    "vision": ModelKind(is_multimodal, "proxy_engine.multimodal.loading"),
    "text": ModelKind(lambda _: True, "proxy_engine.models.text_loading"),
}
"""The first kind that matches loads a model."""


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a model with the loader of its kind.

    Args:
        path: Directory or Hugging Face repo id.
        config: Its configuration.
        name: Its name in errors.
        options: How it is loaded.
    """
    kind = next(kind for kind in KINDS.values() if kind.matches(config))
    loader: PartsLoader = importlib.import_module(kind.module).load_parts
    return loader(path, config, name, options)


def check_applicable(
    options: LoadOptions, inapplicable: Collection[str], name: str, kind: str
) -> None:
    """Raise ``InvalidOptionError`` for an option that has no effect on a kind of models."""
    for option in options.changed_names():
        if option in inapplicable:
            raise InvalidOptionError(
                f"{option} does not apply to {name!r}: it is {kind}", option=option
            )
