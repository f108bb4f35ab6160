"""Draft lengths maximise the expected tokens in a given time."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from proxy_engine.generation.speculation.draft_length import (
    FAST_CPU,
    GPU,
    SLOW_CPU,
    PassCost,
    RowOutlook,
    batch_lengths,
    draft_length,
    expected_tokens,
)

RATES = st.floats(0, 1)
COSTS = st.builds(PassCost, st.floats(0, 100), per_draft_token=st.floats(0, 0.5))
ROWS = st.lists(
    st.builds(RowOutlook, RATES, st.integers(0, 16), st.integers(1, 6)), min_size=1, max_size=6
)


def speed(rate: float, length: int, cost: PassCost, pending: int = 1) -> float:
    time = cost.of_pass(pending + length) + cost.of_draft(length)
    return (pending - 1 + expected_tokens(rate, length)) / time


@given(RATES, st.integers(0, 16))
def test_expected_tokens_are_a_geometric_sum(rate: float, drafted: int) -> None:
    assert math.isclose(
        expected_tokens(rate, drafted), sum(rate**i for i in range(drafted + 1)), rel_tol=1e-6
    )


@given(RATES, COSTS, st.integers(0, 64), st.integers(1, 8))
def test_draft_is_within_its_limit_and_never_slower_than_none(
    rate: float, cost: PassCost, at_most: int, pending: int
) -> None:
    length = draft_length(rate, cost, at_most, pending=pending)
    assert 0 <= length <= at_most
    assert speed(rate, length, cost, pending) >= speed(rate, 0, cost, pending) * (1 - 1e-9)


@given(RATES, RATES, COSTS, st.integers(0, 64))
def test_length_grows_with_the_rate(one: float, other: float, cost: PassCost, at_most: int) -> None:
    low, high = sorted((one, other))
    assert draft_length(low, cost, at_most) <= draft_length(high, cost, at_most)


@given(RATES, st.floats(0, 50), st.floats(0, 50), st.integers(0, 16))
def test_length_grows_as_tokens_become_cheaper(
    rate: float, one: float, other: float, at_most: int
) -> None:
    low, high = sorted((one, other))
    assert draft_length(rate, PassCost(low), at_most) <= draft_length(rate, PassCost(high), at_most)


def test_drafter_without_chances_does_not_draft() -> None:
    for cost in (FAST_CPU, SLOW_CPU, GPU):
        assert draft_length(0, cost, 16) == 0


def test_drafts_never_pay_where_each_token_costs_a_pass() -> None:
    assert draft_length(0.9, SLOW_CPU, 16) == 0
    assert draft_length(1, PassCost(0), 16) == 0


def test_cheap_passes_have_long_drafts() -> None:
    assert draft_length(0.95, FAST_CPU, 16) == 16
    assert draft_length(0.75, GPU, 16) > draft_length(0.75, FAST_CPU, 16) > 3


def test_time_of_a_draft_counts() -> None:
    assert draft_length(0.2, FAST_CPU, 16) > 0
    assert draft_length(0.2, PassCost(12, per_draft_token=0.3), 16) == 0
    slow_drafts = PassCost(12, per_draft_token=0.5)
    assert draft_length(0.8, slow_drafts, 16) < draft_length(0.8, FAST_CPU, 16)


def log_speed(rows: list[RowOutlook], lengths: list[int], cost: PassCost) -> float:
    """The logarithm of the product of the rows' speeds; a pass is as wide as its longest draft."""
    drafting = zip(rows, lengths, strict=True)
    width = max([1] + [row.pending + length for row, length in drafting if length])
    time = cost.of_pass(width * len(rows)) + max(map(cost.of_draft, lengths))
    return sum(
        math.log((min(width, row.pending) - 1 + expected_tokens(row.rate, length)) / time)
        for row, length in zip(rows, lengths, strict=True)
    )


@given(ROWS, COSTS)
def test_drafts_of_a_batch_are_within_their_limits_and_not_slower_than_none(
    rows: list[RowOutlook], cost: PassCost
) -> None:
    assume(len(rows) > 1)
    lengths = batch_lengths(rows, cost, pads=False)
    for row, length in zip(rows, lengths, strict=True):
        assert 0 <= length <= row.at_most
    none = log_speed(rows, [0] * len(rows), cost)
    assert log_speed(rows, lengths, cost) >= none - 1e-6


@given(ROWS, COSTS)
def test_rows_have_their_own_lengths_where_padding_is_free(
    rows: list[RowOutlook], cost: PassCost
) -> None:
    assert batch_lengths(rows, cost, pads=True) == [
        draft_length(row.rate, cost, row.at_most, pending=row.pending) for row in rows
    ]


@given(st.integers(2, 8))
def test_bad_row_neither_drafts_nor_widens_the_pass(count: int) -> None:
    good = [RowOutlook(0.9, 16)] * (count - 1)
    alone = batch_lengths(good, FAST_CPU, pads=False)
    *lengths, bad = batch_lengths([*good, RowOutlook(0.02, 16)], FAST_CPU, pads=False)
    assert bad == 0
    assert max(lengths) <= max(alone)


def test_single_good_row_does_not_slow_many_others() -> None:
    rows = [RowOutlook(0.99, 16), *[RowOutlook(0.0, 0)] * 7]
    assert batch_lengths(rows, FAST_CPU, pads=False) == [0] * 8


def test_rows_that_all_draft_well_share_a_wide_pass() -> None:
    lengths = batch_lengths([RowOutlook(0.95, 16)] * 4, FAST_CPU, pads=False)
    assert min(lengths) >= 4


def test_batch_without_rows_has_no_drafts() -> None:
    assert batch_lengths([], FAST_CPU, pads=False) == []
