"""Loading of language models: with mlx-lm, and of known checkpoints without transformers.

mlx-lm imports transformers, which takes longer than reading a small model. So what it has found
out about a checkpoint is stored in the cache directory: the module of the model, and the facts of
the tokenizer, with its backend where that differs from ``tokenizer.json``. An entry belongs to the
content of the files, the options of loading, and the versions of the libraries.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten
from tokenizers import Tokenizer

from state_machines.compiled_library import cache_directory

from ..runtime.cache_directory import build_once
from .kinds import ModelParts
from .load_options import LoadOptions
from .tokenizer import CachedTokenizer, is_equal, tokenizer_facts

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a language model; a ``PartsLoader``."""
    directory = Path(path)
    entry = None
    if directory.is_dir() and not options.trust_remote_code:
        arguments = [options.tokenizer_arguments(), dict(options.config_overrides)]
        entry = entry_directory(directory, arguments)
    known = None if entry is None else find(entry, directory)
    if known is not None:
        parts = _known_parts(known, options)
        if parts is not None:
            return parts
    loaded = _load_with_mlx_lm(path, options)
    if entry is not None and known is None and _is_plain(directory, loaded, options):
        remember(entry, directory, type(loaded.model).__module__, loaded.tokenizer)
    return loaded


def _load_with_mlx_lm(path: str, options: LoadOptions) -> ModelParts:
    # Deferred: it imports transformers.
    import mlx_lm  # noqa: PLC0415

    loaded = mlx_lm.load(
        path,
        tokenizer_config=options.tokenizer_arguments(),
        model_config=dict(options.config_overrides),
        lazy=True,
        return_config=True,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
    )
    return ModelParts(*loaded)


def _known_parts(known: KnownCheckpoint, options: LoadOptions) -> ModelParts | None:
    """Load a known checkpoint; ``None`` if it cannot be read."""

    def load_tokenizer() -> TokenizerWrapper:
        from mlx_lm.utils import load_tokenizer  # noqa: PLC0415 - it imports transformers.

        loaded: TokenizerWrapper = load_tokenizer(
            known.directory, options.tokenizer_arguments(), config.get("eos_token_id")
        )
        return loaded

    try:
        model, config = plain_model(known.directory, known.architecture, options.config_overrides)
        tokenizer: Any = known.tokenizer(load_tokenizer)
    except Exception:
        # mlx-lm reads the same files, and states what is wrong with them.
        return None
    return ModelParts(model, tokenizer, config)


def plain_model(
    directory: Path, architecture: str, overrides: Mapping[str, Any]
) -> tuple[Module, dict[str, Any]]:
    """Load a checkpoint in mlx-lm's own form, with lazy weights.

    Args:
        directory: The model's files.
        architecture: The module of the model.
        overrides: Entries that replace those of ``config.json``.

    Returns:
        The model and its configuration.

    Raises:
        Exception: The checkpoint has another form.
    """
    module = importlib.import_module(architecture)
    config = {**_configuration(directory), **overrides}
    weights: dict[str, mx.array] = {}
    for file in directory.glob("model*.safetensors"):
        found = mx.load(str(file))
        if not isinstance(found, dict):
            raise TypeError(f"{file.name} has no names of weights")
        weights |= found
    model: Module = module.Model(module.ModelArgs.from_dict(config))
    if hasattr(model, "sanitize"):
        weights = model.sanitize(weights)
    quantization = config.get("quantization")
    if quantization is not None:

        def is_quantized(path: str, layer: Module) -> bool | dict[str, Any]:
            if path in quantization:
                own: bool | dict[str, Any] = quantization[path]
                return own
            return hasattr(layer, "to_quantized") and f"{path}.scales" in weights

        quantize(
            model,
            group_size=quantization["group_size"],
            bits=quantization["bits"],
            mode=quantization.get("mode", "affine"),
            class_predicate=is_quantized,
        )
    model.eval()
    model.load_weights(list(weights.items()))
    return model, config


def _configuration(directory: Path) -> dict[str, Any]:
    """Return ``config.json`` with the end tokens of ``generation_config.json``, as mlx-lm does."""
    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    generation = directory / "generation_config.json"
    if generation.is_file():
        ends = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id")
        config |= {"eos_token_id": ends} if ends else {}
    return config


def _is_plain(directory: Path, loaded: ModelParts, options: LoadOptions) -> bool:
    """Whether ``plain_model`` loads the same model as mlx-lm, without reading weights."""
    try:
        architecture = type(loaded.model).__module__
        model, config = plain_model(directory, architecture, options.config_overrides)
    except Exception:
        return False
    return config == loaded.config and _described(model) == _described(loaded.model)


def _described(model: Module) -> dict[str, Any]:
    """Return the types of a model's layers, and the shapes and types of its weights."""
    layers: list[tuple[str, Any]] = model.named_modules()
    weights = cast("list[tuple[str, Any]]", tree_flatten(model.parameters()))
    described: dict[str, Any] = {
        name: (type(layer), *(getattr(layer, key, None) for key in ("group_size", "bits", "mode")))
        for name, layer in layers
    }
    return described | {name: (array.shape, array.dtype) for name, array in weights}


_LAYOUT = 2
"""Part of an entry's name. A change of its content increments it."""

_FACTS = "facts.json"
_BACKEND = "tokenizer.json"
_LIBRARIES = ("mlx-lm", "transformers", "tokenizers")
_FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.py")
"""Files of a checkpoint besides the weights."""


@dataclass(frozen=True, slots=True)
class KnownCheckpoint:
    """An entry of the cache.

    Attributes:
        directory: The model's files.
        entry: The directory of the entry.
        architecture: The module of the model.
        facts: The facts of the tokenizer.
    """

    directory: Path
    entry: Path
    architecture: str
    facts: Mapping[str, Any]

    def tokenizer(self, load: Callable[[], TokenizerWrapper]) -> CachedTokenizer:
        """Read the tokenizer.

        Args:
            load: Loads it with mlx-lm.

        Raises:
            Exception: The file cannot be read.
        """
        own = self.entry / _BACKEND
        file = own if own.is_file() else self.directory / _BACKEND
        return CachedTokenizer(Tokenizer.from_file(str(file)), self.facts, load)


def entry_directory(directory: Path, arguments: Sequence[Mapping[str, Any]]) -> Path | None:
    """Return the directory of a checkpoint's entry, which need not exist; ``None`` without a cache.

    Args:
        directory: The model's files.
        arguments: The options of loading.
    """
    try:
        versions = [metadata.version(name) for name in _LIBRARIES]
        settings = json.dumps([_LAYOUT, versions, arguments], sort_keys=True)
        digest = hashlib.sha256(settings.encode())
        for file in sorted({file for pattern in _FILES for file in directory.glob(pattern)}):
            digest.update(f"\n{file.name} {file.stat().st_size}\n".encode())
            digest.update(file.read_bytes())
        return cache_directory() / "checkpoints" / digest.hexdigest()[:32]
    except (OSError, RuntimeError, TypeError, ValueError):
        # No home directory, unreadable files, or arguments that are no JSON.
        return None


def find(entry: Path, directory: Path) -> KnownCheckpoint | None:
    """Return the entry of a checkpoint, if there is one."""
    try:
        known = json.loads((entry / _FACTS).read_text(encoding="utf-8"))
        return KnownCheckpoint(directory, entry, known["architecture"], known["tokenizer"])
    except (OSError, ValueError, KeyError):
        return None


def remember(entry: Path, directory: Path, architecture: str, wrapper: TokenizerWrapper) -> None:
    """Store what mlx-lm has found out, if the tokenizer can be read without transformers.

    Args:
        entry: The directory of the entry.
        directory: The model's files.
        architecture: The module of the model.
        wrapper: The tokenizer.
    """
    facts = tokenizer_facts(wrapper)
    if facts is None:
        return

    def build(partial: Path) -> None:
        if backend is not own:
            backend.save(str(partial / _BACKEND))
        content = json.dumps({"architecture": architecture, "tokenizer": facts})
        (partial / _FACTS).write_text(content, encoding="utf-8")

    # A cache that cannot be written is none. Templates may raise anything.
    with contextlib.suppress(Exception):
        file = directory / _BACKEND
        own = Tokenizer.from_file(str(file)) if file.is_file() else None
        backend = Tokenizer.from_str(wrapper._tokenizer.backend_tokenizer.to_str())
        if own is not None and _tokenizer_json(own) == _tokenizer_json(backend):
            backend = own
        # Facts that are no JSON would be changed by it.
        is_same = json.loads(json.dumps(facts)) == facts
        if is_same and is_equal(CachedTokenizer(backend, facts, lambda: wrapper), wrapper):
            build_once(entry, build)


def _tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the JSON of a tokenizer. A template without special tokens adds nothing to a text."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    described: dict[str, Any] = json.loads(tokenizer.to_str())
    post = described["post_processor"] or {}
    if post.get("type") == "TemplateProcessing" and not post["special_tokens"]:
        described["post_processor"] = None
    return described
