"""Checks of a model's files, without reading the weights."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx_lm
import mlx_lm.utils
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import Tokenizer

from ..errors import ModelFormatError
from ..extras import is_installed
from ..multimodal.loading import is_multimodal, load_multimodal, unsupported
from ..transcription.loading import has_tokenizer_files, is_speech_model, load_speech_model

_JSON_FILES = ("config.json", "tokenizer_config.json")

# A model has at least one of these files.
_TOKENIZER_FILES = ("tokenizer.json", "*.model", "*.tiktoken", "vocab.*")
_MAX_HEADER_BYTES = 100 << 20
"""The limit of the safetensors format."""


def file_problem(directory: Path) -> str | None:
    """Return why a model's files cannot be loaded; ``None`` if no problem is found.

    Checks the configuration, the index and headers of the weights, and the names of the tokenizer's
    files, in milliseconds.
    """
    try:
        return (
            _config_problem(directory)
            or _weights_problem(directory)
            or _tokenizer_problem(directory)
        )
    except OSError as error:
        return f"{error.filename or directory} cannot be read: {error.strerror}"


def check_loadable(directory: Path, name: str) -> tuple[TokenizerWrapper, int]:
    """Check that a model can be loaded, in about a second and with little memory.

    Loads the tokenizer and the model with lazy weights, and builds the graph of a forward pass. No
    weights are read.

    Returns:
        Its tokenizer, and the size of the last axis of its logits.

    Raises:
        ModelFormatError: The model cannot be loaded.
    """
    problem = file_problem(directory)
    if problem is not None:
        raise ModelFormatError(f"{name!r} cannot be loaded: {problem}", model=name)
    try:
        model, tokenizer = _load_lazily(directory)
        logits = model(mx.zeros((1, 1), mx.int32), cache=make_prompt_cache(model))
        return tokenizer, int(logits.shape[-1])
    except (Exception, SystemExit) as error:
        # Modules of mlx-lm that lack a dependency raise SystemExit.
        raise ModelFormatError(f"{name!r} cannot be loaded: {error}", model=name) from error


def _load_lazily(directory: Path) -> tuple[Module, TokenizerWrapper]:
    """Load a model without its weights, with the library that will run it."""
    config = _object(directory / "config.json") or {}
    if is_speech_model(config):
        speech = load_speech_model(os.fspath(directory), config, name=directory.name, lazy=True)
        return speech.decoder, speech.engine_tokenizer
    if is_multimodal(config):
        try:
            parts = load_multimodal(directory, config, lazy=True)
        except Exception:
            if not _is_of_mlx_lm(config):
                raise
        else:
            return parts.model, parts.tokenizer
    loaded = mlx_lm.load(os.fspath(directory), lazy=True)
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


def _config_problem(directory: Path) -> str | None:
    config = _object(directory / "config.json")
    if config is None:
        return "config.json is not a JSON object"
    if config.get("model_file") is not None:
        return "it requires custom code (model_file), which is not run"
    if is_speech_model(config):
        return None if is_installed("audio") else _needed("mlx-audio", "audio")
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        return "config.json has no model_type"
    if _is_of_mlx_lm(config):
        return None
    if not is_multimodal(config):
        return f"mlx-lm has no architecture {model_type!r}"
    if not is_installed("vision"):
        return _needed("mlx-vlm", "vision")
    return unsupported(config)


def _needed(package: str, extra: str) -> str:
    return f"it requires {package}: pip install 'proxy-engine[{extra}]'"


def _is_of_mlx_lm(config: Mapping[str, Any]) -> bool:
    module = _module_name(str(config.get("model_type")), config.get("architectures"))
    return bool(
        re.fullmatch(r"[\w-]+", module) and importlib.util.find_spec(f"mlx_lm.models.{module}")
    )


def _module_name(model_type: str, architectures: object) -> str:
    """Return mlx-lm's module for an architecture, by mlx-lm's own tables."""
    by_architecture = getattr(mlx_lm.utils, "MODEL_ARCHITECTURE_REMAPPING", {})
    for architecture in architectures if isinstance(architectures, list) else (architectures,):
        if isinstance(architecture, str) and (model_type, architecture) in by_architecture:
            return str(by_architecture[model_type, architecture])
    return str(mlx_lm.utils.MODEL_REMAPPING.get(model_type, model_type))


def _weights_problem(directory: Path) -> str | None:
    files = sorted(directory.glob("model*.safetensors"))
    if not files:
        return "there is no model*.safetensors"
    found: set[str] = set()
    for file in files:
        names = _tensor_names(file)
        if names is None:
            return f"{file.name} is damaged or incomplete"
        found |= names
    index = directory / "model.safetensors.index.json"
    if not index.is_file():
        return None
    weight_map = (_object(index) or {}).get("weight_map")
    if not isinstance(weight_map, Mapping):
        return f"{index.name} is damaged"
    missing = {str(name) for name in weight_map.values()} - {file.name for file in files}
    # An outdated index is harmless, since mlx-lm does not read it.
    return f"{min(missing)} is missing" if missing and weight_map.keys() - found else None


def _tensor_names(file: Path) -> set[str] | None:
    """Return the tensor names of a safetensors file; ``None`` if the file is damaged.

    The file starts with the header's length in eight bytes and the header in JSON. The header has
    the offsets of all tensors in the bytes behind it.
    """
    size = file.stat().st_size
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, _MAX_HEADER_BYTES):
            return None
        try:
            header = json.loads(handle.read(length))
            names = header.keys() - {"__metadata__"}
            end = max((int(header[name]["data_offsets"][1]) for name in names), default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return None
    return names if end <= size - 8 - length else None


def _tokenizer_problem(directory: Path) -> str | None:
    if not has_tokenizer_files(_object(directory / "config.json") or {}):
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
