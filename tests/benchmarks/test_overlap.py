"""Traces of requests: forward passes and the CPU work during them."""

from __future__ import annotations

import pytest
from overlap import flights, overlapped

from proxy_engine import Span

RUNNING_AHEAD = [
    Span("prompt", 0, 0, 10),
    Span("prompt", 0, 10, 12),
    Span("mask", 0, 12, 14),
    Span("sample", 0, 14, 15),
    # The next pass begins before the token is read that was chosen by the one before.
    Span("dispatch", 0, 15, 16),
    Span("wait", 1, 16, 20),
    Span("advance", 1, 20, 21),
    Span("mask", 1, 21, 24),
    Span("sample", 1, 24, 25),
    Span("dispatch", 1, 25, 26),
    Span("wait", 2, 26, 30),
]
ONE_BY_ONE = [
    Span("prompt", 0, 0, 2),
    Span("mask", 0, 2, 4),
    Span("sample", 0, 4, 5),
    Span("wait", 0, 5, 8),
    Span("advance", 0, 8, 10),
    Span("dispatch", 0, 10, 11),
    Span("mask", 1, 11, 12),
]


def test_pass_lasts_until_its_token_is_read() -> None:
    assert flights(RUNNING_AHEAD) == [(0, 10, 20), (1, 15, 30)]
    assert flights(ONE_BY_ONE) == [(0, 0, 8)]
    assert flights([]) == []


def test_work_within_a_pass_is_counted_once() -> None:
    assert overlapped(RUNNING_AHEAD) == 1
    assert overlapped(ONE_BY_ONE) == pytest.approx(2 / 5)
    assert overlapped([]) == 0
