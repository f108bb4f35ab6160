"""llguidance's own Lark tests: drift from the committed ledger in either direction fails.

After a change on purpose, ``make ledgers`` writes it anew.
"""

from __future__ import annotations

import pytest
from data_files import NO_LLGUIDANCE, llguidance_tests
from lark_ledger import ledger, read


def test_verdicts_equal_the_ledger() -> None:
    directory = llguidance_tests()
    if directory is None:
        pytest.skip(NO_LLGUIDANCE)
    found = {line.get("name", ""): line for line in ledger(directory)}
    assert found == {line.get("name", ""): line for line in read()}


def test_every_difference_has_a_reason() -> None:
    assert [line for line in read()[1:] if line["reason"] == "open"] == []
