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
@pytest.mark.parametrize(
    ("layout", "own"),
    [("json", ("compact", "spaced")), ("compact", ("compact",)), ("indented", ("indented",))],
)
def test_layout_accepts_its_outputs_of_json_dumps_alone(
    value: Any, layout: Any, own: tuple[str, ...]
) -> None:
    written = texts(value)
    accepted = {written[name] for name in own}
    for schema in ({}, {"const": value}):
        machine = JsonSchemaStateMachine(schema, whitespace=layout)
        for text in (*written.values(), json.dumps(value, indent=4)):
            assert machine.matches(text) == (text in accepted), text
        assert written_by_tokens(machine, written[own[-1]])


@pytest.mark.parametrize("whitespace", ["json", "compact", "indented"])
@pytest.mark.parametrize(
    "text",
    [
        *(" {}", "{} ", "{ }", '{"a" :1}', '{"a":  1}', "[1,  2]", "[ 1]", "[1 ]", "\n1"),
        *("[1,\n2]", "{\n}"),
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


@examples(25)
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
        text = json.dumps(without_points(value), indent=2, ensure_ascii=ensure_ascii)
        assert machine.matches(text) == Judge(schema).admits(value), text


def without_points(value: Any) -> Any:
    """The same JSON value, with integers in place of floats such as 1.0."""
    if isinstance(value, dict):
        return {name: without_points(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_points(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize("whitespace", ["json", "compact", "spaced", "indented"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "integer", "minimum": -5, "maximum": 50},
        {"type": "number", "multipleOf": 8},
        {"enum": [40.0, 41]},
        {"type": "integer", "not": {"multipleOf": 7}},
    ],
    ids=str,
)
def test_integers_have_no_point_unless_any_json_is_accepted(schema: Any, whitespace: Any) -> None:
    machine = JsonSchemaStateMachine(schema, whitespace=whitespace)
    assert machine.matches("40")
    assert machine.matches("40.0") == (whitespace == "json")


@pytest.mark.parametrize("whitespace", ["compact", "spaced", "indented"])
def test_numbers_that_may_have_fractions_may_have_points(whitespace: Any) -> None:
    for schema in ({"type": "number"}, {"type": "number", "multipleOf": 0.5}):
        assert JsonSchemaStateMachine(schema, whitespace=whitespace).matches("40.0")
