"""Growth benchmark: families of schemas, detection of superlinear costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from families import FAMILIES, MIXED, Family, Member
from growth import findings, growth_rows, set_up_rows
from growth_measure import (
    cut_vocabulary,
    greedy_tokens,
    measure_member,
    measure_vocabulary,
    tokens_of,
)
from hypothesis import given
from hypothesis import strategies as st
from judging import Judge
from small_vocabulary import small_vocabulary

from state_machines import Vocabulary


def text_of(member: Member) -> bytes:
    return "".join(piece.text * piece.times for piece in member.pieces).encode()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_members_admit_their_texts(family: Family) -> None:
    for size in family.sizes[:3]:
        member = family.member(size)
        assert Judge(member.schema).admits_text(text_of(member)), size


def test_the_mixed_text_is_admitted() -> None:
    assert Judge(MIXED.schema).admits_text(text_of(MIXED))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_families_grow_with_size(family: Family) -> None:
    assert family.sizes == sorted(set(family.sizes))
    small, large = (family.member(size) for size in family.sizes[:2])
    assert (json.dumps(small.schema), text_of(small)) != (json.dumps(large.schema), text_of(large))


PIECES = [b"ab", b"abc", b"ca", b"bcab"]
IDS = {form: token for token, form in enumerate([b"a", b"b", b"c", *PIECES])}


@given(st.text("abc", max_size=30))
def test_greedy_tokenisation_is_lossless_and_longest_first(text: str) -> None:
    forms = {token: form for form, token in IDS.items()}
    tokens = greedy_tokens(text.encode(), IDS)
    assert b"".join(forms[token] for token in tokens) == text.encode()
    if text.startswith("abc"):
        assert forms[tokens[0]] == b"abc"


def test_truncated_vocabulary_keeps_its_end_tokens() -> None:
    forms = [b"a", b"b", b"c", b"d", b"end"]
    whole = Vocabulary([*forms, b"stop"], end_token_ids=[1, 4])
    cut = cut_vocabulary(whole, 3)
    assert cut.token_bytes[0] == b"a"
    assert cut.token_bytes[2] == b"c"
    assert (cut.size, cut.end_token_ids) == (4, {1, 3})


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


def test_slow_masks_are_reported_with_any_exponent() -> None:
    family = family_of(1)
    for point, slowest in zip(family["points"], (21_000.0, 35_000.0), strict=True):
        point["slowest_mask"] = slowest
    assert findings([family]) == ["enum: the slowest mask takes 21.0 ms at 10, 35.0 ms at 20"]


def test_rows_have_the_largest_size_that_was_measured() -> None:
    _, row = growth_rows([family_of(1, "limit")])
    assert row[:4] == ["enum", "entries", "20", "400 µs (n^1.00)"]


def test_set_up_is_reported_by_number_of_tokens() -> None:
    point = {"size": 32_000, "ended": "", "vocabulary": 900.0, "first_of_all": 70_000.0}
    family = {"family": "vocabulary", "points": [point], "fits": {}}
    assert set_up_rows([family, family_of(1)])[1:] == [["32,000", "900 µs", "70.0 ms"]]
