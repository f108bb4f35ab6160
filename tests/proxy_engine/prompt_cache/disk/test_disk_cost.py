"""Caches are read if that is faster than processing."""

from __future__ import annotations

from proxy_engine.prompt_cache.disk.disk_cache import ReadCost


def test_unknown_costs_permit_reading() -> None:
    cost = ReadCost()
    assert cost.is_worthwhile(10**9, 1)
    cost.observe_read(1000, 1.0)
    assert cost.is_worthwhile(10**9, 1)


def test_cheaper_way_is_chosen() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 1.0)
    cost.observe_prefill(100, 1.0)
    assert cost.is_worthwhile(1000, 100)
    assert not cost.is_worthwhile(1000, 90)


def test_slow_read_is_tried_again() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 10.0)
    cost.observe_prefill(100, 1.0)
    tries = [cost.is_worthwhile(1000, 100) for _ in range(50)]
    assert not tries[0]
    assert tries[-1]


def test_short_passes_are_not_measured() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 10.0)
    cost.observe_prefill(1, 0.001)
    assert cost.is_worthwhile(10**6, 1)
