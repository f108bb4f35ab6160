"""Draft lengths maximise the expected tokens in a given time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from architectures import small_model
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine.generation.speculation import draft_length as draft_length_module
from proxy_engine.generation.speculation.draft_length import (
    FAST_CPU,
    SLOW_CPU,
    RowOutlook,
    StepCosts,
    batch_lengths,
    device_base,
    draft_length,
    expected_tokens,
)
from proxy_engine.generation.speculation.drafting import AcceptanceRate

RATES = st.floats(0, 1)
BASES = st.floats(0, 100)
DRAFT_COSTS = st.floats(0, 0.5)
ROWS = st.lists(
    st.builds(RowOutlook, RATES, st.integers(0, 16), st.integers(1, 6)), min_size=1, max_size=6
)


def speed(rate: float, length: int, base: float, pending: int, draft_cost: float) -> float:
    time = (base + pending + length) / (base + 1) + length * draft_cost
    return (pending - 1 + expected_tokens(rate, length)) / time


@given(RATES, st.integers(0, 16))
def test_expected_tokens_are_a_geometric_sum(rate: float, drafted: int) -> None:
    assert math.isclose(
        expected_tokens(rate, drafted), sum(rate**i for i in range(drafted + 1)), rel_tol=1e-6
    )


@given(RATES, BASES, st.integers(0, 64), st.integers(1, 8), DRAFT_COSTS)
def test_draft_is_within_its_limit_and_never_slower_than_none(
    rate: float, base: float, at_most: int, pending: int, draft_cost: float
) -> None:
    length = draft_length(rate, base, at_most, pending=pending, draft_cost=draft_cost)
    assert 0 <= length <= at_most
    none = speed(rate, 0, base, pending, draft_cost)
    assert speed(rate, length, base, pending, draft_cost) >= none * (1 - 1e-9)


@given(RATES, RATES, BASES, st.integers(0, 64))
def test_length_grows_with_the_rate(one: float, other: float, base: float, at_most: int) -> None:
    low, high = sorted((one, other))
    assert draft_length(low, base, at_most) <= draft_length(high, base, at_most)


@given(RATES, st.floats(0, 50), st.floats(0, 50), st.integers(0, 16))
def test_length_grows_as_tokens_become_cheaper(
    rate: float, one: float, other: float, at_most: int
) -> None:
    low, high = sorted((one, other))
    assert draft_length(rate, low, at_most) <= draft_length(rate, high, at_most)


def test_drafts_never_pay_where_each_token_costs_a_pass() -> None:
    assert draft_length(0.9, SLOW_CPU, 16) == 0
    assert draft_length(1, 0.0, 16) == 0


def log_speed(rows: list[RowOutlook], lengths: list[int], base: float) -> float:
    """The logarithm of the product of the rows' speeds; a pass is as wide as its longest draft."""
    drafting = zip(rows, lengths, strict=True)
    width = max([1] + [row.pending + length for row, length in drafting if length])
    time = (base + width * len(rows)) / (base + 1)
    return sum(
        math.log((min(width, row.pending) - 1 + expected_tokens(row.rate, length)) / time)
        for row, length in zip(rows, lengths, strict=True)
    )


@given(ROWS, BASES)
@example([RowOutlook(0.5, 1, 3), RowOutlook(0.25, 1, 1), RowOutlook(0.25, 1, 1)], 15.0)
def test_drafts_of_a_batch_are_within_their_limits_and_not_slower_than_none(
    rows: list[RowOutlook], base: float
) -> None:
    assume(len(rows) > 1)
    lengths = batch_lengths(rows, base, pads=False)
    for row, length in zip(rows, lengths, strict=True):
        assert 0 <= length <= row.at_most
    none = log_speed(rows, [0] * len(rows), base)
    assert log_speed(rows, lengths, base) >= none - 1e-6


@given(ROWS, BASES)
def test_rows_have_their_own_lengths_where_padding_is_free(
    rows: list[RowOutlook], base: float
) -> None:
    assert batch_lengths(rows, base, pads=True) == [
        draft_length(row.rate, base, row.at_most, pending=row.pending) for row in rows
    ]


@given(st.integers(2, 8))
def test_bad_row_neither_drafts_nor_widens_the_pass(count: int) -> None:
    good = [RowOutlook(0.9, 16)] * (count - 1)
    alone = batch_lengths(good, FAST_CPU, pads=False)
    *lengths, bad = batch_lengths([*good, RowOutlook(0.02, 16)], FAST_CPU, pads=False)
    assert bad == 0
    assert max(lengths) <= max(alone)


def test_rows_that_all_draft_well_share_a_wide_pass() -> None:
    lengths = batch_lengths([RowOutlook(0.95, 16)] * 4, FAST_CPU, pads=False)
    assert min(lengths) >= 4


@pytest.mark.parametrize("architecture", ["mamba", "falcon_h1", "lfm2", "deepseek_v41"])
def test_recurrent_states_make_drafts_shorter(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a CPU without a fast BLAS, no draft pays anyway.
    monkeypatch.setattr(draft_length_module, "has_fast_blas", lambda: True)
    base = StepCosts(make_prompt_cache(small_model(architecture))).base
    assert 0 < base < device_base()
    assert draft_length(0.9, base, 16) <= draft_length(0.9, device_base(), 16)


@pytest.mark.parametrize("architecture", ["qwen3", "gemma3_text", "llama4"])
def test_caches_that_drop_tokens_leave_drafts_as_long(architecture: str) -> None:
    assert StepCosts(make_prompt_cache(small_model(architecture))).base == device_base()


# Measured costs.


def measured(base: float, per_token: float, widths: Sequence[int], steps: int = 20) -> StepCosts:
    """Return costs after steps of one row, with a draft in every second one."""
    costs = StepCosts()
    for number in range(steps):
        drafted = widths[number % len(widths)] if number % 2 else 0
        tokens = 1 + drafted
        costs.record(tokens, base + per_token * tokens, is_drafted=drafted > 0)
    return costs


@given(st.floats(0.1, 30), st.floats(1e-5, 1), st.lists(st.integers(2, 9), min_size=2, max_size=5))
def test_measured_cost_is_that_of_linear_steps(
    base: float, per_token: float, widths: list[int]
) -> None:
    found = measured(base * per_token, per_token, widths).base
    assert found == pytest.approx(base, rel=0.1, abs=0.1)


def test_drafts_stop_where_steps_take_as_long_as_their_tokens() -> None:
    costs = measured(0, 0.001, [8], steps=8)
    assert draft_length(0.9, costs.base, 16) == 0


def test_drafts_are_tried_again_after_steps_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_length_module, "has_fast_blas", lambda: True)
    costs = measured(0, 0.001, [8], steps=8)
    waited = 0
    while not draft_length(0.9, costs.base, 16):
        costs.record(1, 0.001, is_drafted=False)
        waited += 1
    assert 10 < waited < 1000


def test_single_slow_step_does_not_end_drafts() -> None:
    costs = measured(0.012, 0.001, [8])
    costs.record(9, 5.0, is_drafted=True)
    assert draft_length(0.9, costs.base, 16) > 0


# Acceptance rates.

Drafts = st.lists(
    st.integers(1, 16).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=40
)


def simulate(judge: object, tokens: int) -> tuple[int, float]:
    """Generate tokens with a drafter; return the drafts, and the cost of their tokens in passes.

    Args:
        judge: Called with the index of the next token; returns how many drafted tokens are right.
        tokens: Number of tokens to generate.
    """
    assert callable(judge)
    rate = AcceptanceRate()
    generated, drafts, cost = 0, 0, 0.0
    while generated < tokens:
        length = draft_length(rate.at(generated), FAST_CPU, 16)
        accepted = min(length, judge(generated)) if length else 0
        if length:
            drafts += 1
            cost += length / (FAST_CPU + 1)
            rate.record(length, accepted, generated)
        generated += accepted + 1
    return drafts, cost


@given(Drafts)
def test_rates_are_probabilities(drafts: list[tuple[int, int]]) -> None:
    rate, generated = AcceptanceRate(), 0
    for drafted, accepted in drafts:
        rate.record(drafted, accepted, generated)
        generated += accepted + 1
        assert 0 <= rate.at(generated) < 1


@given(Drafts, st.integers(2, 16))
def test_accepted_draft_raises_the_rate_and_a_refused_one_lowers_it(
    drafts: list[tuple[int, int]], length: int
) -> None:
    good, bad, generated = AcceptanceRate(), AcceptanceRate(), 0
    for drafted, accepted in drafts:
        for rate in (good, bad):
            rate.record(drafted, accepted, generated)
        generated += accepted + 1
    good.record(length, length, generated)
    bad.record(length, 0, generated)
    assert bad.at(generated) < good.at(generated)


def test_good_drafter_is_used_at_once_and_reaches_long_drafts_soon() -> None:
    rate = AcceptanceRate()
    lengths: list[int] = []
    for _ in range(4):
        generated = sum(lengths)
        length = draft_length(rate.at(generated), FAST_CPU, 16)
        lengths.append(length)
        rate.record(length, length, generated)
    assert lengths[0] >= 4
    assert lengths == sorted(lengths)
    assert lengths[2] == 16


def test_useless_drafter_costs_little_and_is_tried_again_ever_more_rarely() -> None:
    drafts, cost = simulate(lambda index: 0, 100)
    assert drafts <= 6
    assert cost <= 1.5
    more, costs = simulate(lambda index: 0, 1000)
    assert drafts < more <= 8
    assert costs <= 2


def test_drafter_that_becomes_useless_loses_less_than_it_gained() -> None:
    useful = 200
    drafts, cost = simulate(lambda index: 99 if index < useful else 0, 1000)
    assert drafts + cost < useful / 3


def test_drafter_that_becomes_good_is_used_again() -> None:
    drafts, _ = simulate(lambda index: 0 if index < 300 else 99, 2000)
    passes_if_unused = 1700
    assert drafts > passes_if_unused / 34


def test_drafter_with_half_of_its_drafts_right_keeps_long_drafts() -> None:
    drafts, cost = simulate(lambda index: 12 * (index * 7919 % 97 < 48), 1000)
    assert cost < drafts
    assert drafts < 400


@given(st.integers(0, 3))
def test_single_accepted_token_ends_the_pauses(accepted_after: int) -> None:
    rate = AcceptanceRate()
    for _ in range(3 + accepted_after):
        rate.record(4, 0, 0)
    assert rate.at(0) == 0
    assert rate.at(2000) > 0
    rate.record(4, 1, 2000)
    rate.record(4, 0, 2000)
    assert rate.at(2000) > 0


def test_empty_drafts_do_not_count() -> None:
    rate = AcceptanceRate()
    first = rate.at(0)
    rate.record(0, 0, 0)
    assert rate.at(0) == first
