"""How long an answer may take, by a clock that the tests move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.generation import Deadline, sampler_schedule
from proxy_engine.generation.sampler_schedule import end_boost


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sampler_schedule, "time", clock)
    return clock


def test_no_speed_is_known_at_first(clock: Clock) -> None:
    deadline = Deadline(110)
    assert deadline.tokens_left(0) is None
    clock.now = 104
    assert deadline.tokens_left(1) is None
    assert not deadline.is_over


def test_as_many_tokens_as_there_is_time_for(clock: Clock) -> None:
    deadline = Deadline(110)
    deadline.tokens_left(1)
    clock.now = 102
    # Two seconds for two tokens, and a tenth in reserve: eight seconds are for seven.
    assert deadline.tokens_left(3) == 7
    clock.now = 109.9
    assert deadline.tokens_left(10) == 0


def test_a_time_that_has_come_before_the_first_token(clock: Clock) -> None:
    deadline = Deadline(99)
    assert deadline.is_over
    assert deadline.tokens_left(0) == 0
    assert deadline.tokens_left(1) == 0


@given(soft=st.integers(1, 50), most=st.integers(1, 100), written=st.integers(0, 100))
def test_leaning_grows_from_nothing(soft: int, most: int, written: int) -> None:
    now, later = end_boost(written, soft, most), end_boost(written + 1, soft, most)
    assert (now == 0) == (written < soft)
    assert 0 <= now <= later <= 20
    if written >= most > soft:
        assert later == 20
