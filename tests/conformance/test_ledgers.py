"""Conformance equals the committed ledgers: drift in either direction fails.

After a change on purpose, ``make ledgers`` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from data_files import (
    NO_LLGUIDANCE,
    NO_MASKBENCH,
    NO_SUITE,
    llguidance_tests,
    maskbench_file,
    official_suite,
)
from lark_ledger import ledger, read
from ledger import LEDGERS, Ledger
from small_vocabulary import small_vocabulary
from suites import in_fixed_tenth, judge_maskbench, judge_official, maskbench, official
from verdicts import Case, Verdict

needs_suite = pytest.mark.skipif(official_suite() is None, reason=NO_SUITE)
needs_maskbench = pytest.mark.skipif(maskbench_file() is None, reason=NO_MASKBENCH)


def drift(ledger: Ledger, cases: Iterable[Case], judge: Callable[[Case], Verdict]) -> list[str]:
    """Return a line for each case whose verdict differs from the ledger."""
    found = []
    for case in cases:
        verdict = judge(case)
        recorded = ledger.others.get(case.name)
        expected = recorded or Verdict(case.name, case.family, "right")
        if verdict != expected:
            found.append(f"recorded {expected.line()}\n  but now {verdict.line()}")
    return found


@needs_suite
@pytest.mark.parametrize("name", ["official-required", "official-optional"])
def test_official_suite_equals_its_ledger(name: str) -> None:
    """Also by tokens, for which a verdict states where they differ from bytes."""
    cases = list(official(optional=name == "official-optional"))
    ledger = Ledger.read(name)
    assert ledger.counts.total() == len(cases)
    vocabulary = None if name == "official-optional" else small_vocabulary()
    assert drift(ledger, cases, lambda case: judge_official(case, vocabulary)) == []


@needs_maskbench
def test_tenth_of_maskbench_equals_its_ledger() -> None:
    cases = list(maskbench())
    ledger = Ledger.read("maskbench")
    assert ledger.counts.total() == len(cases)
    assert drift(ledger, filter(in_fixed_tenth, cases), judge_maskbench) == []


@pytest.mark.parametrize("name", LEDGERS)
def test_counts_of_a_ledger_equal_its_cases(name: str) -> None:
    ledger = Ledger.read(name)
    again = Ledger.of(ledger.others.values())
    for family, counts in ledger.families.items():
        others = {status: n for status, n in counts.items() if status != "right"}
        assert others == dict(again.families.get(family, {}))


@pytest.mark.parametrize("name", LEDGERS)
def test_no_case_crashes(name: str) -> None:
    assert Ledger.read(name).counts["crash"] == 0


def test_no_invalid_instance_of_the_required_suite_is_accepted() -> None:
    others = Ledger.read("official-required").others.values()
    assert [verdict.name for verdict in others if verdict.invalid_accepted] == []


# llguidance's own Lark tests: drift from the committed ledger in either direction fails.


def test_verdicts_equal_the_ledger() -> None:
    directory = llguidance_tests()
    if directory is None:
        pytest.skip(NO_LLGUIDANCE)
    found = {line.get("name", ""): line for line in ledger(directory)}
    assert found == {line.get("name", ""): line for line in read()}


def test_every_difference_has_a_reason() -> None:
    assert [line for line in read()[1:] if line["reason"] == "open"] == []
