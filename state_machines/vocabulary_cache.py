"""Vocabularies on disk, with the arrays that their first mask needs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from state_machines.errors import VocabularyError
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary import LAYOUT, Vocabulary
from state_machines.vocabulary.array_file import PARTIAL_SUFFIX
from state_machines.vocabulary.tokenizer_reader import fingerprint, token_count

_VOCABULARY_FILES = 8
"""Files of a vocabulary cache directory."""

MIN_TOKENS = 4096
"""Tokens below which reading a file is no faster than reading the tokenizer."""

_SUFFIX = ".vocabulary"
_ABANDONED_AFTER = 3600.0
"""Seconds after which a partial file belongs to a process that was killed."""

_LOGGER = logging.getLogger(__name__)


class VocabularyCache:
    """Vocabularies as files of one directory. Safe for several threads and processes.

    A file that is damaged, foreign or unreadable is written again; a file that cannot be written is
    logged and skipped.

    Args:
        directory: The directory; created when a file is written.
        max_files: Number of files that are kept, the last used ones. A vocabulary of 151,000 tokens
            takes 10 MB.
        min_tokens: Smaller tokenizers are always read directly, which is as fast.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_files: int = _VOCABULARY_FILES,
        min_tokens: int = MIN_TOKENS,
    ) -> None:
        self._directory = Path(directory)
        self._max_files = max_files
        self._min_tokens = min_tokens

    def from_tokenizer(
        self,
        tokenizer: object,
        *,
        files: Iterable[str | os.PathLike[str]] = (),
        end_token_ids: Iterable[int] | None = None,
        size: int | None = None,
    ) -> Vocabulary:
        """Return the result of :meth:`Vocabulary.from_tokenizer`, from disk if it is there.

        Args:
            tokenizer: As for ``Vocabulary.from_tokenizer``.
            files: Files that the tokenizer was loaded from, such as ``tokenizer.json``. They are
                hashed to identify the vocabulary; without them all tokens are read, which takes ten
                times as long.
            end_token_ids: As for ``Vocabulary.from_tokenizer``.
            size: As for ``Vocabulary.from_tokenizer``.

        Raises:
            VocabularyError: As for ``Vocabulary.from_tokenizer``.
        """
        ends = None if end_token_ids is None else frozenset(end_token_ids)
        if token_count(tokenizer) < self._min_tokens:
            return Vocabulary.from_tokenizer(tokenizer, end_token_ids=ends, size=size)
        path = self._path(tokenizer, list(files), ends, size)
        vocabulary = self._load(path)
        if vocabulary is None:
            vocabulary = Vocabulary.from_tokenizer(tokenizer, end_token_ids=ends, size=size)
            self._save(vocabulary, path)
        return vocabulary

    def _path(
        self,
        tokenizer: object,
        files: list[str | os.PathLike[str]],
        ends: frozenset[int] | None,
        size: int | None,
    ) -> Path:
        try:
            name = fingerprint(tokenizer, files=files, end_token_ids=ends, size=size)
        except OSError as error:
            _LOGGER.info("Reading the tokens, since a file is unreadable: %s", error)
            name = fingerprint(tokenizer, end_token_ids=ends, size=size)
        return self._directory / f"{LAYOUT}-{name}{_SUFFIX}"

    def _load(self, path: Path) -> Vocabulary | None:
        try:
            vocabulary = Vocabulary.load(path)
        except FileNotFoundError:
            return None
        except (VocabularyError, OSError) as error:
            _LOGGER.warning("Replacing a cached vocabulary that is unusable: %s", error)
            return None
        with suppress(OSError):  # The directory may be read-only; then no file is removed either.
            os.utime(path)
        return vocabulary

    def _save(self, vocabulary: Vocabulary, path: Path) -> None:
        MaskStore.of(vocabulary)  # Derives the arrays that every mask needs.
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            vocabulary.save(path)
        except OSError as error:
            _LOGGER.info("Cannot write a vocabulary to the cache: %s", error)
            return
        self._remove_old()

    def _remove_old(self) -> None:
        """Remove the least recently used files, and partial files of processes that were killed."""
        used: list[tuple[float, Path]] = []
        with suppress(OSError):
            for path in self._directory.iterdir():
                with suppress(OSError):
                    changed = path.stat().st_mtime
                    if path.suffix == _SUFFIX:
                        used.append((changed, path))
                    elif path.suffix == PARTIAL_SUFFIX and _is_abandoned(changed):
                        path.unlink()
        for _, path in sorted(used, reverse=True)[self._max_files :]:
            with suppress(OSError):
                path.unlink()


def _is_abandoned(changed: float) -> bool:
    return time.time() - changed > _ABANDONED_AFTER
