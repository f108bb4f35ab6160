"""Checks of a model's files, without reading the weights."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx_lm
import mlx_lm.utils
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer

from ..errors import (
    AdapterError,
    InvalidOptionError,
    ModelFormatError,
    UnsupportedArchitectureError,
)
from ..multimodal.loading import is_multimodal, load_multimodal, unsupported, whole_model
from ..prompt_cache.options import CacheOptions
from ..prompt_cache.prompt_caches import PromptCaches
from ..runtime.extras import is_installed
from ..transcription.loading import has_tokenizer_files, is_speech_model, load_speech_model
from .adapters import apply_adapter, check_adapter
from .load_options import LoadOptions
from .weight_files import weights_problem

_JSON_FILES = ("config.json", "tokenizer_config.json")

_NEEDS_CODE = "it requires custom code (model_file), which is run with trust_remote_code=True only"

# A model has at least one of these files.
_TOKENIZER_FILES = ("tokenizer.json", "*.model", "*.tiktoken", "vocab.*")


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Why a model's files cannot be loaded.

    Attributes:
        what: The reason.
        is_unsupported: Whether no library supports the architecture, so that other files of the
            same model cannot be loaded either.
    """

    what: str
    is_unsupported: bool = False

    def error(self, model: str) -> ModelFormatError:
        """Return the error of loading ``model``."""
        kind = UnsupportedArchitectureError if self.is_unsupported else ModelFormatError
        return kind(f"{model!r} cannot be loaded: {self.what}", model=model)


def file_problem(directory: Path, trusts_code: bool = False) -> FileProblem | None:
    """Return why a model's files cannot be loaded; ``None`` if no problem is found.

    Checks the configuration, the architecture, the index and headers of the weights, and the names
    of the tokenizer's files, in milliseconds. The first model of an architecture takes longer,
    since its module is imported.

    Args:
        directory: The directory.
        trusts_code: Whether code of the checkpoint may be run.
    """
    try:
        config = _object(directory / "config.json")
        if config is None:
            return FileProblem("config.json is not a JSON object")
        problem = config_problem(config, trusts_code)
        if problem is not None:
            return problem
        what = weights_problem(directory, config) or _tokenizer_problem(directory, config)
    except OSError as error:
        what = f"{error.filename or directory} cannot be read: {error.strerror}"
    return None if what is None else FileProblem(what)


def config_problem(config: Mapping[str, Any], trusts_code: bool = False) -> FileProblem | None:
    """Return why a model of a configuration cannot be loaded; ``None`` if no reason is found.

    Args:
        config: The content of ``config.json``.
        trusts_code: Whether code of the checkpoint may be run.
    """
    if config.get("model_file") is not None:
        return None if trusts_code else FileProblem(_NEEDS_CODE, is_unsupported=True)
    if is_speech_model(config):
        return None if is_installed("audio") else _needed("mlx-audio", "audio")
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        return FileProblem("config.json has no model_type")
    problem = _problem_of_mlx_lm(config)
    if problem is None or not is_multimodal(config):
        return problem
    if not is_installed("vision"):
        return _needed("mlx-vlm", "vision")
    reason = unsupported(config)
    return None if reason is None else FileProblem(reason, is_unsupported=True)


def check_loadable(
    directory: Path, name: str, options: LoadOptions | None = None
) -> tuple[TokenizerWrapper, int]:
    """Check that a model can be loaded, in about a second and with little memory.

    Loads the tokenizer and the model with lazy weights, and builds the graph of a forward pass. No
    weights are read.

    Args:
        directory: The model's files.
        name: Its name in errors.
        options: How it is loaded; ``None`` for the defaults.

    Returns:
        Its tokenizer, and the size of the last axis of its logits.

    Raises:
        ModelFormatError: The model cannot be loaded.
        AdapterError: The adapter cannot be read, or belongs to another model.
    """
    options = options or LoadOptions()
    problem = file_problem(directory, options.trust_remote_code)
    if problem is not None:
        raise problem.error(name)
    if options.adapter_path is not None:
        check_adapter(options.adapter_path, name)
    try:
        model, tokenizer = _load_lazily(directory, options)
        if options.adapter_path is not None:
            apply_adapter(whole_model(model), options.adapter_path, name)
        logits = model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model))
        return tokenizer, int(logits.shape[-1])
    except AdapterError:
        raise
    except (Exception, SystemExit) as error:
        # Modules of mlx-lm that lack a dependency raise SystemExit.
        raise ModelFormatError(f"{name!r} cannot be loaded: {error}", model=name) from error


def check_cache(
    directory: Path, name: str, options: CacheOptions, load_options: LoadOptions | None = None
) -> None:
    """Check that the cache of a loadable model supports options. No weights are read.

    Raises:
        ModelFormatError: It does not.
    """
    model, _ = _load_lazily(directory, load_options or LoadOptions())
    try:
        PromptCaches(model, options)
    except InvalidOptionError as error:
        raise ModelFormatError(f"{name!r} cannot be loaded: {error}", model=name) from error


def _load_lazily(directory: Path, options: LoadOptions) -> tuple[Module, TokenizerWrapper]:
    """Load a model without its weights and adapter, with the library that will run it."""
    config = _object(directory / "config.json") or {}
    if is_speech_model(config):
        speech = load_speech_model(os.fspath(directory), config, name=directory.name, lazy=True)
        return speech.decoder, speech.engine_tokenizer
    if is_multimodal(config):
        try:
            parts = load_multimodal(
                directory, config, lazy=True, tokenizer_arguments=options.tokenizer_arguments
            )
        except Exception:
            if not _is_of_mlx_lm(config):
                raise
        else:
            return parts.model, parts.tokenizer
    loaded = mlx_lm.load(
        os.fspath(directory),
        tokenizer_config=options.tokenizer_arguments,
        lazy=True,
        trust_remote_code=options.trust_remote_code,
    )
    return cast("tuple[Module, TokenizerWrapper]", loaded[:2])


def damaged_file(directory: Path) -> tuple[Path, str] | None:
    """Return a file in a model's directory that cannot be read, and why; ``None`` if all can be.

    Called after a model failed to load. The libraries that read these files raise errors of many
    kinds, and few of these errors name the file.
    """
    for name in _JSON_FILES:
        path = directory / name
        try:
            if path.is_file() and not isinstance(json.loads(path.read_text("utf-8")), dict):
                return path, "it is not a JSON object"
        except (OSError, ValueError, RecursionError) as error:
            return path, str(error)
    path = directory / "tokenizer.json"
    try:
        if path.is_file():
            Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises a bare Exception.
        return path, str(error)
    return None


def _needed(package: str, extra: str) -> FileProblem:
    return FileProblem(f"it requires {package}: pip install 'proxy-engine[{extra}]'")


def _is_of_mlx_lm(config: Mapping[str, Any]) -> bool:
    return _problem_of_mlx_lm(config) is None


def _problem_of_mlx_lm(config: Mapping[str, Any]) -> FileProblem | None:
    """Return why mlx-lm cannot load models of a configuration; ``None`` if it has the module."""
    module = _module_name(str(config.get("model_type")), config.get("architectures"))
    if not re.fullmatch(r"[\w-]+", module):
        module = ""
    return _module_problem(module, str(config.get("model_type")))


@functools.cache
def _module_problem(module: str, model_type: str) -> FileProblem | None:
    unknown = FileProblem(f"mlx-lm has no architecture {model_type!r}", is_unsupported=True)
    name = f"mlx_lm.models.{module}"
    if not module or importlib.util.find_spec(name) is None:
        return unknown
    try:
        return None if hasattr(importlib.import_module(name), "Model") else unknown
    except SystemExit:
        # The module has printed the name of the package.
        return FileProblem(f"the architecture {model_type!r} requires a package that is missing")
    except Exception as error:
        return FileProblem(f"mlx-lm cannot import the architecture {model_type!r}: {error}")


def _module_name(model_type: str, architectures: object) -> str:
    """Return mlx-lm's module for an architecture, by mlx-lm's own tables."""
    by_architecture = getattr(mlx_lm.utils, "MODEL_ARCHITECTURE_REMAPPING", {})
    for architecture in architectures if isinstance(architectures, list) else (architectures,):
        if isinstance(architecture, str) and (model_type, architecture) in by_architecture:
            return str(by_architecture[model_type, architecture])
    return str(mlx_lm.utils.MODEL_REMAPPING.get(model_type, model_type))


def _tokenizer_problem(directory: Path, config: Mapping[str, Any]) -> str | None:
    if not has_tokenizer_files(config):
        return None
    if not any(path for pattern in _TOKENIZER_FILES for path in directory.glob(pattern)):
        return "there are no tokenizer files"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        path = directory / name
        # tokenizer.json is large: it is parsed only when it is loaded.
        if path.is_file() and not path.stat().st_size:
            return f"{name} is empty"
    return None


def _object(path: Path) -> Mapping[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None
