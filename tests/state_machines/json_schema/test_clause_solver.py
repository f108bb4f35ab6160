"""Clauses about members: unit propagation, and assignments found by search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from schema_strategies import examples

from state_machines.grammar.text_languages import contains_word, word_language
from state_machines.json_schema.algebra.object_shape import (
    Absent,
    Clause,
    Condition,
    Matching,
    ObjectShape,
    Present,
)
from state_machines.json_schema.algebra.terms import FALSE, TRUE, Term, TermTable
from state_machines.json_schema.emptiness.clause_solver import Domain, find_assignment

NAMES = "abcd"


TABLE = TermTable()

_names = st.sampled_from(NAMES)
_conditions = st.one_of(
    _names.map(Absent),
    _names.map(lambda name: Present(name, TRUE)),
    st.lists(_names, min_size=1, max_size=2).map(lambda ns: Matching(word_language(ns), TRUE)),
)
_clauses = st.lists(st.lists(_conditions, min_size=1, max_size=3).map(tuple), max_size=6)


def has_value(term: Term) -> bool:
    return term is not FALSE


def holds(condition: Condition, present: Sequence[str]) -> bool:
    match condition:
        case Absent(name):
            return name not in present
        case Present(name, _):
            return name in present
        case Matching(names, _):
            return any(contains_word(names, name) for name in present)


def test_unit_propagation_reaches_a_fixed_point() -> None:
    shape = ObjectShape(dict.fromkeys(NAMES, TRUE))
    chain: list[Clause] = [
        (Present("d", TRUE), Absent("c")),
        (Present("c", TRUE), Absent("b")),
        (Present("b", TRUE), Present("a", TRUE)),
        (Absent("a"),),
    ]
    shape = shape.with_clauses((), chain, TABLE)
    assert not shape.clauses
    assert shape.properties["a"] is FALSE
    assert set(shape.required) == set("bcd")


def test_contradiction_leaves_an_empty_clause() -> None:
    shape = ObjectShape({"a": TRUE})
    shape = shape.with_clauses((), [(Absent("a"),), (Present("a", TRUE),)], TABLE)
    assert () in shape.clauses


@examples(100)
@given(_clauses, st.integers(0, 4), st.none() | st.integers(0, 2), st.lists(_names, max_size=2))
def test_assignment_is_found_exactly_if_one_exists(
    clauses: list[Clause], min_members: int, spare: int | None, required: list[str]
) -> None:
    listed, required = dict.fromkeys(NAMES, TRUE), list(dict.fromkeys(required))
    max_members = None if spare is None else min_members + spare
    domain = Domain(listed, required, (), min_members, max_members)
    found = find_assignment(clauses, domain, TABLE, has_value)
    subsets = [set(names) for size in range(5) for names in combinations(NAMES, size)]
    solutions = [
        names
        for names in subsets
        if names >= set(required)
        and min_members <= len(names)
        and (max_members is None or len(names) <= max_members)
        and all(any(holds(condition, sorted(names)) for condition in c) for c in clauses)
    ]
    assert (found is not None) == bool(solutions)
    if found is not None:
        present, absent = set(found.present), found.absent
        assert any(names >= present and not names & absent for names in solutions)
