"""The audit finds the keyword for which an engine's verdict is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import audit
import pytest
from audit_keywords import violated_keywords
from tiny_models import make_tiny_tokenizer

NESTED = {
    "title": "a title",
    "properties": {"format": {"anyOf": [{"format": "date"}, {"maximum": 3}]}},
    "allOf": [{"required": ["id"]}],
    "x-order": 1,
}


def test_violated_keywords_are_those_that_refuse_the_instance() -> None:
    assert violated_keywords(NESTED, {}) == {"required"}
    assert violated_keywords({"$ref": "#/$defs/a", "$defs": {"a": {"minimum": 1}}}, 0) == {
        "minimum"
    }
    assert violated_keywords({"format": "date"}, "x") == {"format"}


@pytest.fixture
def report(tmp_path: Path) -> dict[str, Any]:
    """The figures of our engine about a schema that it refuses, and one with a wrong label."""
    cases = [
        {"schema": {"type": "string", "pattern": r"(a*)b\1", "minLength": 1}, "tests": []},
        {"schema": {"minimum": 3}, "tests": [{"valid": True, "data": 2}]},
        {"schema": {"minimum": 3}, "tests": [{"valid": False, "data": 4}]},
        {"schema": {"minimum": 3}, "tests": [{"valid": True, "data": 4}]},
    ]
    data = tmp_path / "cases.jsonl.gz"
    with gzip.open(data, "wt") as file:
        for case in cases:
            file.write(json.dumps({"name": "case", **case}) + "\n")
    tokenizer = tmp_path / "tokenizer.json"
    make_tiny_tokenizer().backend_tokenizer.save(str(tokenizer))
    figures = tmp_path / "figures.json"
    status = audit.main(
        [
            *("--data", str(data), "--tokenizer", str(tokenizer)),
            *("--engines", "ours", "--json", str(figures)),
        ]
    )
    assert status == 0
    found: dict[str, Any] = json.loads(figures.read_text())
    return found


def test_findings_name_schemas_and_keywords(report: dict[str, Any]) -> None:
    (ours,) = report["engines"]
    assert ours["schemas"] == {"refused": 1, "over": 1, "under": 1, "right": 1}
    assert ours["keywords"]["refused"] == {"pattern": 1}
    assert ours["keywords"]["over"] == {"minimum": 1}
    # The label is wrong: no keyword refuses the instance.
    assert ours["keywords"]["under"] == {"several together": 1}
    rows = audit.audit_rows(report)
    assert rows[1][:2] == ["all", "4"]
    assert rows[1][2] == "1 / 1 / 1"
