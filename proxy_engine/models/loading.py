"""Loading models by directory or Hugging Face repo id."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from tokenizers import Tokenizer

from ..errors import (
    EngineError,
    InvalidOptionError,
    MissingExtraError,
    ModelError,
    ModelFormatError,
    PromptError,
)
from ..prompt_cache import CacheOptions
from ..prompt_cache.prompt_caches import PromptCaches
from ..runtime.blas import announce_slow_blas, dequantize, has_fast_blas, widen_on_cpu
from ..runtime.extras import is_installed
from ..runtime.process_runtime import OnProgress
from .adapters import apply_adapter, read_adapter
from .embedded import EMBEDDED_MODEL, SPEECH_MODEL, embedded_model, speech_model
from .files import (
    FileProblem,
    config_problem,
    context_length,
    file_problem,
    hidden_size,
    num_layers,
)
from .kinds import (
    PartsLoader,
    UnsupportedModelError,
    check_applicable,
    is_multimodal,
    load_parts,
    whole_model,
)
from .load_options import LoadOptions
from .locations import check_location, not_found_error, read_configuration

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    from ..multimodal.processor import MultimodalProcessor
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
        config: Its configuration, or for a model in memory its arguments.
        logits_width: Size of the last axis of the model's output.
        directory: Directory of the tokenizer's files, if known.
        processor: Processes the media that the model reads; ``None`` for a model of text.
        speech: The speech model whose ``decoder`` is ``model``; ``None`` for other models.
    """

    name: str
    model: Module
    tokenizer: TokenizerWrapper
    config: Mapping[str, Any]
    logits_width: int
    directory: Path | None = None
    processor: MultimodalProcessor | None = None
    speech: Whisper | Parakeet | None = None

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
        lazy: bool = False,
    ) -> LoadedModel:
        """Wrap a model that is in memory.

        Runs a forward pass. To be called on the thread that will run the model: some models keep
        arrays of their first pass, which no other thread can evaluate. Evaluate lazy weights
        before, on the thread that created them, with ``evaluate_weights``.

        Args:
            model: The model.
            tokenizer: Its tokenizer.
            name: Its name in results and errors.
            config: Its configuration; ``None``: the arguments that mlx-lm's models store.
            directory: Directory of the tokenizer's files; ``None``: the tokenizer's own record.
            processor: Processes the media that the model reads.
            lazy: Whether nothing is evaluated, so that the weights are read by later passes.

        Raises:
            ModelFormatError: The model cannot be run.
        """
        if not lazy:
            evaluate_weights(model, name)
        arguments = getattr(model, "args", None)
        return cls(
            name=name,
            model=model,
            tokenizer=tokenizer,
            config=config or (vars(arguments) if arguments is not None else {}),
            logits_width=logits_width(model, name, lazy=lazy),
            directory=directory or _loaded_from(tokenizer),
            processor=processor,
        )

    @property
    def model_type(self) -> str:
        """The architecture's name in the configuration, or the name of mlx-lm's module."""
        module = type(self.model).__module__
        return str(getattr(self.model, "model_type", module.rpartition(".")[2]))

    @property
    def context_length(self) -> int | None:
        """Longest sequence in tokens; ``None`` if the configuration does not state it."""
        return context_length(self.config) if self.speech is None else self.speech.context_length

    @property
    def num_layers(self) -> int | None:
        """Number of layers; ``None`` if unknown."""
        return num_layers(self.model, self.config)

    @property
    def hidden_size(self) -> int | None:
        """Width of the hidden states; ``None`` if unknown."""
        return hidden_size(self.config)

    @property
    def is_multimodal(self) -> bool:
        """Whether the configuration describes a model that reads media."""
        return self.processor is not None or is_multimodal(self.config)

    def media_error(self) -> EngineError:
        """Return the error of a request with media that this model does not read."""
        if self.is_multimodal and not is_installed("vision"):
            return MissingExtraError("the model reads images with mlx-vlm", extra="vision")
        return PromptError("the model reads text only", hint="Use a multimodal model.")


def load_model(
    model: str | os.PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    options: LoadOptions | None = None,
    load_share: PartsLoader | None = None,
) -> LoadedModel:
    """Load a model. To be called on the thread that will run it.

    Args:
        model: Directory or Hugging Face repo id, or ``SPEECH_MODEL``; ``None``: the embedded model.
        on_progress: Called with a line for each step of a download or conversion, and once per
            process if models run on the CPU with a slow BLAS.
        options: How to load it; ``None`` for the defaults.
        load_share: Loads this process's share of the model; ``None`` loads the whole model.

    Raises:
        ModelNotFoundError: There is no such model.
        ModelFormatError: The files are not a model, or are damaged.
        UnsupportedArchitectureError: No library supports the model's architecture.
        AdapterError: The adapter cannot be read, or belongs to another model.
        InvalidOptionError: An option does not apply to the model.
        MissingExtraError: The model requires mlx-vlm, which is not installed.
        ModelFetchError: The embedded model cannot be downloaded.
    """
    options = options or LoadOptions()
    announce_slow_blas(on_progress)
    if model is None:
        check_applicable(options, {"revision"}, EMBEDDED_MODEL, "the embedded model")
        path, name = os.fspath(embedded_model(on_progress)), EMBEDDED_MODEL
    elif os.fspath(model) == SPEECH_MODEL and not os.path.isdir(SPEECH_MODEL):
        check_applicable(options, {"revision"}, SPEECH_MODEL, "the embedded speech model")
        path, name = os.fspath(speech_model(on_progress)), SPEECH_MODEL
    else:
        path = name = os.fspath(model)
        check_location(path, options.revision)
    # The embedded model is small enough to dequantize without being asked.
    return _load(path, name, options, load_share, dequantizes=model is None and has_fast_blas())


def check_loadable(
    directory: Path,
    name: str,
    options: LoadOptions | None = None,
    cache: CacheOptions | None = None,
) -> LoadedModel:
    """Load a model without reading its weights, in about a second and with little memory.

    Args:
        directory: The model's files.
        name: Its name in errors.
        options: How it is loaded; ``None`` for the defaults.
        cache: Options that the model's cache has to support.

    Returns:
        The model with lazy weights. The graph of a forward pass was built, and not evaluated.

    Raises:
        ModelFormatError: The model cannot be loaded.
        AdapterError: The adapter cannot be read, or belongs to another model.
    """
    lazy = (options or LoadOptions()).model_copy(update={"lazy": True})
    try:
        loaded = _load(os.fspath(directory), name, lazy)
        if cache is not None:
            PromptCaches(loaded.model, cache)
    except (InvalidOptionError, MissingExtraError) as error:
        raise FileProblem(str(error)).error(name) from error
    return loaded


def _load(
    path: str,
    name: str,
    options: LoadOptions,
    load_share: PartsLoader | None = None,
    *,
    dequantizes: bool = False,
) -> LoadedModel:
    """Load the model of a directory or a repo, as ``load_model`` does."""
    if options.adapter_path is not None:
        read_adapter(options.adapter_path, name)
    directory = Path(path) if os.path.isdir(path) else None
    trusts_code, overrides = options.trust_remote_code, options.config_overrides
    try:
        config = read_configuration(path, options.revision)
        if load_share is None and directory is not None:
            problem = file_problem(directory, trusts_code, overrides)
        else:
            # A process that loads a share may have a part of the weights.
            problem = config_problem({**config, **overrides}, trusts_code)
        # For a missing extra, the loader raises MissingExtraError.
        if problem is not None and problem.missing_extra is None:
            raise problem.error(name)
        parts = (load_share or load_parts)(path, config, name, options)
        if options.adapter_path is not None:
            apply_adapter(whole_model(parts.model), options.adapter_path, name)
    except EngineError:
        raise
    except Exception as error:
        raise _load_error(error, path, name, options.revision) from error
    # To float32, which takes 4 bytes per weight.
    model = parts.model
    if dequantizes:
        dequantize(model)
    widen_on_cpu(model, name)
    if parts.shard is not None:
        parts.shard(model, name)
    loaded = LoadedModel.of(
        model,
        parts.tokenizer,
        name=name,
        config=parts.config,
        directory=directory,
        processor=parts.processor,
        lazy=options.lazy,
    )
    if parts.speech is not None:
        # Its tokenizer differs from the tokenizer in the files.
        return replace(loaded, directory=None, speech=parts.speech)
    _check_end_token(loaded, options)
    return loaded


def _load_error(error: Exception, path: str, name: str, revision: str | None) -> ModelError:
    """Return the error for an exception of a library, which seldom names the file."""
    not_found = None if os.path.isdir(path) else not_found_error(error, name, revision)
    if not_found is not None:
        return not_found
    tokenizer = Path(path) / "tokenizer.json"
    try:
        if tokenizer.is_file():
            Tokenizer.from_file(str(tokenizer))
    except Exception as damage:
        # The library raises a bare Exception.
        return FileProblem(f"tokenizer.json cannot be read: {damage}").error(name)
    is_unsupported = isinstance(error, UnsupportedModelError)
    return FileProblem(str(error), is_unsupported=is_unsupported).error(name)


def _check_end_token(loaded: LoadedModel, options: LoadOptions) -> None:
    """Raise ``InvalidOptionError`` if the end token of ``tokenizer_config`` is unknown.

    transformers would add it to the tokenizer, as a token that the model cannot generate.
    """
    token = options.tokenizer_config.get("eos_token")
    if token is None or loaded.directory is None:
        return
    file = loaded.directory / "tokenizer.json"
    if file.is_file() and Tokenizer.from_file(str(file)).token_to_id(str(token)) is None:
        raise InvalidOptionError(
            f"the vocabulary of {loaded.name!r} has no token {str(token)!r}",
            option="tokenizer_config",
            pointer="/tokenizer_config/eos_token",
        )


def evaluate_weights(model: Module, name: str) -> None:
    """Evaluate a model's lazy arrays, so that any thread can run it.

    To be called on the thread that created them.

    Raises:
        ModelFormatError: The arrays cannot be evaluated.
    """
    try:
        # Separately: an array is freed once the arrays that need it are computed.
        for array in _arrays(model):
            mx.eval(array)
            mx.clear_cache()
    except Exception as error:
        raise ModelFormatError(
            f"the weights of {name!r} cannot be evaluated: {error}",
            model=name,
            hint="Lazy arrays can be evaluated only on the thread that created them.",
        ) from error


def share_model(model: Module, at_close: Callable[[Callable[[], None]], None]) -> None:
    """Let any thread run a model in memory, now and after the engine is closed or refused.

    Some architectures replace their arrays in each pass. The lazy arrays of a pass that was not
    evaluated belong to the worker's thread, and would fail on all others.

    Args:
        model: The model, whose weights are evaluated.
        at_close: Registers a function that the worker calls at its end.
    """
    evaluate = partial(evaluate_weights, model, type(model).__module__)
    evaluate()

    def evaluate_last() -> None:
        with suppress(ModelFormatError):
            evaluate()

    at_close(evaluate_last)


def logits_width(model: Module, name: str = "", *, lazy: bool = False) -> int:
    """Return the size of the last axis of the model's output, from a forward pass over one token.

    Configurations state the size under many names, and some state a wrong one. Unless ``lazy``, the
    pass is evaluated, with the arrays that the model keeps of it.

    Raises:
        ModelFormatError: The model cannot be run.
    """
    try:
        logits: mx.array = model(mx.zeros((1, 1), dtype=mx.int32), cache=make_prompt_cache(model))
        if not lazy:
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


def _loaded_from(tokenizer: TokenizerWrapper) -> Path | None:
    """Return the directory that a tokenizer was loaded from; a repo's is in the download cache."""
    directory = Path(getattr(tokenizer, "name_or_path", None) or "")
    # A relative path may be a repo id, or relative to another working directory.
    return directory if directory.is_absolute() and directory.is_dir() else None
