"""Loading speech models, with mlx-audio."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ModelFormatError
from ..extras import import_extra

if TYPE_CHECKING:
    from .whisper import Whisper

_DIMENSIONS = {"n_mels", "n_audio_ctx", "n_text_ctx"}
"""Fields of a Whisper model's configuration in OpenAI's and mlx-community's form."""


SPEECH_FILES = ("*.safetensors", "*.npz")
"""Files of weights that mlx-audio reads."""


def is_speech_model(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a model that transcribes speech."""
    return config.get("model_type") == "whisper" or config.keys() >= _DIMENSIONS


def load_speech_model(path: str, *, name: str, lazy: bool = False) -> Whisper:
    """Load a speech model. To be called on the thread that will run it.

    Args:
        path: Directory or Hugging Face repo id.
        name: Its name in errors.
        lazy: Whether weights are read when they are used.

    Raises:
        MissingExtraError: The extra ``audio`` is not installed.
        ModelFormatError: The files are not a model that mlx-audio supports.
    """
    stt = import_extra("audio", "mlx_audio.stt", purpose=f"the speech model {name!r}")
    from .whisper import Whisper  # noqa: PLC0415 - imports mlx-audio, which is optional.

    with warnings.catch_warnings():
        # That the tokenizer is missing is an error here.
        warnings.filterwarnings("ignore", message="Could not load WhisperProcessor")
        model = stt.load(path, lazy=lazy)
    if getattr(model, "_processor", None) is None:
        raise ModelFormatError(
            f"{name!r} has no tokenizer and feature extractor that transformers can read",
            model=name,
            hint="Choose a repo that has them, such as 'mlx-community/whisper-large-v3-turbo-"
            "asr-fp16', or add tokenizer.json, tokenizer_config.json and "
            "preprocessor_config.json of openai's model.",
        )
    return Whisper(model)
