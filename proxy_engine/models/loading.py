"""Loading models by directory or Hugging Face repo id."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import mlx.core as mx
import mlx_lm
from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper

from ..errors import (
    EngineError,
    MissingExtraError,
    ModelFormatError,
    ModelNotFoundError,
    PromptError,
    UnsupportedArchitectureError,
)
from ..extras import is_installed
from ..multimodal.errors import UnsupportedModelError
from ..multimodal.loading import is_multimodal, load_multimodal
from ..multimodal.processor import MultimodalProcessor
from ..progress import OnProgress
from ..text_checks import short_repr
from ..transcription.loading import is_speech_model, load_speech_model
from .blas import dequantized, has_fast_blas
from .checking import config_problem, damaged_file
from .dimensions import hidden_size, num_layers
from .embedded import EMBEDDED_MODEL, embedded_model
from .weight_files import weight_files, weight_patterns

if TYPE_CHECKING:
    from ..transcription.parakeet import Parakeet
    from ..transcription.whisper import Whisper

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run.

    Attributes:
        name: Directory, repo id, or name of the embedded model.
        model: The model.
        tokenizer: Its tokenizer.
        context_length: Longest sequence in tokens; ``None`` if the configuration does not state it.
        logits_width: Size of the last axis of the model's output.
        directory: Directory of the tokenizer's files, if known.
        processor: Processes the media that the model reads; ``None`` for a model of text.
        is_multimodal: Whether the configuration is that of a model which reads media.
        speech: The speech model whose ``decoder`` is ``model``; ``None`` for other models.
        num_layers: Number of layers; ``None`` if unknown.
        hidden_size: Width of the hidden states; ``None`` if unknown.
    """

    name: str
    model: Module
    tokenizer: TokenizerWrapper
    context_length: int | None
    logits_width: int
    directory: Path | None = None
    processor: MultimodalProcessor | None = None
    is_multimodal: bool = False
    speech: Whisper | Parakeet | None = None
    num_layers: int | None = None
    hidden_size: int | None = None

    @property
    def model_type(self) -> str:
        """The architecture's name in the configuration, or the name of mlx-lm's module."""
        module = type(self.model).__module__
        return str(getattr(self.model, "model_type", module.rpartition(".")[2]))

    def media_error(self) -> EngineError:
        """Return the error of a request with media that this model does not read."""
        if self.is_multimodal and not is_installed("vision"):
            return MissingExtraError(f"{self.name!r} reads images with mlx-vlm", extra="vision")
        return PromptError(f"{self.name!r} reads text only", hint="Use a multimodal model.")

    @classmethod
    def of(
        cls,
        model: Module,
        tokenizer: TokenizerWrapper,
        *,
        name: str,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
        processor: MultimodalProcessor | None = None,
        is_multimodal: bool = False,
    ) -> LoadedModel:
        """Wrap a model that is in memory.

        Runs a forward pass. To be called on the thread that will run the model: some models keep
        arrays of their first pass, which no other thread can evaluate. Evaluate lazy weights
        before, on the thread that created them, with ``evaluate_weights``.

        Args:
            model: The model.
            tokenizer: Its tokenizer.
            name: Its name in results and errors.
            config: Its configuration; ``None``: the model's own arguments.
            directory: Directory of the tokenizer's files; ``None``: the tokenizer's own record.
            processor: Processes the media that the model reads.
            is_multimodal: Whether the configuration is that of a model which reads media.

        Raises:
            ModelFormatError: The model cannot be run.
        """
        evaluate_weights(model, name)
        config = config or _arguments(model)
        return cls(
            name=name,
            model=model,
            tokenizer=tokenizer,
            context_length=context_length(config),
            logits_width=logits_width(model, name),
            directory=directory or _loaded_from(tokenizer),
            processor=processor,
            is_multimodal=is_multimodal or processor is not None,
            num_layers=num_layers(model, config),
            hidden_size=hidden_size(config),
        )


def load_model(
    model: str | os.PathLike[str] | None = None, on_progress: OnProgress | None = None
) -> LoadedModel:
    """Load a model. To be called on the thread that will run it.

    Args:
        model: Directory or Hugging Face repo id; ``None``: the embedded model.
        on_progress: Called with a line for each step of a download or conversion.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelFormatError: The files are not a model, or are damaged.
        UnsupportedArchitectureError: No library supports the model's architecture.
        MissingExtraError: The model requires mlx-vlm, which is not installed.
        ModelFetchError: The embedded model cannot be downloaded.
    """
    if model is None:
        path, name = os.fspath(embedded_model(on_progress)), EMBEDDED_MODEL
    else:
        path = name = os.fspath(model)
        try:
            _check_location(path)
        except OSError as error:
            raise ModelNotFoundError(
                f"{short_repr(path)} cannot be read: {error.strerror}",
                model=name,
                hint=_NAMING_HINT,
            ) from error
    try:
        config = _configuration(path)
        if is_speech_model(config):
            return _loaded_speech(path, config, name)
        module, tokenizer, config, processor = _load(path, config, name)
    except EngineError:
        raise
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelNotFoundError(
            f"there is no model {name!r}", model=name, hint=_NAMING_HINT
        ) from error
    except GatedRepoError as error:
        raise ModelNotFoundError(
            f"access to {name!r} is restricted",
            model=name,
            hint="Accept its terms on huggingface.co, then sign in with `hf auth login`.",
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, ConnectionError) as error:
        raise ModelNotFoundError(
            f"{name!r} is not a local directory, and huggingface.co cannot be reached",
            model=name,
            hint=_NAMING_HINT,
        ) from error
    except (Exception, SystemExit) as error:
        # Readers of models and tokenizers raise Exception itself for a damaged file. Modules of
        # mlx-lm that lack a dependency raise SystemExit.
        damaged = damaged_file(Path(path))
        if damaged is not None:
            file, why = damaged
            raise ModelFormatError(f"{str(file)!r} cannot be read: {why}", model=name) from error
        problem = config_problem(config)
        if problem is not None:
            raise problem.error(name) from error
        raise ModelFormatError(f"{name!r} cannot be loaded: {error}", model=name) from error
    if model is None and has_fast_blas():
        # Small enough to dequantize without being asked.
        module = dequantized(module)
    directory = Path(path) if os.path.isdir(path) else None
    return LoadedModel.of(
        module,
        tokenizer,
        name=name,
        config=config,
        directory=directory,
        processor=processor,
        is_multimodal=is_multimodal(config),
    )


_Loaded: TypeAlias = tuple[Module, TokenizerWrapper, dict[str, Any], MultimodalProcessor | None]


def _load(path: str, config: Mapping[str, Any], name: str) -> _Loaded:
    """Load a multimodal model with mlx-vlm, and any other with mlx-lm.

    mlx-lm also loads the text model of a multimodal model that mlx-vlm cannot load.
    """
    if not is_multimodal(config):
        return _load_text(path)
    try:
        parts = load_multimodal(path, config)
    except Exception as error:
        try:
            loaded = _load_text(path)
        except (Exception, SystemExit):
            if isinstance(error, UnsupportedModelError):
                raise UnsupportedArchitectureError(
                    f"models of type {config['model_type']!r} are not supported: {error}",
                    model=name,
                ) from error
            raise error from None
        _log.warning("%r reads text only: %s", name, error)
        return loaded
    return parts.model, parts.tokenizer, parts.config, parts.processor


def _load_text(path: str) -> _Loaded:
    loaded = mlx_lm.load(path, return_config=True)
    return cast("_Loaded", (*loaded, None))


def _configuration(path: str) -> dict[str, Any]:
    """Return the content of ``config.json``; nothing if it cannot be read, which mlx-lm reports.

    Raises:
        OSError: The repo is not in the download cache, and cannot be reached or does not exist.
    """
    try:
        file = _configuration_file(path)
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return {}
    try:
        config = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def _configuration_file(path: str) -> str:
    if os.path.isdir(path):
        return os.path.join(path, "config.json")
    # The loader checks for updates. The kind of a model does not change.
    cached = try_to_load_from_cache(path, "config.json")
    return cached if isinstance(cached, str) else hf_hub_download(path, "config.json")


def _loaded_speech(path: str, config: Mapping[str, Any], name: str) -> LoadedModel:
    speech = load_speech_model(path, config, name=name)
    evaluate_weights(speech.decoder, name)
    return LoadedModel(
        name=name,
        model=speech.decoder,
        tokenizer=speech.engine_tokenizer,
        context_length=speech.context_length,
        logits_width=logits_width(speech.decoder, name),
        speech=speech,
    )


def context_length(config: Mapping[str, Any]) -> int | None:
    """Return the longest sequence that a configuration states, in tokens."""
    nested = config.get("text_config")
    for source in (config, nested if isinstance(nested, Mapping) else {}):
        for key in ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx"):
            value = source.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None


def evaluate_weights(model: Module, name: str) -> None:
    """Evaluate a model's lazy arrays, so that any thread can run it.

    To be called on the thread that created them.

    Raises:
        ModelFormatError: The arrays cannot be evaluated.
    """
    try:
        mx.eval(_arrays(model))
    except Exception as error:
        raise ModelFormatError(
            f"the weights of {name!r} cannot be evaluated: {error}",
            model=name,
            hint="Lazy arrays can be evaluated only on the thread that created them.",
        ) from error


def logits_width(model: Module, name: str = "") -> int:
    """Return the size of the last axis of the model's output, from a forward pass over one token.

    Configurations state the size under many names, and some state a wrong one. The pass is
    evaluated, with the arrays that the model keeps of it.

    Raises:
        ModelFormatError: The model cannot be run.
    """
    try:
        logits: mx.array = model(mx.zeros((1, 1), dtype=mx.int32), cache=make_prompt_cache(model))
        mx.eval(logits, _arrays(model))
    except Exception as error:
        needs_metal = "metal" in str(error).lower()
        raise ModelFormatError(
            f"{name!r} cannot be run here: {str(error).rstrip('.')}",
            model=name,
            hint="It requires Metal: a Mac with Apple silicon." if needs_metal else "",
        ) from error
    return int(logits.shape[-1])


def _arrays(model: Module) -> list[mx.array]:
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model))
    return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]


_NAMING_HINT = (
    "Name a directory with config.json, *.safetensors and tokenizer.json, or a Hugging Face repo "
    f"id such as 'mlx-community/Qwen3-4B-4bit'. The default is the embedded {EMBEDDED_MODEL}."
)


def _check_location(path: str) -> None:
    """Reject invalid names before huggingface.co is queried, such as misspelled directories."""
    if not path.strip():
        raise ModelNotFoundError("the name of the model is empty", model=path, hint=_NAMING_HINT)
    directory = Path(path)
    if directory.is_file():
        raise ModelFormatError(f"{path!r} is a file", model=path, hint=_NAMING_HINT)
    if directory.is_dir():
        if not (directory / "config.json").is_file():
            raise ModelFormatError(
                f"the directory {path!r} has no config.json", model=path, hint=_NAMING_HINT
            )
        config = _configuration(path)
        if not weight_files(directory, config):
            raise ModelFormatError(
                f"the directory {path!r} has no {' or '.join(weight_patterns(config))}",
                model=path,
                hint=_NAMING_HINT,
            )
        return
    looks_like_a_path = path.startswith((".", "~", os.sep)) or path.count("/") > 1
    if looks_like_a_path:
        raise ModelNotFoundError(f"there is no directory {path!r}", model=path, hint=_NAMING_HINT)


def _loaded_from(tokenizer: TokenizerWrapper) -> Path | None:
    """Return the directory that a tokenizer was loaded from; a repo's is in the download cache."""
    directory = Path(getattr(tokenizer, "name_or_path", None) or "")
    # A relative path may be a repo id, or relative to another working directory.
    return directory if directory.is_absolute() and directory.is_dir() else None


def _arguments(model: Module) -> Mapping[str, Any]:
    """Return the arguments that mlx-lm's models store."""
    arguments = getattr(model, "args", None)
    return vars(arguments) if arguments is not None else {}
