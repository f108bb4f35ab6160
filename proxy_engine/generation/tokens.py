"""What the loop gives: tokens, and where its time went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from state_machines.root import Part

from ..results import Span, TokenLogprobs

__all__ = ["Phase", "Timings", "Token"]

Phase = Literal["prompt", "mask", "sample", "dispatch", "wait", "advance"]


@dataclass(frozen=True, slots=True)
class Token:
    """A generated token. The last one of a request has a finish reason.

    ``is_forced``: it was the only way to go on, and was not sampled. ``part``: the part of the
    answer that it most likely belongs to, where the answer has several.
    """

    token_id: int
    finish_reason: Literal["stop", "length"] | None = None
    is_forced: bool = False
    part: Part | None = None
    logprobs: TokenLogprobs | None = None


@dataclass(slots=True)
class Timings:
    """Where the time of one request went, by the clock of ``time.perf_counter``.

    Seconds by phase after the first token; rows of one batch share what they wait for. ``spans``
    are what was done when, if ``is_traced``.
    """

    started: float = field(default_factory=time.perf_counter)
    first_token: float | None = None
    is_traced: bool = False
    step: int = 0
    seconds: dict[Phase, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    def add(self, phase: Phase, started: float, ended: float) -> None:
        """Note that something was done."""
        if self.first_token is not None:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + ended - started
        if self.is_traced:
            begin = self.started
            self.spans.append(Span(phase, self.step, started - begin, ended - begin))

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Note how long something takes that is done within."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.add(phase, started, time.perf_counter())

    def of(self, *phases: Phase) -> float:
        """Seconds of some phases after the first token."""
        return sum(self.seconds.get(phase, 0.0) for phase in phases)

    @property
    def prompt(self) -> float:
        """Seconds until the first token; 0 where there was none."""
        return 0.0 if self.first_token is None else self.first_token - self.started
