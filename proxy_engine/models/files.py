"""The files of a model, without its weights: facts of ``config.json``, and checks of all files."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mlx.nn.layers.base import Module
from safetensors import SafetensorError, safe_open

from ..errors import ModelFormatError, UnsupportedArchitectureError
from ..runtime.extras import Extra, is_installed
from .kinds import (
    MEDIA_KEYS,
    SPEECH_FILES,
    has_tokenizer_files,
    is_multimodal,
    is_speech_model,
    unsupported,
)

Modality: TypeAlias = Literal["text", "image", "audio"]
"""A kind of content in prompts."""

_TEXT_KEYS = ("text_config", "llm_config", "language_config")
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "model_dim", "dim", "hidden_dim")
_LENGTH_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx")

TEXT_FILES = ("model*.safetensors",)
"""Files of weights that mlx-lm reads."""

_MEDIA_FILES = ("*.safetensors",)
"""Files of weights that mlx-vlm reads, besides Mistral's own form."""

_MISTRAL_FILE = "consolidated.safetensors"
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")

# A model has at least one of these files.
_TOKENIZER_FILES = ("tokenizer.json", "*.model", "*.tiktoken", "vocab.*")


@dataclass(frozen=True, slots=True)
class FileProblem:
    """Why a model's files cannot be loaded.

    Attributes:
        what: The reason.
        is_unsupported: Whether no library supports the architecture, so that other files of the
            same model cannot be loaded either.
        missing_extra: The extra whose installation solves the problem.
    """

    what: str
    is_unsupported: bool = False
    missing_extra: Extra | None = None

    def error(self, model: str) -> ModelFormatError:
        """Return the error of loading ``model``."""
        kind = UnsupportedArchitectureError if self.is_unsupported else ModelFormatError
        return kind(f"{model!r} cannot be loaded: {self.what}", model=model)


def file_problem(
    directory: Path, trusts_code: bool = False, overrides: Mapping[str, Any] | None = None
) -> FileProblem | None:
    """Return why a model's files cannot be loaded; ``None`` if no problem is found.

    Checks the configuration, the architecture, the names and headers of the weights, and the names
    of the tokenizer's files, in milliseconds. The first model of an architecture takes longer,
    since its module is imported.

    Args:
        directory: The directory.
        trusts_code: Whether code of the checkpoint may be run.
        overrides: Entries that replace those of ``config.json``.
    """
    try:
        config = read_object(directory / "config.json")
        if config is None:
            return FileProblem("config.json is not a JSON object")
        config |= overrides or {}
        problem = config_problem(config, trusts_code)
        if problem is not None:
            return problem
        what = _weights_problem(directory, config)
        # A tokenizer in code may have files of any name.
        if what is None and has_tokenizer_files(config) and not trusts_code:
            what = _tokenizer_problem(directory)
    except FileNotFoundError as error:
        what = f"there is no {Path(error.filename).name}"
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
        what = "it requires custom code (model_file), which is run with trust_remote_code=True only"
        return None if trusts_code else FileProblem(what, is_unsupported=True)
    if is_speech_model(config):
        return None if is_installed("audio") else _missing_extra("mlx-audio", "audio")
    if not isinstance(config.get("model_type"), str):
        return FileProblem("config.json has no model_type")
    problem = _problem_of_mlx_lm(config)
    if problem is None or not is_multimodal(config):
        return problem
    if not is_installed("vision"):
        return _missing_extra("mlx-vlm", "vision")
    reason = unsupported(config)
    if reason is None:
        return None
    what = f"models of type {config['model_type']!r} are not supported: {reason}"
    return FileProblem(what, is_unsupported=True)


def weight_patterns(config: Mapping[str, Any]) -> Sequence[str]:
    """Return the patterns of a model's weight files; files of the first that matches are read.

    Args:
        config: The content of ``config.json``.
    """
    if is_speech_model(config):
        return SPEECH_FILES
    reads_media = is_installed("vision") and is_multimodal(config)
    return _MEDIA_FILES if reads_media else TEXT_FILES


def weight_files(directory: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the weight files that are loaded, sorted.

    Raises:
        OSError: The directory cannot be read.
    """
    for pattern in weight_patterns(config):
        files = [path for path in directory.glob(pattern) if path.name != _MISTRAL_FILE]
        if files:
            return sorted(files)
    return []


def is_intact(file: Path) -> bool:
    """Whether a file of weights has the size that its header, or its directory, states.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        if file.suffix == ".npz":
            zipfile.ZipFile(file).close()
        else:
            with safe_open(file, framework="numpy"):
                pass
    except (SafetensorError, zipfile.BadZipFile):
        return False
    return True


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; ``None`` if the file contains none.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _missing_extra(package: str, extra: Extra) -> FileProblem:
    what = f"it requires {package}: pip install 'proxy-engine[{extra}]'"
    return FileProblem(what, missing_extra=extra)


def _problem_of_mlx_lm(config: Mapping[str, Any]) -> FileProblem | None:
    """Return why mlx-lm cannot load models of a configuration; ``None`` if it has the module."""
    model_type = config["model_type"]
    try:
        if model_type.isidentifier() and importlib.util.find_spec(f"mlx_lm.models.{model_type}"):
            module = importlib.import_module(f"mlx_lm.models.{model_type}")
            _ = module.Model, module.ModelArgs
        else:
            # Deferred: it imports transformers.
            from mlx_lm.utils import _get_classes  # noqa: PLC0415

            _get_classes(dict(config))
    except (ValueError, AttributeError):
        return FileProblem(f"mlx-lm has no architecture {model_type!r}", is_unsupported=True)
    except SystemExit:
        # The module has printed the name of the package.
        return FileProblem(f"the architecture {model_type!r} requires a package that is missing")
    except Exception as error:
        return FileProblem(f"mlx-lm cannot import the architecture {model_type!r}: {error}")
    return None


def _weights_problem(directory: Path, config: Mapping[str, Any]) -> str | None:
    files = weight_files(directory, config)
    if not files:
        return f"there is no {' or '.join(weight_patterns(config))}"
    for file in files:
        if not is_intact(file):
            return f"{file.name} is damaged or incomplete"
    missing = _missing_shards({file.name for file in files})
    return f"{min(missing)} is missing" if missing else None


def _missing_shards(names: Iterable[str]) -> set[str]:
    """Return the shards whose existence is implied by a name such as ``model-00001-of-00002``."""
    expected = set[str]()
    for shard in filter(None, map(_SHARD.fullmatch, names)):
        stem, _, count = shard.groups()
        numbers = range(1, int(count) + 1)
        expected |= {f"{stem}-{number:05}-of-{count}.safetensors" for number in numbers}
    return expected.difference(names)


def _tokenizer_problem(directory: Path) -> str | None:
    if not any(path for pattern in _TOKENIZER_FILES for path in directory.glob(pattern)):
        return "there are no tokenizer files"
    settings = directory / "tokenizer_config.json"
    if settings.is_file() and read_object(settings) is None:
        return f"{settings.name} is not a JSON object"
    # tokenizer.json is large: it is parsed only when it is loaded.
    tokenizer = directory / "tokenizer.json"
    is_empty = tokenizer.is_file() and not tokenizer.stat().st_size
    return f"{tokenizer.name} is empty" if is_empty else None


def input_modalities(config: Mapping[str, Any]) -> frozenset[Modality]:
    """Return the kinds of content that a model reads, without loading it.

    The processor of a loaded model knows it exactly. A model that requires an extra that is not
    installed reads text only. A speech model reads recordings only.
    """
    if is_speech_model(config):
        return frozenset({"audio"})
    text: frozenset[Modality] = frozenset({"text"})
    if not is_installed("vision") or not is_multimodal(config) or unsupported(config) is not None:
        return text
    return text.union(
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
    # Beside the configuration of the text model, the same key can belong to an image encoder.
    return _stated(_WIDTH_KEYS, [*_text_parts(config), config])


def _text_parts(config: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (part for key in _TEXT_KEYS if isinstance(part := config.get(key), Mapping))


def _stated(keys: Iterable[str], sources: Iterable[Mapping[str, Any]]) -> int | None:
    values = (source.get(key) for source in sources for key in keys)
    return next((value for value in values if isinstance(value, int) and value > 0), None)
