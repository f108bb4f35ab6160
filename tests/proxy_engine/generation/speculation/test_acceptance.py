"""Acceptance rates: good drafters are used at once, bad ones are abandoned and tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy_engine.generation.speculation.acceptance import AcceptanceRates
from proxy_engine.generation.speculation.draft_length import FAST_CPU, draft_length

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
    rates = AcceptanceRates()
    generated, drafts, cost = 0, 0, 0.0
    while generated < tokens:
        length = draft_length(rates.rate("text", "lookup"), FAST_CPU, 16)
        accepted = min(length, judge(generated)) if length else 0
        if length:
            drafts += 1
            cost += FAST_CPU.of_pass(1 + length) - 1
            rates.record("text", "lookup", length, accepted)
        rates.advance(accepted + 1)
        generated += accepted + 1
    return drafts, cost


@given(Drafts)
def test_rates_are_probabilities(drafts: list[tuple[int, int]]) -> None:
    rates = AcceptanceRates()
    for drafted, accepted in drafts:
        rates.record("text", "lookup", drafted, accepted)
        rates.advance(accepted + 1)
        assert 0 <= rates.rate("text", "lookup") < 1


@given(Drafts)
def test_parts_and_drafters_have_their_own_rates(drafts: list[tuple[int, int]]) -> None:
    rates = AcceptanceRates()
    first = rates.rate("text", "lookup")
    for drafted, accepted in drafts:
        rates.record("text", "lookup", drafted, accepted)
    assert rates.rate("structured", "lookup") == first
    assert rates.rate("text", "draft_model") == first


@given(Drafts, st.integers(2, 16))
def test_accepted_draft_raises_the_rate_and_a_refused_one_lowers_it(
    drafts: list[tuple[int, int]], length: int
) -> None:
    good, bad = AcceptanceRates(), AcceptanceRates()
    for drafted, accepted in drafts:
        for rates in (good, bad):
            rates.record("text", "lookup", drafted, accepted)
            rates.advance(accepted + 1)
    good.record("text", "lookup", length, length)
    bad.record("text", "lookup", length, 0)
    assert bad.rate("text", "lookup") < good.rate("text", "lookup")


def test_good_drafter_is_used_at_once_and_reaches_long_drafts_soon() -> None:
    rates = AcceptanceRates()
    lengths = []
    for _ in range(4):
        length = draft_length(rates.rate("text", "lookup"), FAST_CPU, 16)
        lengths.append(length)
        rates.record("text", "lookup", length, length)
        rates.advance(length + 1)
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
    rates = AcceptanceRates()
    for _ in range(3 + accepted_after):
        rates.record("text", "lookup", 4, 0)
    assert rates.rate("text", "lookup") == 0
    rates.advance(2000)
    assert rates.rate("text", "lookup") > 0
    rates.record("text", "lookup", 4, 1)
    rates.record("text", "lookup", 4, 0)
    assert rates.rate("text", "lookup") > 0


def test_empty_drafts_do_not_count() -> None:
    rates = AcceptanceRates()
    first = rates.rate("text", "lookup")
    rates.record("text", "lookup", 0, 0)
    assert rates.rate("text", "lookup") == first
