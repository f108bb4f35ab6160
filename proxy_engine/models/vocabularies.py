"""The vocabulary of a model, cached on disk."""

from __future__ import annotations

import os
from pathlib import Path

from mlx_lm.tokenizer_utils import TokenizerWrapper

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
    return read_vocabulary(loaded.tokenizer, loaded.logits_width, loaded.directory, cached=cached)


def read_vocabulary(
    tokenizer: TokenizerWrapper, size: int, directory: Path | None, *, cached: bool = True
) -> Vocabulary:
    """Return the vocabulary of a tokenizer.

    Args:
        tokenizer: The tokenizer.
        size: The size of the last axis of the model's logits.
        directory: The directory of the tokenizer's files, if known.
        cached: As in :func:`vocabulary_of`.

    Raises:
        VocabularyError: The tokenizer is not supported.
    """
    try:
        caches = cache_directory() / "vocabularies" if cached else None
    except RuntimeError:  # The user has no home directory.
        caches = None
    if caches is None:
        return Vocabulary.from_tokenizer(tokenizer, size=size)
    files = () if directory is None else tokenizer_files(directory)
    return VocabularyCache(caches).from_tokenizer(tokenizer, files=files, size=size)


def tokenizer_files(directory: str | os.PathLike[str]) -> list[Path]:
    """Return the tokenizer's files in a model's directory, sorted by name.

    Empty without a ``tokenizer.json``: files in other formats do not identify a tokenizer.
    """
    folder = Path(directory)
    if not (folder / "tokenizer.json").is_file():
        return []
    found = {path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)
