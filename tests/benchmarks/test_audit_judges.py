"""The judges of the audit are compared, and outlines-core's table of cases is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import audit_outlines_cases
import pytest
from audit_judges import judge_cases, judge_rows

DRAFT_4 = "http://json-schema.org/draft-04/schema#"

TABLE = r"""
    fn test_schema_matches_regex() {
        for (schema, regex, a_match, not_a_match) in [
            // A comment with "quotes" and a ]
            (
                r#"{"type": "array", "items": {"type": "integer"}}"#,
                ARRAY,
                vec!["[1]", r#"[1, 2]"#],
                vec![
                    r#"["a"]"#, // not an "integer"
                    "[01]",
                ],
            ),
            (
                r##"{"const": "#"}"##,
                format!(r#"[{X}]"#).as_str(),
                vec![r##""#""##],
                vec!["", "1"],
            ),
        ] {}
    }

    fn with_whitespace_patterns() {
"""


def test_instances_on_which_judges_agree_with_the_label_are_only_counted() -> None:
    tests = [{"data": 1, "valid": True}, {"data": "a", "valid": False}]
    assert judge_cases([{"schema": {"type": "integer"}, "tests": tests}]) == {
        "instances": 2,
        "differences": [],
    }


def test_differences_name_the_cause_and_the_verdicts() -> None:
    labels = [
        ({"$schema": DRAFT_4, "format": "date"}, "x"),
        ({"$schema": DRAFT_4, "format": "uuid"}, "x"),
        ({"$schema": DRAFT_4, "pattern": r"^\{}$"}, "x"),
    ]
    records = [
        {"schema": schema, "tests": [{"data": data, "valid": False}]} for schema, data in labels
    ]
    report = {**judge_cases(records), "versions": {"first": "1", "second": "2", "ours": "3"}}
    assert judge_rows(report) == [
        ["cause", "instances", "label", "first 1", "second 2", "ours 3"],
        ["format date", "1", "invalid", "valid", "invalid", "invalid"],
        ["format uuid", "1", "invalid", "valid", "valid", "invalid"],
        ["the schema", "1", "invalid", "invalid", "schema refused", "invalid"],
    ]


def test_table_of_outlines_core_becomes_cases_with_the_verdicts_of_the_judges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "src" / "json_schema" / "mod.rs"
    source.parent.mkdir(parents=True)
    source.write_text(TABLE)
    out = tmp_path / "cases.jsonl.gz"
    assert audit_outlines_cases.main([str(tmp_path), str(out)]) == 0
    with gzip.open(out, "rt") as file:
        cases = [json.loads(line) for line in file]
    assert [[(test["data"], test["valid"]) for test in case["tests"]] for case in cases] == [
        [([1], True), ([1, 2], True), (["a"], False)],
        [("#", True), (1, False)],
    ]
    # `[01]` and the empty text are no JSON.
    assert capsys.readouterr().out == "2 schemas; 2 of 7 texts left out\n"
