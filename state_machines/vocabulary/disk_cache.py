"""Vocabularies of tokenizers that were seen before, kept on disk ready for their first mask."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from state_machines.errors import VocabularyError
from state_machines.limits import LIMITS
from state_machines.masks.mask_store import MaskStore
from state_machines.vocabulary import LAYOUT, Vocabulary
from state_machines.vocabulary.array_file import PARTIAL_SUFFIX
from state_machines.vocabulary.fingerprint import fingerprint
from state_machines.vocabulary.tokenizer_reader import token_count

__all__ = ["VocabularyCache"]

SMALLEST = 4096
_SUFFIX = ".safetensors"
_ABANDONED_AFTER = 3600.0
"""Seconds after which nobody can still be writing a file."""

_LOGGER = logging.getLogger(__name__)


class VocabularyCache:
    """Vocabularies as files of one directory. Safe for several threads and processes.

    ``max_files`` are kept, those that were used last; one of 151,000 tokens takes 10 MB.
    Tokenizers of fewer than ``smallest`` tokens are left out: reading a file saves nothing there.

    The cache never stands in the way: a file that is damaged, foreign or cannot be read is made
    anew, and what cannot be written is only logged (see its logger).
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_files: int = LIMITS.vocabulary_files,
        smallest: int = SMALLEST,
    ) -> None:
        self._directory = Path(directory)
        self._max_files = max_files
        self._smallest = smallest

    def from_tokenizer(
        self,
        tokenizer: object,
        *,
        files: Iterable[str | os.PathLike[str]] = (),
        end_token_ids: Iterable[int] | None = None,
        size: int | None = None,
    ) -> Vocabulary:
        """Return what :meth:`Vocabulary.from_tokenizer` would, from disk if it is there.

        ``files`` are those that the tokenizer was loaded from: a ``tokenizer.json``, and whatever
        else told it its tokens. They are hashed to find out which vocabulary it is; without them
        all tokens are read, which takes ten times as long.

        Raises :class:`VocabularyError` as :meth:`Vocabulary.from_tokenizer` does.
        """
        ends = None if end_token_ids is None else frozenset(end_token_ids)
        if token_count(tokenizer) < self._smallest:
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
            _LOGGER.info("the tokenizer is read, since its files cannot be: %s", error)
            name = fingerprint(tokenizer, end_token_ids=ends, size=size)
        return self._directory / f"{LAYOUT}-{name}{_SUFFIX}"

    def _load(self, path: Path) -> Vocabulary | None:
        try:
            vocabulary = Vocabulary.load(path)
        except FileNotFoundError:
            return None
        except (VocabularyError, OSError) as error:
            _LOGGER.warning("a vocabulary is made anew: %s", error)
            return None
        with suppress(OSError):  # Where nothing may be written, nothing is removed either.
            os.utime(path)
        return vocabulary

    def _save(self, vocabulary: Vocabulary, path: Path) -> None:
        MaskStore.of(vocabulary)  # Derives what every mask needs, to be saved along.
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            vocabulary.save(path)
        except OSError as error:
            _LOGGER.info("a vocabulary is not kept: %s", error)
            return
        self._remove_old()

    def _remove_old(self) -> None:
        """Keep the files that were used last, and none that a killed process has half written."""
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
