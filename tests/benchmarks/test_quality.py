"""Quality benchmark: records and gold answers, scores, bootstrap, tables, runs."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from object_schemas import closed_object
from quality import main
from quality_arms import ARMS, MAIN_ARMS
from quality_outcomes import Outcome, append_outcomes, read_outcomes
from quality_parsing import coerced, is_valid, parsed_strictly, repaired
from quality_prompts import prompt_of
from quality_scores import MEASURES, difference, score
from quality_tasks import TASKS, Record, make_records
from quality_tasks.base import is_equal
from quality_tasks.calls import compare_calls

from state_machines import JsonSchemaStateMachine

COUNT = 48
needs_repair = pytest.mark.skipif(not find_spec("json_repair"), reason="needs json-repair")


@pytest.fixture(params=TASKS)
def records(request: pytest.FixtureRequest) -> list[Record]:
    return make_records(request.param, 0, COUNT)


def full_answer(record: Record) -> Any:
    """The gold answer with a value for the fields that are not scored."""
    if isinstance(record.gold, list):
        return record.gold
    values = {**record.example, **record.gold}
    return {name: values[name] for name in record.schema["properties"]}


def test_records_depend_on_task_seed_and_number_only(records: list[Record]) -> None:
    task = records[0].task
    assert make_records(task, 0, 3, first=5) == records[5:8]
    assert make_records(task, 1, COUNT) != records


def test_gold_answers_and_examples_match_their_schemas(records: list[Record]) -> None:
    for record in records:
        for value in (full_answer(record), record.example):
            assert is_valid(value, record.schema)


def test_engine_can_write_gold_answers(records: list[Record]) -> None:
    for record in records:
        text = json.dumps(full_answer(record))
        assert JsonSchemaStateMachine(record.schema, whitespace="spaced").matches(text)


def test_gold_answers_are_right(records: list[Record]) -> None:
    for record in records:
        matches = record.matches(full_answer(record))
        assert matches
        assert all(matches.values())


def test_each_corrupted_field_is_wrong_alone() -> None:
    for task in ("extraction", "classification", "arithmetic", "quotes"):
        for record in make_records(task, 0, COUNT):
            for name in record.gold:
                matches = record.matches({**full_answer(record), name: ["corrupted"]})
                assert {field for field, is_right in matches.items() if not is_right} == {name}


@pytest.mark.parametrize(
    ("gold", "value", "expected"),
    [
        (3, 3.0, True),
        (3, "3", False),
        (1, True, False),
        (True, 1, False),
        (None, None, True),
        (None, "null", False),
        ("Oslo", " oslo. ", True),
        ("Oslo", "Osl", False),
        (["a"], ["a"], True),
        (["a", "b"], ["b", "a"], False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
    ],
)
def test_values_are_compared_with_their_types(gold: Any, value: Any, expected: bool) -> None:
    assert is_equal(gold, value) is expected


CALL_A = {"name": "a", "arguments": {"x": 1}}
CALL_B = {"name": "b", "arguments": {"y": "z"}}


def test_missing_and_superfluous_calls_are_wrong() -> None:
    assert compare_calls([CALL_A], [CALL_A, CALL_B]) == {
        "count": False,
        "0.function": True,
        "0.x": True,
    }
    assert compare_calls([CALL_A, CALL_B], [CALL_B]) == {
        "count": False,
        "0.function": False,
        "0.x": False,
        "1.function": True,
        "1.y": True,
    }
    assert compare_calls([], []) == {"count": True}
    assert compare_calls([], None) == {"count": False}
    assert compare_calls([CALL_A], ["a"]) == {"count": False, "0.function": False, "0.x": False}


PERSON = closed_object(
    age={"type": ["integer", "null"]},
    city={"enum": ["Oslo", "Rome", None]},
    tall={"type": "boolean"},
)


@pytest.mark.parametrize(
    "text",
    [
        '{"age": 3, "city": "Oslo", "tall": true}',
        'Sure! Here it is:\n```json\n{"age": "3", "city": "oslo", "tall": "True"}\n```\nBye.',
        '{"age": 3.0, "city": "Oslo", "tall": true, "other": []} Was this helpful?',
    ],
)
@needs_repair
def test_free_text_is_read_leniently(text: str) -> None:
    expected = {"age": 3, "city": "Oslo", "tall": True}
    for value in (repaired(text), parsed_strictly(text)):
        assert coerced(value, PERSON) == expected


@needs_repair
def test_only_the_repair_arm_reads_broken_json() -> None:
    text = '{"age": 3, "city": "Oslo", "tall": true'
    assert parsed_strictly(text) is None
    assert coerced(repaired(text), PERSON) == {"age": 3, "city": "Oslo", "tall": True}


def test_coercion_does_not_invent_values() -> None:
    for value in (None, "text", 3, {"age": "about three", "city": "Paris", "tall": "maybe"}):
        assert not is_valid(coerced(value, PERSON), PERSON)


def test_coercion_keeps_gold_answers(records: list[Record]) -> None:
    for record in records:
        value = coerced(json.loads(json.dumps(full_answer(record))), record.schema)
        assert value == full_answer(record)


def outcome(arm: str, number: int, right: bool, **changes: Any) -> Outcome:
    base = Outcome(
        "m",
        0,
        arm,
        "quotes",
        number,
        "by topic",
        {"a": right, "b": True},
        True,
        1,
        10,
        20,
        0.5,
        "{}",
    )
    return dataclasses.replace(base, **changes)


ARM = [outcome("ours", n, n % 4 < 3) for n in range(80)]
REFERENCE = [outcome("repair", n, n % 4 < 2) for n in range(80)]


def test_paired_difference_is_narrower_than_independent_intervals() -> None:
    found = difference(ARM, REFERENCE, MEASURES["exact"])
    assert found is not None
    assert found.value == pytest.approx(0.25)
    assert found.is_significant
    mine, theirs = (score(each, MEASURES["exact"]) for each in (ARM, REFERENCE))
    assert found.high - found.low < (mine.high - theirs.low) - (mine.low - theirs.high)


def test_interrupted_files_can_be_continued(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    append_outcomes(file, ARM[:1])
    file.write_text(file.read_text() + '{"model": "m", "se')
    append_outcomes(file, ARM[1:2])
    assert list(read_outcomes(file)) == [ARM[0].key, ARM[1].key]


@pytest.mark.parametrize(
    ("calculation", "answer", "reason"),
    [
        ("9 + 1 = 10", 10, ""),
        ("9 + 1 = 11", 11, "is not"),
        ("9 * 1 / 0 = 9", 9, "is not"),
        ("9 + 1 = 10", 11, "not the result"),
        ("5 + 5 = 10", 10, "numbers of the problem"),
    ],
)
def test_check_finds_contradictions(calculation: str, answer: int, reason: str) -> None:
    # Nine kettles, and one more.
    record = make_records("calculations", 0, 1)[0]
    assert record.check is not None
    with pytest.raises(ValueError, match=reason) if reason else nullcontext():
        record.check({"calculation": calculation, "answer": answer})


def test_text_of_an_extraction_does_not_name_the_fields() -> None:
    for record in make_records("extraction", 0, 8):
        text, behind = prompt_of(record, "text"), prompt_of(record, "names")
        assert record.question.startswith(f"{text}\n\nExtract")
        assert "Extract" not in text
        line = f"Extract {', '.join(record.gold)} from this text as JSON:"
        assert behind == f"{line}\n\n{text}"
        has_date = any(
            field.get("format") == "date" for field in record.schema["properties"].values()
        )
        assert ("(YYYY-MM-DD)" in prompt_of(record, "instruction")) == has_date
    assert not ARMS["ours-text"].runs("calls")


def test_main_arms_have_the_same_prompt() -> None:
    assert len({ARMS[name].prompt for name in MAIN_ARMS}) == 1


def test_tables_are_printed_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "outcomes.jsonl"
    append_outcomes(file, [*ARM, *REFERENCE])
    options = ["--tables", "--out", str(file), "--model", "m"]
    assert main(options) == 0
    assert "`repair`" in capsys.readouterr().out
    assert main([*options, "--tasks", "calls"]) == 1
