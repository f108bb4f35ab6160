"""The vocabulary of a model, cached on disk."""

from __future__ import annotations

import os
from pathlib import Path

from state_machines import Vocabulary, VocabularyCache

from .cache_directory import cache_directory
from .loading import LoadedModel

# Files that transformers may read a tokenizer from.
_PATTERNS = ("*token*.json", "*token*.py", "*.model", "*.tiktoken", "vocab.*", "merges.txt")


def vocabulary_of(loaded: LoadedModel, *, cached: bool = True) -> Vocabulary:
    """Return the vocabulary of a model's tokenizer, as wide as the model's logits.

    Args:
        loaded: The model.
        cached: Read it from ``vocabularies`` in the cache directory, or write it there.

    Raises:
        VocabularyError: The tokenizer is not supported.
    """
    tokenizer, size = loaded.tokenizer, loaded.logits_width
    try:
        directory = cache_directory() / "vocabularies" if cached else None
    except RuntimeError:  # The user has no home directory.
        directory = None
    if directory is None:
        return Vocabulary.from_tokenizer(tokenizer, size=size)
    files = () if loaded.directory is None else tokenizer_files(loaded.directory)
    return VocabularyCache(directory).from_tokenizer(tokenizer, files=files, size=size)


def tokenizer_files(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the tokenizer's files in a model's directory, sorted by name.

    Empty without a ``tokenizer.json``: files in other formats do not identify a tokenizer.
    """
    folder = Path(directory)
    if not (folder / "tokenizer.json").is_file():
        return []
    found = {path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)
