"""Growth benchmark: families of schemas, detection of superlinear costs."""

from __future__ import annotations

from typing import Any

import pytest
from families import FAMILIES, MIXED, Family, Member
from growth import findings
from growth_measure import (
    greedy_tokens,
    measure_member,
    measure_vocabulary,
    tokens_of,
)
from hypothesis import given
from hypothesis import strategies as st
from judging import Judge
from small_vocabulary import small_vocabulary


def text_of(member: Member) -> bytes:
    return "".join(piece.text * piece.times for piece in member.pieces).encode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_members_admit_their_texts(family: Family) -> None:
    for size in family.sizes[:3]:
        member = family.member(size)
        assert Judge(member.schema).admits_text(text_of(member)), size


def test_the_mixed_text_is_admitted() -> None:
    assert Judge(MIXED.schema).admits_text(text_of(MIXED))


PIECES = [b"ab", b"abc", b"ca", b"bcab"]
IDS = {form: token for token, form in enumerate([b"a", b"b", b"c", *PIECES])}


@given(st.text("abc", max_size=30))
def test_greedy_tokenisation_is_lossless_and_longest_first(text: str) -> None:
    forms = {token: form for form, token in IDS.items()}
    tokens = greedy_tokens(text.encode(), IDS)
    assert b"".join(forms[token] for token in tokens) == text.encode()
    if text.startswith("abc"):
        assert forms[tokens[0]] == b"abc"


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


def family_of(exponent: float, *ended: str) -> dict[str, Any]:
    points: list[dict[str, Any]] = [
        {"size": 10, "ended": "", "compile": 100.0},
        {"size": 20, "ended": "", "compile": 400.0},
    ]
    points += [{"size": 40, "ended": reason} for reason in ended]
    fits = {"compile": {"exponent": exponent, "error": None, "points": 2}}
    return {"family": "enum", "grows": "entries", "points": points, "fits": fits}


def test_superlinear_costs_are_reported() -> None:
    assert findings([family_of(1.1)]) == []
    assert findings([family_of(1.2)]) == ["enum: compile grows with exponent 1.20; 400 µs at 20"]
    assert findings([family_of(1, "refused")]) == ["enum: refused at 40"]
