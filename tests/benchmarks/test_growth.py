"""Growth benchmark: families of schemas, detection of superlinear costs."""

from __future__ import annotations

import pytest
from families import FAMILIES, MIXED, Family, Member
from growth_measure import (
    measure_member,
    measure_vocabulary,
    tokens_of,
)
from judging import Judge
from small_vocabulary import small_vocabulary


def text_of(member: Member) -> bytes:
    return "".join(piece.text * piece.times for piece in member.pieces).encode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_members_admit_their_texts(family: Family) -> None:
    for size in family.sizes[:3]:
        member = family.member(size)
        assert Judge(member.schema).admits_text(text_of(member)), size


def test_costs_are_measured_in_a_separate_process() -> None:
    vocabulary = small_vocabulary()
    measured = measure_member(MIXED, vocabulary, repeats=2, seconds=60)
    assert measured.ended == ""
    assert measured.tokens == len(tokens_of(MIXED, vocabulary))
    assert set(measured.costs) >= {"compile", "first_mask", "mean_mask", "walk", "again"}
    assert all(cost > 0 for cost in measured.costs.values())
    assert "first_of_all" in measure_vocabulary(vocabulary, MIXED, 1, 60).costs


def test_refusals_and_limits_are_reported() -> None:
    vocabulary = small_vocabulary()
    refused = Member({"pattern": r"^(a)\1$"}, [])
    assert measure_member(refused, vocabulary, repeats=1, seconds=60).ended == "refused"
    assert measure_member(MIXED, vocabulary, repeats=1, seconds=0).ended == "limit"


def test_invalid_text_raises() -> None:
    wrong = Member({"type": "boolean"}, MIXED.pieces)
    with pytest.raises(ValueError, match="not allowed"):
        measure_member(wrong, small_vocabulary(), repeats=1, seconds=60)
