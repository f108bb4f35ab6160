"""Times of one request, by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ..results.parts import Span

Phase = Literal["prompt", "mask", "sample", "draft", "dispatch", "wait", "advance"]


@dataclass(slots=True)
class Timings:
    """Times of one request in seconds, by the clock of ``time.perf_counter``.

    Sequences of one batch share the phases ``dispatch`` and ``wait``.

    Attributes:
        started: When generation began.
        first_token: When the first sampled token was read; ``None`` before that.
        ended: When generation ended; ``None`` before that.
        is_traced: Record ``spans``.
        step: Forward passes so far.
        seconds: Seconds by phase, counted from the first token on.
        spans: Start and end of every piece of work, relative to ``started``.
    """

    started: float = field(default_factory=time.perf_counter)
    first_token: float | None = None
    ended: float | None = None
    is_traced: bool = False
    step: int = 0
    seconds: dict[Phase, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    def add(self, phase: Phase, started: float, ended: float) -> None:
        """Record a piece of work."""
        first = self.first_token
        if first is not None and started >= first:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + ended - started
        if self.is_traced:
            begin = self.started
            self.spans.append(Span(phase, self.step, started - begin, ended - begin))

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Record the work of a ``with`` block."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(phase, started, time.perf_counter())

    def end(self) -> None:
        """Record the end of generation."""
        if self.ended is None:
            self.ended = time.perf_counter()

    def of(self, *phases: Phase) -> float:
        """Return the seconds of some phases together, after the first token."""
        return sum(self.seconds.get(phase, 0.0) for phase in phases)

    @property
    def prompt(self) -> float:
        """Seconds until the first token; 0 if there was none."""
        return 0.0 if self.first_token is None else self.first_token - self.started

    @property
    def completion(self) -> float:
        """Seconds after the first token, or from the beginning if there was none."""
        ended = time.perf_counter() if self.ended is None else self.ended
        return ended - self.started - self.prompt
