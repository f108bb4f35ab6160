"""Loading speech models, with mlx-audio."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken

from ..errors import ModelFormatError
from ..models.kinds import ModelParts, check_applicable, is_parakeet
from ..models.load_options import LoadOptions
from ..runtime.extras import import_extra

if TYPE_CHECKING:
    from .parakeet import Parakeet
    from .whisper import Whisper

_CONTROL_TOKENS = {"<|startoftranscript|>", "<|notimestamps|>"}
_TIMES = [f"<|{number * 0.02:.2f}|>" for number in range(1501)]

_NOT_OF_SPEECH = {"adapter_path", "tokenizer_config", "model_config", "chat_template"}


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a speech model; a ``PartsLoader``."""
    check_applicable(options, _NOT_OF_SPEECH, name, "a speech model")
    speech = load_speech_model(
        path, config, name=name, lazy=options.lazy, revision=options.revision
    )
    return ModelParts(speech.decoder, speech.engine_tokenizer, config, speech=speech)


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
    if is_parakeet(config):
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
        # A missing tokenizer is an error here, and no warning.
        warnings.filterwarnings("ignore", message="Could not load WhisperProcessor")
        model = stt.load(
            path, lazy=lazy, revision=revision, model_type="whisper", model_name_parts=["whisper"]
        )
    known = {} if model._processor is None else model._processor.tokenizer.get_vocab()
    if not known.keys() >= _CONTROL_TOKENS:
        # Without files, transformers' tokenizer has no control tokens.
        raise ModelFormatError(
            f"{name!r} lacks the files of Whisper's tokenizer and feature extractor",
            model=name,
            hint="Choose a repo that has them, such as 'mlx-community/whisper-large-v3-turbo-"
            "asr-fp16', or add tokenizer.json, tokenizer_config.json and "
            "preprocessor_config.json of OpenAI's model.",
        )
    _add_timestamps(model, known, name)
    return Whisper(model)


def _add_timestamps(model: Any, known: Mapping[str, int], name: str) -> None:
    """Add the tokens of times to a tokenizer that lacks them, as faster-whisper's does.

    Their ids follow the control tokens, and are the last ones of the model.
    """
    if _TIMES[0] in known:
        return
    first, size = known["<|notimestamps|>"] + 1, int(model.dims.n_vocab)
    if (max(known.values()) + 1, first + len(_TIMES)) != (first, size):
        raise ModelFormatError(
            f"the tokenizer of {name!r} lacks the tokens of times, <|0.00|> to <|30.00|>: it has "
            f"{len(known)} tokens, and the model {size}",
            model=name,
            hint="Replace tokenizer.json by that of OpenAI's model.",
        )
    added = [AddedToken(time, normalized=False) for time in _TIMES]
    model._processor.tokenizer.add_tokens(added)
