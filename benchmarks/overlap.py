"""CPU work during the forward passes of one request, from its trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from proxy_engine import Span

__all__ = ["CPU_WORK", "Flight", "busiest", "flights", "overlapped"]

CPU_WORK = ("mask", "advance")
"""Phases that can overlap with a forward pass."""

Flight = tuple[int, float, float]
"""A pass: its number, the start of its dispatch, and the time its token was read."""


def flights(spans: Sequence[Span]) -> list[Flight]:
    """Return the passes of a request, the last one over its prompt first.

    A choice is by the passes that were dispatched before it was described; they are over when it
    has been waited for.
    """
    begun: list[Span] = []
    ends: dict[int, float] = {}
    decided = 0
    for span in spans:
        if span.name == "prompt":
            begun = [span]
        elif span.name == "dispatch":
            begun.append(span)
        elif span.name == "sample":
            decided = len(begun)
        elif span.name == "wait":
            for number in range(decided):
                ends.setdefault(number, span.ended)
    return [
        (number, span.started, ends[number]) for number, span in enumerate(begun) if number in ends
    ]


def overlapped(spans: Sequence[Span], phases: Collection[str] = CPU_WORK) -> float:
    """Return which part of the time of some phases lies within a pass of a request."""
    passes = flights(spans)
    work = [span for span in spans if span.name in phases]
    within = sum(_covered(span.started, span.ended, passes) for span in work)
    total = sum(span.ended - span.started for span in work)
    return within / total if total else 0.0


def _covered(started: float, ended: float, passes: Sequence[Flight]) -> float:
    """Return how much of a stretch of time lies within passes, which come by their beginnings."""
    covered = 0.0
    for _, begun, over in passes:
        begun = max(begun, started)
        if begun < min(over, ended):
            covered += min(over, ended) - begun
            started = min(over, ended)
    return covered


def busiest(spans: Sequence[Span], steps: int) -> int:
    """Return the first of the ``count`` consecutive steps with the most CPU work."""
    work: dict[int, float] = {}
    for span in spans:
        if span.name in CPU_WORK:
            work[span.step] = work.get(span.step, 0.0) + span.ended - span.started
    firsts = range(max(work, default=0) - steps + 2) or range(1)
    return max(firsts, key=lambda first: sum(work.get(first + step, 0.0) for step in range(steps)))
