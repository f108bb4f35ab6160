"""The whitespace that each layout accepts between the tokens of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from judging import Judge
from schema_checks import written_by_tokens
from schema_strategies import examples, schemas, values_near

from state_machines import (
    GrammarBudgetError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)

VALUES = [
    {"a": [1, {"b": None}], "c": {}, "d": []},
    [],
    {},
    [[], {}, [[]]],
    {"a": {}},
    ["x, y: z", {"k: [": "{"}],
    7,
]
COMPACT = (",", ":")
SPACED = (", ", ": ")


def texts(value: Any) -> dict[str, str]:
    """Return the output of ``json.dumps`` for a value in each layout."""
    return {
        "compact": json.dumps(value, separators=COMPACT),
        "spaced": json.dumps(value, separators=SPACED),
        "indented": json.dumps(value, indent=2),
    }


@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("schema", ["any", "const"])
def test_json_layout_accepts_default_and_compact_output_of_json_dumps(
    value: Any, schema: str
) -> None:
    machine = JsonSchemaStateMachine({} if schema == "any" else {"const": value})
    written = texts(value)
    assert machine.matches(written["compact"])
    assert machine.matches(written["spaced"])
    assert written_by_tokens(machine, written["spaced"])
    assert machine.matches(written["indented"]) == (written["indented"] in written["spaced"])


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_compact_layout_accepts_no_whitespace(value: Any) -> None:
    machine = JsonSchemaStateMachine({"const": value}, whitespace="compact")
    written = texts(value)
    assert machine.matches(written["compact"])
    assert machine.matches(written["spaced"]) == (written["spaced"] == written["compact"])
    assert machine.matches(written["indented"]) == (written["indented"] == written["compact"])


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_indented_layout_is_json_dumps_with_indent_2(value: Any) -> None:
    written = texts(value)
    for schema in ({}, {"const": value}):
        machine = JsonSchemaStateMachine(schema, whitespace="indented")
        assert machine.matches(written["indented"])
        assert written_by_tokens(machine, written["indented"])
        assert machine.matches(written["compact"]) == (written["indented"] == written["compact"])
        wider = json.dumps(value, indent=4)
        assert machine.matches(wider) == (wider == written["indented"])


@pytest.mark.parametrize("whitespace", ["json", "compact", "indented"])
@pytest.mark.parametrize(
    "text",
    [
        " {}",
        "{} ",
        "{ }",
        '{"a" :1}',
        '{"a":  1}',
        "[1,  2]",
        "[ 1]",
        "[1 ]",
        "\n1",
        "[1,\n2]",
        "{\n}",
    ],
)
def test_other_whitespace_is_rejected(text: str, whitespace: Any) -> None:
    assert not JsonSchemaStateMachine({}, whitespace=whitespace).matches(text)


def test_json_layout_accepts_mixed_spacing() -> None:
    machine = JsonSchemaStateMachine({})
    assert machine.matches('{"a":1, "b": [1,2, 3]}')


@pytest.mark.parametrize("options", [{"whitespace": "loose"}, {"property_order": "sorted"}])
def test_unknown_options_are_refused(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options.values()))):
        JsonSchemaStateMachine({}, **options)


@examples(100)
@given(st.data())
def test_indented_layout_accepts_exactly_the_admitted_values(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values_near(schema))
    try:
        machine = JsonSchemaStateMachine(schema, whitespace="indented", property_order="any")
    except (
        UnsatisfiableSchemaError,
        UnsupportedSchemaError,
        InvalidSchemaError,
        GrammarBudgetError,
    ):
        assume(False)
    for ensure_ascii in (True, False):
        text = json.dumps(value, indent=2, ensure_ascii=ensure_ascii)
        assert machine.matches(text) == Judge(schema).admits(value), text
