"""Token limits of parts, and deadlines on a clock that the tests move."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from proxy_engine import GenerationOptions, PartOptions
from proxy_engine.generation import Deadline, PartLimits, SequenceSamplers
from proxy_engine.generation import limits as limits_module
from samplers import make_sampler
from state_machines.root import Text


def test_resampled_token_counts_once_towards_the_limit_of_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = PartLimits({"text": PartOptions(max_tokens=3)}, None, 100)
    ended: list[int] = []
    monkeypatch.setattr(limits_module, "_end_texts", lambda _: ended.append(written))
    # Rejected tokens are sampled again; forced tokens are not sampled.
    text = Text()
    for written in (0, 0, 0, 1, 1, 2, 2, 4):
        limits.apply(text, written, None)
    assert ended == [4]


def test_parts_with_other_parameters_draw_independent_numbers() -> None:
    parts = {"text": PartOptions(temperature=0.9), "reasoning": PartOptions()}
    options = GenerationOptions(temperature=1.0, seed=3, parts=parts)
    of_sequence = SequenceSamplers(options)
    places: list[Any] = [
        SimpleNamespace(part_name=part, temperature=None)
        for part in ("structured", "text", "reasoning")
    ]
    samplers = [of_sequence.plain(place) for place in places]
    assert samplers[0] is samplers[2]
    uniform = mx.zeros(1000)
    tokens = [[sampler(uniform, []).item() for _ in range(8)] for sampler in samplers[:2]]
    assert not set(tokens[0]) & set(tokens[1])
    # Without parts that differ, the seed gives the tokens of a plain sampler.
    plain = make_sampler(GenerationOptions(temperature=1.0, seed=3).sampling())
    assert [plain(uniform, []).item() for _ in range(8)] == tokens[0]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(limits_module, "time", clock)
    return clock


def test_deadline_is_unbounded_until_the_speed_is_known(clock: Clock) -> None:
    deadline = Deadline(110)
    assert deadline.tokens_left(0) is None
    clock.now = 104
    assert deadline.tokens_left(1) is None
    assert not deadline.is_over


def test_deadline_estimates_the_remaining_tokens_with_a_reserve(clock: Clock) -> None:
    deadline = Deadline(110)
    deadline.tokens_left(1)
    clock.now = 102
    # One second per token and a reserve of a tenth: seven tokens in the remaining eight seconds.
    assert deadline.tokens_left(3) == 7
    clock.now = 109.9
    assert deadline.tokens_left(10) == 0


def test_passed_deadline_leaves_no_tokens(clock: Clock) -> None:
    deadline = Deadline(99)
    assert deadline.is_over
    assert deadline.tokens_left(0) == 0
    assert deadline.tokens_left(1) == 0
