"""Checkpoints that mlx-lm has loaded before: what it found out, in the cache directory.

mlx-lm imports transformers, which takes longer than reading a small model. So what it has found
out about a checkpoint is stored: the module of the model, and the facts of the tokenizer, with its
backend where that differs from ``tokenizer.json``. An entry belongs to the content of the files,
the options of loading, and the versions of the libraries.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from state_machines.compiled_library import cache_directory

from ..runtime.cache_directory import build_once
from .cached_tokenizer import CachedTokenizer, is_equal, tokenizer_facts

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

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
        if own is not None and _described(own) == _described(backend):
            backend = own
        # Facts that are no JSON would be changed by it.
        is_same = json.loads(json.dumps(facts)) == facts
        if is_same and is_equal(CachedTokenizer(backend, facts, lambda: wrapper), wrapper):
            build_once(entry, build)


def _described(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the JSON of a tokenizer. A template without special tokens adds nothing to a text."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    described: dict[str, Any] = json.loads(tokenizer.to_str())
    post = described["post_processor"] or {}
    if post.get("type") == "TemplateProcessing" and not post["special_tokens"]:
        described["post_processor"] = None
    return described
