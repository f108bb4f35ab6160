"""Sequences that have left the batch while another thread computes their mask."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any
from weakref import WeakKeyDictionary

from ..answers.compile_queue import CompileJob, CompileQueue
from ..generation import SequenceState


class SlowMasks:
    """Sequences with their caches while their masks are computed. To be used by one thread.

    Args:
        compile_queue: Shared with compilations: the job with the least processor time runs first.
        threads: Compute the masks.
    """

    def __init__(self, compile_queue: CompileQueue, threads: ThreadPoolExecutor) -> None:
        self._compile_queue = compile_queue
        self._threads = threads
        self._sequences: dict[SequenceState, tuple[list[Any], Future[None]]] = {}
        self._jobs: WeakKeyDictionary[SequenceState, CompileJob] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(list(self._sequences))

    def __contains__(self, sequence: SequenceState) -> bool:
        return sequence in self._sequences

    def add(self, sequence: SequenceState, cache: list[Any], cancelled: threading.Event) -> None:
        """Add a sequence, and compute its mask unless ``cancelled`` is set."""
        job = self._jobs.setdefault(sequence, CompileJob(self._compile_queue, cancelled))
        self._sequences[sequence] = cache, self._threads.submit(job.run, sequence.compute_mask)

    def finished(self) -> list[tuple[SequenceState, list[Any], BaseException | None]]:
        """Return the sequences whose masks are computed, with cache and error, if any."""
        return [
            (sequence, cache, mask.exception())
            for sequence, (cache, mask) in self._sequences.items()
            if mask.done()
        ]

    def remove(self, sequence: SequenceState) -> list[Any]:
        """Remove a sequence and return its cache."""
        return self._sequences.pop(sequence)[0]

    def clear(self) -> None:
        """Remove all sequences."""
        self._sequences.clear()

    def wait(self, seconds: float) -> None:
        """Wait until a mask is computed, at most for ``seconds``."""
        masks = [mask for _, mask in self._sequences.values()]
        wait(masks, seconds, return_when=FIRST_COMPLETED)
