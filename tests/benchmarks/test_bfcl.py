"""Matching of calls with accepted answers, and the table of the benchmark."""

from __future__ import annotations

from typing import Any

import pytest
from bfcl import tool_of
from bfcl_answers import Answer, figures, rows, tables
from bfcl_matching import are_right_calls, has_right_names, is_right_call


def function(**properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if not name.startswith("optional")]
    parameters = {"type": "dict", "properties": properties, "required": required}
    return {"name": "f", "description": "", "parameters": parameters}


def call(name: str = "f", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


STRING, INTEGER, FLOAT = {"type": "string"}, {"type": "integer"}, {"type": "float"}
LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "dict", "properties": {}}
OBJECTS = {"type": "array", "items": {"type": "dict"}}


@pytest.mark.parametrize(
    ("parameter", "options", "right", "wrong"),
    [
        (STRING, ["April 1, 2024"], "april 1 2024", "April 2, 2024"),
        (STRING, ["it's"], 'It"s', "its"),
        (INTEGER, [1, 2], 2, 2.0),
        (INTEGER, [1], 1, True),
        (FLOAT, [2.0], 2, 3),
        (INTEGER, ["count"], "count", "Count"),
        (LIST, [["a", "B"], ["c"]], ["A", "b"], ["B", "a"]),
        (OBJECT, [{"a": ["x", "y"], "b": [1, ""]}], {"a": "Y"}, {"b": 1}),
        (OBJECT, [{"a": ["x"]}], {"a": "x"}, {"a": "x", "c": 1}),
        (OBJECTS, [[{"a": [1]}, {"a": [2]}]], [{"a": 1}, {"a": 2}], [{"a": 1}]),
    ],
)
def test_arguments_are_compared_by_the_rules_of_their_type(
    parameter: dict[str, Any], options: list[Any], right: Any, wrong: Any
) -> None:
    described = function(value=parameter)
    assert is_right_call(call(value=right), described, {"value": options})
    assert not is_right_call(call(value=wrong), described, {"value": options})


def test_only_arguments_whose_answer_is_optional_may_be_omitted() -> None:
    described = function(a=INTEGER, optional=INTEGER)
    assert is_right_call(call(a=1), described, {"a": [1], "optional": [2, ""]})
    assert not is_right_call(call(a=1), described, {"a": [1], "optional": [2]})
    assert not is_right_call(call(optional=2), described, {"a": [1, ""], "optional": [2]})
    assert not is_right_call(call(a=1, other=1), described, {"a": [1]})


def test_parallel_calls_match_in_any_order_and_number_exactly() -> None:
    described = [function(a=INTEGER)]
    answers = [{"f": {"a": [1]}}, {"f": {"a": [2]}}]
    assert are_right_calls([call(a=2), call(a=1)], described, answers)
    assert not are_right_calls([call(a=1), call(a=1)], described, answers)
    assert not are_right_calls([call(a=1), call(a=2), call(a=2)], described, answers)
    assert has_right_names([call(a=5), call(a=6)], answers)
    assert not has_right_names([call("g", a=1), call(a=2)], answers)


def test_no_call_is_right_where_no_function_helps() -> None:
    assert are_right_calls([], [function(a=INTEGER)], [])
    assert not are_right_calls([call(a=1)], [function(a=INTEGER)], [])


def test_types_of_parameters_become_those_of_json_schema_at_every_depth() -> None:
    nested = {"type": "tuple", "items": {"type": "dict", "properties": {"x": FLOAT}}}
    parameters = tool_of(function(a=nested))["function"]["parameters"]
    assert parameters["type"] == "object"
    assert parameters["properties"]["a"] == {
        "type": "array",
        "items": {"type": "object", "properties": {"x": {"type": "number"}}},
    }


def answer(arm: str, case: str, category: str = "multiple", *, right: bool) -> Answer:
    return Answer("m", arm, case, category, valid=True, right=right, seconds=2.0, passes=4)


def test_table_has_a_row_of_shares_for_each_category_and_arm() -> None:
    groups = figures([answer("ours-auto", f"{n}", right=n < 1) for n in range(2)], ["ours-auto"])
    _, row, of_all = rows(groups)
    assert row[:5] == ["multiple", "ours-auto", "2", "100 (100 to 100)", "0 (0 to 0)"]
    assert row[5].startswith("50 (")
    assert of_all == ["all with calls", *row[1:]]


def test_differences_are_those_of_the_same_cases() -> None:
    ours = [answer("ours-auto", case, right=case != "c") for case in "abc"]
    theirs = [answer("mlx-lm-auto", case, right=False) for case in "ab"]
    group, *_ = figures([*ours, *theirs], ["ours-auto", "mlx-lm-auto"])
    assert group["differences"] == {"mlx-lm-auto": [1.0, 1.0, 1.0]}


def test_document_has_cases_where_no_function_helps_in_a_column_of_their_own() -> None:
    answers = [
        answer("ours-auto", "a", right=True),
        answer("ours-auto", "b", "irrelevance", right=False),
    ]
    by_arm = tables({"groups": figures(answers, ["ours-auto"])}).split("\n\n")[1]
    cells = [cell.strip() for cell in by_arm.splitlines()[2].split("|")]
    assert cells[1:6] == [
        "ours-auto",
        "100 (100 to 100)",
        "0 (0 to 0)",
        "100 (100 to 100)",
        "0 (0 to 0)",
    ]
