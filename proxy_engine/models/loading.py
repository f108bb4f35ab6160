"""From what a user names as a model to weights and tokenizer in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx_lm
from huggingface_hub.errors import (
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

from ..errors import ModelFormatError, ModelNotFoundError
from ..progress import OnProgress
from ..text_checks import short_repr
from .blas import dequantized, has_fast_blas
from .checking import damaged_file
from .embedded import EMBEDDED_MODEL, embedded_model

__all__ = ["LoadedModel", "context_length", "evaluate_weights", "load_model", "logits_width"]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run.

    ``context_length`` is in tokens, ``None`` where the model does not say; ``logits_width`` is
    the size of the last axis of the model's output; ``directory`` is where the tokenizer was
    loaded from, ``None`` where that is not known.
    """

    name: str
    model: Module
    tokenizer: TokenizerWrapper
    context_length: int | None
    logits_width: int
    directory: Path | None = None

    @property
    def model_type(self) -> str:
        """The architecture, as the configuration names it, or as mlx-lm's module is called."""
        module = type(self.model).__module__
        return str(getattr(self.model, "model_type", module.rpartition(".")[2]))

    @classmethod
    def of(
        cls,
        model: Module,
        tokenizer: TokenizerWrapper,
        *,
        name: str,
        config: Mapping[str, Any] | None = None,
        directory: Path | None = None,
    ) -> LoadedModel:
        """Describe a model that is in memory already.

        Runs a forward pass, so it is to be called on the thread that will run the model: some
        models keep arrays of their first pass, which no other thread could evaluate. Weights that
        are lazy have to be evaluated before, on the thread that made them: ``evaluate_weights``.

        Raises ``ModelFormatError`` where the model cannot be run.
        """
        evaluate_weights(model, name)
        return cls(
            name=name,
            model=model,
            tokenizer=tokenizer,
            context_length=context_length(config or _arguments(model)),
            logits_width=logits_width(model, name),
            directory=directory or _loaded_from(tokenizer),
        )


def load_model(
    model: str | os.PathLike[str] | None = None, on_progress: OnProgress | None = None
) -> LoadedModel:
    """Load a model by directory or hub id; the embedded one for ``None``.

    Raises ``ModelNotFoundError`` where nothing has that name, ``ModelFormatError`` where files
    are found but are not a model that mlx-lm runs, ``ModelFetchError`` where the embedded model
    cannot be had.
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
        loaded = mlx_lm.load(path, return_config=True)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelNotFoundError(
            f"there is no model {name!r}", model=name, hint=_NAMING_HINT
        ) from error
    except GatedRepoError as error:
        raise ModelNotFoundError(
            f"the hub does not let you read {name!r}",
            model=name,
            hint="Accept its terms on its page, then sign in with `hf auth login`.",
        ) from error
    except (LocalEntryNotFoundError, HfHubHTTPError, ConnectionError) as error:
        raise ModelNotFoundError(
            f"{name!r} is no local directory, and the model hub cannot be reached",
            model=name,
            hint=_NAMING_HINT,
        ) from error
    except (Exception, SystemExit) as error:
        # Readers of models and tokenizers raise Exception itself for a damaged file; modules of
        # mlx-lm that lack a dependency end the process.
        damaged = damaged_file(Path(path))
        if damaged is not None:
            file, why = damaged
            raise ModelFormatError(f"{str(file)!r} cannot be read: {why}", model=name) from error
        raise ModelFormatError(f"{name!r} cannot be loaded: {error}", model=name) from error
    module, tokenizer, config = cast("tuple[Module, TokenizerWrapper, dict[str, Any]]", loaded)
    if model is None and has_fast_blas():
        # Small enough to do so unasked.
        module = dequantized(module)
    directory = Path(path) if os.path.isdir(path) else None
    return LoadedModel.of(module, tokenizer, name=name, config=config, directory=directory)


def context_length(config: Mapping[str, Any]) -> int | None:
    """The longest sequence the model was made for, from its configuration."""
    nested = config.get("text_config")
    for source in (config, nested if isinstance(nested, Mapping) else {}):
        for key in ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx"):
            value = source.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None


def evaluate_weights(model: Module, name: str) -> None:
    """Compute a model's lazy arrays, so that any thread can run it.

    To be called on the thread that made them. Raises ``ModelFormatError``.
    """
    try:
        mx.eval(_arrays(model))
    except Exception as error:
        raise ModelFormatError(
            f"the weights of {name!r} cannot be evaluated: {error}",
            model=name,
            hint="Lazy arrays can be evaluated only on the thread that made them.",
        ) from error


def logits_width(model: Module, name: str = "") -> int:
    """The size of the last axis of the model's output, from a forward pass over one token.

    Configurations state the size under many names, and some state it wrongly. The pass is
    evaluated, together with the arrays that the model kept of it. Raises ``ModelFormatError``
    where the model cannot be run.
    """
    try:
        logits: mx.array = model(mx.zeros((1, 1), dtype=mx.int32), cache=make_prompt_cache(model))
        mx.eval(logits, _arrays(model))
    except Exception as error:
        needs_metal = "metal" in str(error).lower()
        raise ModelFormatError(
            f"{name!r} cannot be run here: {str(error).rstrip('.')}",
            model=name,
            hint="It needs Metal: a Mac with Apple silicon." if needs_metal else "",
        ) from error
    return int(logits.shape[-1])


def _arrays(model: Module) -> list[mx.array]:
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model))
    return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]


_NAMING_HINT = (
    "Name a directory with config.json, *.safetensors and tokenizer.json, or a hub id such as "
    f"'mlx-community/Qwen3-4B-4bit'; without a name the embedded {EMBEDDED_MODEL} is used."
)


def _check_location(path: str) -> None:
    """Refuse at once what can be no model, so that the hub is not asked about a typing error."""
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
        try:
            json.loads((directory / "config.json").read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelFormatError(
                f"{path}/config.json is not JSON: {error}", model=path
            ) from error
        if not any(directory.glob("model*.safetensors")):
            raise ModelFormatError(
                f"the directory {path!r} has no model*.safetensors", model=path, hint=_NAMING_HINT
            )
        return
    looks_like_a_path = path.startswith((".", "~", os.sep)) or path.count("/") > 1
    if looks_like_a_path:
        raise ModelNotFoundError(f"there is no directory {path!r}", model=path, hint=_NAMING_HINT)


def _loaded_from(tokenizer: TokenizerWrapper) -> Path | None:
    """Where the files of a tokenizer lie, for one of the hub in the hub's cache."""
    directory = Path(getattr(tokenizer, "name_or_path", None) or "")
    # A relative one may be a hub id, or have been meant from another working directory.
    return directory if directory.is_absolute() and directory.is_dir() else None


def _arguments(model: Module) -> Mapping[str, Any]:
    """The model's own arguments, under the name that mlx-lm's models keep them."""
    arguments = getattr(model, "args", None)
    return vars(arguments) if arguments is not None else {}
