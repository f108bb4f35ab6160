"""Prompt caches on disk, shared by processes and restarts.

A cache with one entry per token is stored in blocks of 128 tokens. The name of a block is a digest
of the text up to its end, so a block is written once, whichever text it belongs to: the turns of a
conversation add blocks, and conversations share those of their system prompt. A lookup follows the
blocks from the beginning of the prompt. There is no index that processes would have to agree on.
Other caches, full sliding windows and recurrent states, are stored as whole states. Their names
begin with the length of the text, so a lookup computes one digest per stored length.

A text is written when a request reuses it, and when the engine is closed. So texts that are used
once, such as the records of an extraction, cause no writes while the engine runs.

Similar designs: LMCache (chunks by a chain of digests), SGLang's HiCache (write after the first
hit), vLLM's offloading of KV blocks.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from mlx_lm.models.cache import QuantizedKVCache

from ..format import (
    FORMAT,
    CacheContent,
    DamagedFileError,
    Snapshot,
    decode,
    encode,
    is_by_token,
    is_supported,
    restore,
    snapshot,
)
from ..layers import flat, token_counts
from ..store import TokenIds
from .files import DiskFiles

BLOCK_TOKENS = 128
"""Tokens of a block. Fewer tokens than these are neither written nor read: the processing of a
prompt's beginning costs little more than opening its file."""

_BLOCK, _QUANTIZED_BLOCK, _STATE = "b", "q", "s"
"""First letters of names. The prefix of a quantized text differs from that of a shorter one."""

_MAX_JOBS = 4
"""Queued writes, which keep arrays alive beside the bound of the memory."""


_WEIGHT = 0.3
"""Weight of a new measurement in the moving averages."""
_MIN_TOKENS = 16
"""Smallest measured pass. Smaller ones take as long as one token."""
_FORGET = 0.9
"""Factor on the cost of reading for each read that was not worthwhile, so that it is measured again
after some time."""

_log = logging.getLogger(__name__)


class ReadCost:
    """Moving averages of the measured cost of reading and of processing.

    Reading is worthwhile until both are known: on most devices a token takes longer to process than
    to read. A fast GPU processes the tokens of a small model faster than a disk delivers them.
    """

    def __init__(self) -> None:
        self._seconds_per_token: float | None = None
        self._seconds_per_byte: float | None = None

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """Take note of a pass over a prompt."""
        if tokens >= _MIN_TOKENS:
            self._seconds_per_token = _average(self._seconds_per_token, seconds / tokens)

    def observe_read(self, nbytes: int, seconds: float) -> None:
        """Take note of a read."""
        if nbytes:
            self._seconds_per_byte = _average(self._seconds_per_byte, seconds / nbytes)

    def is_worthwhile(self, nbytes: int, tokens: int) -> bool:
        """Whether reading ``nbytes`` is faster than processing ``tokens``."""
        if self._seconds_per_token is None or self._seconds_per_byte is None:
            return True
        if nbytes * self._seconds_per_byte <= tokens * self._seconds_per_token:
            return True
        self._seconds_per_byte *= _FORGET
        return False


class DiskCache:
    """The prompt caches of one model in a directory.

    To be used on the model thread. Errors of the file system are logged; they fail no request.

    Args:
        directory: The directory.
        facts: Properties that a model must share to use the caches.
        max_bytes: Bound on the size of all files, of every model.
        by_token: Whether the model's caches have one entry per token.
        fits: Whether a cache that was read fits the model.
    """

    def __init__(
        self,
        directory: Path,
        facts: Mapping[str, str],
        max_bytes: int,
        *,
        by_token: bool,
        fits: Callable[[Sequence[Any], int], bool],
    ) -> None:
        identity = json.dumps([FORMAT, BLOCK_TOKENS, dict(facts)], sort_keys=True)
        digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
        self._files = DiskFiles(directory, digest, max_bytes)
        self._by_token = by_token
        self._fits = fits
        self._writer = DiskWriter(_MAX_JOBS)
        self.cost = ReadCost()
        """The measured cost of reading and processing."""

    @property
    def directory(self) -> Path:
        """The directory of the model's files."""
        return self._files.directory

    def find(
        self, token_ids: TokenIds, *, above: int, max_bytes: int
    ) -> tuple[list[Any], int] | None:
        """Read the cache of the longest prefix of a text that is on disk.

        Args:
            token_ids: The text.
            above: Length of the prefix that is known already. A shorter gain than a block is not
                read.
            max_bytes: Bound on the size of the cache.

        Returns:
            The cache, and the length of the prefix; ``None`` if there is none.
        """
        token_ids = _without_media(token_ids)
        if len(token_ids) < above + BLOCK_TOKENS:
            return None
        stored = self._stored_names(token_ids, above + BLOCK_TOKENS)
        names, nbytes = self._readable(stored, max_bytes)
        length = _length(names[-1]) if names else 0
        gained = length - above
        if gained < BLOCK_TOKENS or not self.cost.is_worthwhile(nbytes, gained):
            return None
        started = time.perf_counter()
        contents = self._read(names)
        names = names[: len(contents)]
        length = _length(names[-1]) if names else 0
        if length < above + BLOCK_TOKENS:
            return None
        cache = self._restored(contents, names)
        self.cost.observe_read(nbytes, time.perf_counter() - started)
        return None if cache is None else (cache, length)

    def keep(self, token_ids: TokenIds, cache: Sequence[Any]) -> None:
        """Write a cache, or mark its files as used. Returns before the files are written.

        Args:
            token_ids: The text that the cache holds.
            cache: The cache, which may be extended afterwards.
        """
        names = self._names(token_ids, cache)
        if not names or not self._writer.accepts:
            return
        job = partial(self._files.touch, names)
        if not all(map(self._files.exists, names)):
            try:
                job = partial(self._write, names, snapshot(cache))
            except Exception as error:
                # Whatever is wrong with the arrays is raised by the request's own passes.
                _log.warning("prompt caches are not written to disk: %s", error)
                self.close()
        self._writer.submit(job)

    def keep_all(self, texts: Sequence[tuple[TokenIds, Sequence[Any]]], seconds: float) -> None:
        """Write caches within a time, and wait for all writes."""
        deadline = time.monotonic() + seconds
        for token_ids, cache in texts:
            if not self._writer.wait_for_room(deadline):
                break
            self.keep(token_ids, cache)
        self.wait(max(0.0, deadline - time.monotonic()))

    def wait(self, seconds: float) -> bool:
        """Wait until everything is written; returns whether that was reached in time."""
        return self._writer.wait(seconds)

    def clear(self) -> None:
        """Remove the model's files."""
        self._writer.drop_jobs()
        self._files.clear()

    def close(self) -> None:
        """Drop what is not written, and end the thread."""
        self._writer.close()

    def _names(self, token_ids: TokenIds, cache: Sequence[Any]) -> list[str]:
        """Return the names of the files that a cache is written to; none if it is not written."""
        count = len(token_ids)
        known = _without_media(token_ids)
        if not is_supported(cache) or token_counts(cache) - {count}:
            return []
        if self._by_token and is_by_token(cache):
            is_quantized = any(isinstance(layer, QuantizedKVCache) for layer in flat(cache))
            ends = range(BLOCK_TOKENS, len(known) + 1, BLOCK_TOKENS)
            return list(_named(_QUANTIZED_BLOCK if is_quantized else _BLOCK, known, ends))
        is_whole = len(known) == count >= BLOCK_TOKENS
        return list(_named(_STATE, known, [count])) if is_whole else []

    def _stored_names(self, token_ids: TokenIds, min_length: int) -> list[str]:
        """Return the names of the files that hold the longest stored prefix of a text."""
        if not self._by_token:
            return self._stored_state(token_ids, min_length)
        ends = range(BLOCK_TOKENS, len(token_ids) + 1, BLOCK_TOKENS)
        best: list[str] = []
        for kind in (_BLOCK, _QUANTIZED_BLOCK):
            found = list(takewhile(self._files.exists, _named(kind, token_ids, ends)))
            best = max(best, found, key=len)
        return best

    def _stored_state(self, token_ids: TokenIds, min_length: int) -> list[str]:
        names = self._files.names()
        found = {_length(name) for name in names if name.startswith(_STATE)}
        lengths = sorted(n for n in found if min_length <= n <= len(token_ids))
        known = [name for name in _named(_STATE, token_ids, lengths) if name in names]
        return known[-1:]

    def _readable(self, names: Sequence[str], max_bytes: int) -> tuple[list[str], int]:
        """Return the first files that fit into ``max_bytes``, and their size."""
        found, total = [], 0
        for name in names:
            nbytes = self._files.nbytes(name)
            if nbytes is None or total + nbytes > max_bytes:
                break
            found.append(name)
            total += nbytes
        return found, total

    def _read(self, names: Sequence[str]) -> list[CacheContent]:
        """Read files up to the first missing or damaged file."""
        contents: list[CacheContent] = []
        for name in names:
            content = self._files.read(name)
            if content is None:
                break
            try:
                decoded = decode(content)
                if decoded.metadata.get("name") != name:
                    raise DamagedFileError("it has been renamed")
                contents.append(decoded)
            except DamagedFileError as error:
                path = self._files.path(name)
                _log.warning("removed a damaged prompt cache, %s: %s", path, error)
                self._files.remove(name)
                break
        return contents

    def _restored(self, contents: Sequence[CacheContent], names: Sequence[str]) -> list[Any] | None:
        """Return the cache of files, and mark them as used; ``None`` if it does not fit."""
        length = _length(names[-1])
        try:
            cache = restore(contents, length)
            if not self._fits(cache, length):
                raise ValueError("it does not fit the model's cache")
        except Exception as error:
            # Not damaged, but written by a version with the same identity and another cache.
            _log.warning("removed a prompt cache, %s: %s", self._files.path(names[-1]), error)
            for name in names:
                self._files.remove(name)
            return None
        self._files.touch(names)
        return cache

    def _write(self, names: Sequence[str], cache: Snapshot) -> None:
        """Write the files that do not exist. On the writer's thread."""
        known = []
        for name in names:
            if self._writer.is_closed:
                return
            if self._files.exists(name):
                known.append(name)
                continue
            end = _length(name)
            tokens = None if name.startswith(_STATE) else slice(end - BLOCK_TOKENS, end)
            if not self._files.write(name, encode(cache, {"name": name}, tokens)):
                return
        self._files.touch(known)


def _named(kind: str, token_ids: TokenIds, ends: Sequence[int]) -> Iterator[str]:
    """Iterate over the names of prefixes, by their lengths in ascending order."""
    digest = hashlib.sha256()
    start = 0
    for end in ends:
        digest.update(token_ids[start:end].astype("<i8").tobytes())
        start = end
        yield f"{kind}{end}-{digest.hexdigest()}"


def _length(name: str) -> int:
    """Return the length of a text by the name of its file; 0 for a foreign file."""
    length = name[1:].partition("-")[0]
    return int(length) if length.isdecimal() else 0


def _without_media(token_ids: TokenIds) -> TokenIds:
    """Return the text before the first image or recording.

    The identity of a model does not contain the settings of its image processor.
    """
    media = token_ids < 0
    return token_ids[: int(np.argmax(media))] if media.any() else token_ids


def _average(average: float | None, value: float) -> float:
    return value if average is None else average + _WEIGHT * (value - average)


class DiskWriter:
    """Runs jobs in order on its own thread. A full queue refuses further jobs.

    The first error of a job is logged and disables the writer.

    Args:
        max_jobs: Maximum number of queued jobs.
    """

    def __init__(self, max_jobs: int) -> None:
        self._max_jobs = max_jobs
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @property
    def accepts(self) -> bool:
        """Whether :meth:`submit` would accept a job."""
        return not self._is_closed and len(self._jobs) < self._max_jobs

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or a job failed. Long jobs check this."""
        return self._is_closed

    def submit(self, job: Callable[[], None]) -> bool:
        """Queue a job, if there is room."""
        with self._changed:
            if not self.accepts:
                return False
            self._jobs.append(job)
            if self._thread is None:
                # A daemon, so that the program can end.
                self._thread = threading.Thread(
                    target=self._run, name="proxy-engine-disk", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()
        return True

    def drop_jobs(self) -> None:
        """Drop the queued jobs."""
        with self._changed:
            self._jobs.clear()

    def wait(self, seconds: float) -> bool:
        """Wait until no job is left; returns whether that was reached in time."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not (self._jobs or self._is_busy) or self._is_closed, seconds
            )

    def wait_for_room(self, deadline: float) -> bool:
        """Wait until a job would be accepted, until a time by the clock of ``time.monotonic``."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.accepts or self._is_closed, deadline - time.monotonic()
            )
            return self.accepts

    def close(self) -> None:
        """Refuse further jobs, drop queued jobs, and end the thread after the current job."""
        with self._changed:
            self._is_closed = True
            self._jobs.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if self._is_closed:
                    return
                job = self._jobs.popleft()
                self._is_busy = True
            try:
                job()
            except Exception as error:
                # Caches save time: whatever is wrong with them fails no request.
                _log.warning("prompt caches are no longer written to disk: %s", error)
                self.close()
            # Do not keep the job's arrays alive while waiting for the next one.
            del job
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
