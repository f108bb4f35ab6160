"""Cases of reported kinds say what their schemas say, and the engine is right about each."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from audit_keywords import is_valid
from data_files import NO_TOKENIZERS, tokenizer_files
from engines import Engine, TokenizerSource, load_engine
from reported import as_case, reported_rows
from reported_cases import REPORTED, ReportedCase
from tokenizers import Tokenizer
from worker import CaseResult, compile_case, walk_case

SCHEMAS = [case for case in REPORTED if not case.tools]
IS_LAID_OUT = "white space without end"


@pytest.mark.parametrize("case", SCHEMAS, ids=lambda case: case.kind)
def test_schema_agrees_with_the_texts_of_its_case(case: ReportedCase) -> None:
    assert all(is_valid(case.schema, json.loads(text)) for text in case.admits)
    refused = [not is_valid(case.schema, json.loads(text)) for text in case.refuses]
    # Endless white space is refused although its value is valid.
    assert refused == [case.kind != IS_LAID_OUT] * len(case.refuses)


@cache
def engine_with_tokenizer() -> tuple[Engine, Tokenizer]:
    path = tokenizer_files()[0]
    tokenizer = Tokenizer.from_file(str(path))
    return load_engine("ours", TokenizerSource(path, (0,))), tokenizer


@pytest.mark.skipif(not tokenizer_files(), reason=NO_TOKENIZERS)
@pytest.mark.parametrize("reported", REPORTED, ids=lambda case: case.kind)
def test_engine_is_right_about_a_reported_case(reported: ReportedCase) -> None:
    engine, tokenizer = engine_with_tokenizer()
    case = as_case(reported, tokenizer)
    # The mask of every token of a long array takes seconds.
    case = replace(case, instances=[text for text in case.instances if len(text.tokens) < 5_000])
    result = CaseResult(case.name)
    compiled = compile_case(engine, case, result)
    assert compiled is not None, result.reason
    walk_case(compiled, case, result)
    assert (result.outcome, result.wrong) == ("done", [])


def test_rows_link_the_reports_and_name_the_verdicts() -> None:
    report: dict[str, Any] = {
        "versions": {"ours": "1", "peer": "2"},
        "cases": [
            {
                "kind": "a kind",
                "reports": ["owner/name#7"],
                "engines": {
                    "ours": {"verdict": "right", "first_mask": 1_000.0, "between_masks": 20.0},
                    "peer": {"verdict": "refused", "reason": "an unknown keyword"},
                },
            }
        ],
    }
    assert reported_rows(report, link=True) == [
        ["case", "ours 1", "peer 2"],
        [
            "a kind ([name 7](https://github.com/owner/name/issues/7))",
            "right · 1.00 ms · 20.0 µs",
            "refused",
        ],
    ]
