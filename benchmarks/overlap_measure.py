"""Trace one request step by step, and measure the share of mask time hidden by forward passes.

A trace shows the CPU work between a pass's dispatch and its result, but not whether the device is
busy all that time. Masks are therefore delayed by sleeping; the part of the delay that does not
delay tokens is hidden.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from alternation import settle
from documents import Document, passage
from overlap import overlapped
from stacks.ours import sampling_options
from subject import Subject

from state_machines import JsonSchemaStateMachine, Matcher, Vocabulary
from state_machines.grammar.node import Node
from state_machines.machine import StateMachine

__all__ = ["hidden", "trace"]

_PART_OF_A_TOKEN = 0.25


def trace(subject: Subject, document: Document) -> dict[str, Any]:
    """Return the engine's trace and usage of one request with a new schema."""
    subject.forget()
    ours = subject.ours
    request, script = subject.about(document)
    settle()
    subject.model.follow(script, request.prompt_ids)
    try:
        result = ours.generate(request, trace=True)
    finally:
        subject.model.follow(None)
    phases: dict[str, list[list[float]]] = {}
    for span in result.trace:
        times = [round(seconds * 1000, 3) for seconds in (span.started, span.ended)]
        phases.setdefault(span.name, []).append([span.step, *times])
    return {
        "model": subject.name,
        "document": document.name,
        "usage": {
            name: value if isinstance(value, int) else _short(value)
            for name, value in asdict(result.usage).items()
            if isinstance(value, int | float)
        },
        "overlapped": _short(overlapped(result.trace)),
        # By phase: the step, and milliseconds since the request was begun.
        "spans": phases,
    }


def hidden(subject: Subject, *, tokens: int, repeats: int) -> dict[str, Any]:
    """Return how much later tokens come when every mask takes a quarter of their time longer.

    The thread sleeps for that; on a CPU, too, the model has the cores to itself then.
    """
    plain: list[float] = []
    later: list[float] = []
    slept: list[float] = []
    for _ in range(repeats + 1):
        plain.append(_token_seconds(subject, tokens, lambda: None))
        sleep = _Sleep(_PART_OF_A_TOKEN * float(np.median(plain)))
        later.append(_token_seconds(subject, tokens, sleep) - plain[-1])
        slept.append(sleep.mean)
    # The first repeat warmed caches that a running server has.
    added, delay = (float(np.median(values[1:])) for values in (later, slept))
    return {
        "token_ms": _short(float(np.median(plain[1:])) * 1000),
        "delay_ms": _short(delay * 1000),
        "added_ms": _short(added * 1000),
        "hidden": _short(1 - added / delay),
        "repeats": repeats,
    }


def _token_seconds(subject: Subject, tokens: int, before: Callable[[], None]) -> float:
    script = subject.script(json.dumps(passage(subject.tokenizer, tokens)))
    request = subject.request(subject.prompt("Tell a story."), None, script.tokens + 64)
    machine = _Delayed(JsonSchemaStateMachine({"type": "string"}).start, before)
    settle()
    subject.model.follow(script, request.prompt_ids)
    try:
        result = subject.ours.engine.generate(
            subject.ours.prompt_of(request),
            response_format=machine,
            max_tokens=request.max_tokens,
            **sampling_options(request.sampling),
        )
    finally:
        subject.model.follow(None)
    return 1 / result.usage.completion_tokens_per_second


class _Sleep:
    """Sleeps for some seconds when it is called, and measures how long it was: never less."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._slept: list[float] = []

    @property
    def mean(self) -> float:
        return sum(self._slept) / max(1, len(self._slept))

    def __call__(self) -> None:
        started = time.perf_counter()
        time.sleep(self._seconds)
        self._slept.append(time.perf_counter() - started)


class _Delayed(StateMachine):
    """A machine before whose masks something else is done."""

    def __init__(self, start: Node, before: Callable[[], None]) -> None:
        super().__init__(start)
        self._before = before

    def matcher(self, vocabulary: Vocabulary) -> Matcher:
        return _DelayedMatcher(self.start, vocabulary, self._before)


class _DelayedMatcher(Matcher):
    __slots__ = ("_before",)

    def __init__(self, start: Node, vocabulary: Vocabulary, before: Callable[[], None]) -> None:
        super().__init__(start, vocabulary)
        self._before = before

    def allowed_tokens(self, *, steps: int | None = None) -> npt.NDArray[np.bool_]:
        self._before()
        return super().allowed_tokens(steps=steps)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
