"""The vocabulary of a model: from the cache on disk where its tokenizer was seen before."""

from __future__ import annotations

import os
from pathlib import Path

from state_machines import Vocabulary, VocabularyCache

from .cache_directory import cache_directory
from .loading import LoadedModel

__all__ = ["tokenizer_files", "vocabulary_of"]

# Whatever may tell transformers the tokens of a model.
_PATTERNS = ("*token*.json", "*token*.py", "*.model", "*.tiktoken", "vocab.*", "merges.txt")


def vocabulary_of(loaded: LoadedModel, *, cached: bool = True) -> Vocabulary:
    """The vocabulary of a model's tokenizer, as wide as the model's logits.

    With ``cached`` it is looked for, and else put, in ``vocabularies`` of the cache directory.
    Raises ``VocabularyError`` where the tokenizer cannot be understood.
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
    """The files of a model's directory that a tokenizer is read from, ordered by name.

    Empty without a ``tokenizer.json``: what a tokenizer was converted from is not looked at.
    """
    folder = Path(directory)
    if not (folder / "tokenizer.json").is_file():
        return []
    found = {path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()}
    return sorted(found)
