"""The ledger of llguidance's own Lark tests: where this project decides otherwise, and why.

The first line of ``lark.jsonl`` has the counts, each other line one case that differs, with its reason.
``python tests/conformance/lark_ledger.py`` writes it anew.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

from data_files import llguidance_tests  # noqa: E402
from lark_cases import LarkCase, lark_cases  # noqa: E402

from state_machines import GrammarError, GrammarStateMachine  # noqa: E402

__all__ = ["ledger", "read"]

PATH = HERE / "lark.jsonl"

REASONS = {
    r"test_lark/test_parametric": "parametric rules (name::_ and %if) are refused",
    r"test_lark/test_json_.*escape": "x-guidance is an unknown keyword; any character beyond ASCII "
    r"may be written \uXXXX in a JSON string",
    r"test_lark/test_json_dw_pattern": r"control characters with a short escape are not written "
    r"\uXXXX; other characters beyond ASCII may be",
    r"test_lark/test_lark_syntax_perc/3": "a schema with `if` alone is valid JSON Schema",
    r"test_lark/test_lark_hex_escape/1/2": "the text begins another one; the test's tokenizer "
    "forces a longer token",
    r"test_ll/test_outer_skip_after_nested_json": "JSON has no white space but a space behind `,` "
    "and `:`",
    r"test_ll/test_(ll_max_tokens|outer_skip_after_once_skip_hits_max_tokens)": "max_tokens cuts a "
    "rule off by tokens, not by bytes",
    r"test_ll/test_suffix_tool": "stop_capture is refused",
    r"test_\w+/test_(ll_special|ll_token_ranges|ll_numeric|lark_syntax_general)": "tokens by name or "
    "number are those of the test's tokenizer",
}
"""Why cases differ, by a pattern of their names."""


@lru_cache(maxsize=1)
def _machine(grammar: str) -> GrammarStateMachine | GrammarError:
    try:
        return GrammarStateMachine.from_lark(grammar)
    except GrammarError as error:
        return error


def _result(case: LarkCase) -> str:
    machine = _machine(case.grammar)
    if isinstance(machine, GrammarError):
        return "refused"
    if case.expected in ("compiles", "refused"):
        return "compiles"
    if machine.matches(case.text):
        return "accepts"
    return "begins" if machine.begins(case.text) else "rejects"


def ledger(directory: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of the ledger."""
    count = 0
    others: list[dict[str, Any]] = []
    for case in lark_cases(directory):
        count += 1
        result = _result(case)
        if result == case.expected:
            continue
        reason = next((why for name, why in REASONS.items() if re.match(name, case.name)), "open")
        others.append(
            {"name": case.name, "expected": case.expected, "result": result, "reason": reason}
        )
    yield {"cases": count, "equal": count - len(others), "different": len(others)}
    yield from others


def read() -> list[dict[str, Any]]:
    """Return the lines of the committed ledger."""
    return [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    found = llguidance_tests()
    if found is None:
        sys.exit("the source distribution of llguidance cannot be downloaded")
    lines = [*ledger(found)]
    PATH.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    print(lines[0], sum(line.get("reason") == "open" for line in lines), "open")
