"""Structural tags accept and refuse what XGrammar's tests say, apart from the ledger's lines.

The ledger has the number of cases, then a line for each deviation with its reason.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from data_files import NO_XGRAMMAR_TESTS, xgrammar_tests
from structural_tag_cases import TagCase, refused_tags, tag_cases

from state_machines import InvalidStructuralTagError, ProxyError
from state_machines.root import RootStateMachine

LEDGER = Path(__file__).with_name("structural-tags.jsonl")

pytestmark = pytest.mark.skipif(xgrammar_tests() is None, reason=NO_XGRAMMAR_TESTS)


@cache
def machine(tag: str) -> RootStateMachine | None:
    try:
        return RootStateMachine.from_structural_tag(tag)
    except ProxyError:
        return None


def deviation(case: TagCase) -> str | None:
    """Return how the verdict on a case differs from XGrammar's; ``None`` if it is the same."""
    compiled = machine(json.dumps(case.tag))
    if compiled is None:
        return "tag refused"
    if compiled.matches(case.text) == case.is_accepted:
        return None
    return "text refused" if case.is_accepted else "text accepted"


def test_deviations_equal_the_ledger() -> None:
    counts, *lines = map(json.loads, LEDGER.read_text(encoding="utf-8").splitlines())
    cases = tag_cases()
    found = {case.name: what for case in cases if (what := deviation(case)) is not None}
    assert found == {line["name"]: line["deviation"] for line in lines}
    assert all(line["reason"] for line in lines)
    assert counts == {"cases": len(cases), "deviations": len(found)}


def test_malformed_tags_of_the_peer_are_refused() -> None:
    assert refused_tags()
    for tag in refused_tags():
        with pytest.raises(InvalidStructuralTagError) as caught:
            RootStateMachine.from_structural_tag(tag)
        assert caught.value.pointer
