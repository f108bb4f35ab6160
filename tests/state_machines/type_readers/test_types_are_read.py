"""Laws of the masks of types, for each type of the catalogue.

Differences are in a ledger, each with a reason; see ``tests/conformance/type_ledger.py``. A type that no
longer differs stays in the ledger until ``make ledgers``, which draws 80 times as many texts.
"""

from __future__ import annotations

import pytest
from type_catalogue import CATALOGUE
from type_catalogue.verdicts import judge, wrong_facts
from type_ledger import differences, read, recorded

_PART = 24
"""Types of a test."""
_DRAWS = 12
"""Random walks for each type: two of each habit of :class:`type_draws.Draws`."""
_PARTS = [CATALOGUE[at : at + _PART] for at in range(0, len(CATALOGUE), _PART)]


@pytest.mark.parametrize("part", range(len(_PARTS)))
def test_types_read_what_their_masks_admit(part: int) -> None:
    """Also, masks admit the instances of a type, and no type is refused without need."""
    known = recorded()
    found = []
    for entry in _PARTS[part]:
        verdict = judge(entry, _DRAWS)
        assert verdict.failure is None, f"{entry.key}: {verdict.failure}"
        for kind, example in differences(verdict).items():
            if (entry.key, kind) not in known:
                message = verdict.unread.get(example, "")
                found.append(f"{entry.key}, {kind}: {example} {message}")
    assert found == []


@pytest.mark.parametrize("part", range(len(_PARTS)))
def test_facts_of_the_catalogue_are_those_of_the_readers(part: int) -> None:
    assert [f"{entry.key}: {fact}" for entry in _PARTS[part] for fact in wrong_facts(entry)] == []


def test_names_of_the_catalogue_are_unique() -> None:
    keys = [entry.key for entry in CATALOGUE]
    assert len(set(keys)) == len(keys)


def test_ledger_names_types_of_the_catalogue() -> None:
    assert {key for key, _ in recorded()} <= {entry.key for entry in CATALOGUE}


def test_counts_of_the_ledger_equal_its_lines() -> None:
    counts, *lines = read()
    assert counts["types"] == len(CATALOGUE)
    for kind in ("unread", "left out", "refused"):
        assert counts[kind] == sum(line["verdict"] == kind for line in lines)


def test_every_difference_has_a_reason() -> None:
    assert [line for line in read()[1:] if line["reason"] == "open"] == []
