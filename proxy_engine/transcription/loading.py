"""Loading speech models, with mlx-audio."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ModelFormatError
from ..extras import import_extra

if TYPE_CHECKING:
    from .parakeet import Parakeet
    from .whisper import Whisper

_DIMENSIONS = {"n_mels", "n_audio_ctx", "n_text_ctx"}
"""Fields of a Whisper model's configuration in OpenAI's and mlx-community's form."""


_PARAKEET_TYPES = ("parakeet", "parakeet_tdt")
_PARAKEET_TARGETS = ("EncDecCTCModelBPE", "EncDecHybridRNNTCTCBPEModel", "EncDecRNNTBPEModel")
"""Classes of NeMo that mlx-audio loads as Parakeet."""

SPEECH_FILES = ("*.safetensors", "*.npz")
"""Files of weights that mlx-audio reads."""


def is_speech_model(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a model that transcribes speech."""
    is_whisper = config.get("model_type") == "whisper" or config.keys() >= _DIMENSIONS
    return is_whisper or _is_parakeet(config)


def _is_parakeet(config: Mapping[str, Any]) -> bool:
    """Whether a configuration is that of a Parakeet model, in NeMo's form or transformers'."""
    target = str(config.get("target", "")).rpartition(".")[2]
    return target in _PARAKEET_TARGETS or config.get("model_type") in _PARAKEET_TYPES


def has_tokenizer_files(config: Mapping[str, Any]) -> bool:
    """Whether a model's tokenizer is in files, not in ``config.json``."""
    return not _is_parakeet(config)


def load_speech_model(
    path: str,
    config: Mapping[str, Any],
    *,
    name: str,
    lazy: bool = False,
    revision: str | None = None,
) -> Whisper | Parakeet:
    """Load a speech model. To be called on the thread that will run it.

    Args:
        path: Directory or Hugging Face repo id.
        config: Its configuration.
        name: Its name in errors.
        lazy: Whether weights are read when they are used.
        revision: Branch, tag or commit of a repo.

    Raises:
        MissingExtraError: The extra ``audio`` is not installed.
        ModelFormatError: The files are not a model that mlx-audio supports.
    """
    stt = import_extra("audio", "mlx_audio.stt", purpose=f"the speech model {name!r}")
    if _is_parakeet(config):
        from .parakeet import Parakeet  # noqa: PLC0415 - requires mlx-audio, which is optional.

        # The type is given, since mlx-audio would take it from the directory's name.
        model = stt.load(
            path,
            lazy=lazy,
            revision=revision,
            model_type="parakeet",
            model_name_parts=["parakeet"],
        )
        return Parakeet(model)
    from .whisper import Whisper  # noqa: PLC0415 - imports mlx-audio, which is optional.

    with warnings.catch_warnings():
        # That the tokenizer is missing is an error here.
        warnings.filterwarnings("ignore", message="Could not load WhisperProcessor")
        model = stt.load(
            path, lazy=lazy, revision=revision, model_type="whisper", model_name_parts=["whisper"]
        )
    if not _has_tokenizer(model):
        raise ModelFormatError(
            f"{name!r} lacks the files of Whisper's tokenizer and feature extractor",
            model=name,
            hint="Choose a repo that has them, such as 'mlx-community/whisper-large-v3-turbo-"
            "asr-fp16', or add tokenizer.json, tokenizer_config.json and "
            "preprocessor_config.json of OpenAI's model.",
        )
    return Whisper(model)


def _has_tokenizer(model: Any) -> bool:
    """Whether the tokenizer has Whisper's special tokens; without files, transformers' has none."""
    if model._processor is None:
        return False
    known = model._processor.tokenizer.get_vocab()
    return all(f"<|{name}|>" in known for name in ("startoftranscript", "notimestamps", "0.00"))
