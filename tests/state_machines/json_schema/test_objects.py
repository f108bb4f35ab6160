"""Objects: properties, names and patterns, required members, bounds, order, and clauses."""

from __future__ import annotations

import json
import re
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schema_checks import assert_texts

from state_machines import JsonSchemaStateMachine, UnsatisfiableSchemaError
from state_machines.grammar.encoding import RAW, encoded
from state_machines.json_schema.algebra.names import name_cells
from state_machines.json_schema.algebra.object_shape import NameRule, ObjectShape
from state_machines.json_schema.algebra.terms import FALSE, TRUE, TermTable
from state_machines.regex import compile_pattern

INTEGER = {"type": "integer"}
STRING = {"type": "string"}


THREE = {
    "type": "object",
    "properties": {"b": INTEGER, "a": INTEGER, "c": INTEGER},
    "required": ["c", "b"],
}


def member_text(names: Any) -> str:
    return json.dumps(dict.fromkeys(names, 1))


def test_properties_come_in_the_order_of_the_schema() -> None:
    """Listed members first, then others; optional ones may be absent."""
    assert_texts(
        THREE,
        [member_text(n) for n in ("bac", "bc", "bacx", "bcxy", "bcyx")],
        [member_text(n) for n in ("abc", "cb", "acb", "xbc", "bxc", "b", "ba", "cba")],
        judged=False,
    )
    # A required member cannot be skipped, since it could not come later.
    start = JsonSchemaStateMachine(THREE).start
    assert start.compute_word_derivative(b'{"').first_bytes == 1 << ord("b")


def test_property_order_any_admits_every_order() -> None:
    names = [n for size in range(5) for n in permutations("abcx", size)]
    complete = [member_text(n) for n in names if {"b", "c"} <= set(n)]
    lacking = [member_text(n) for n in names if not {"b", "c"} <= set(n)]
    assert_texts(THREE, complete, lacking, property_order="any")


def test_unlisted_required_members_follow_the_listed_ones() -> None:
    schema = {"properties": {"a": True}, "required": ["z", "y"]}
    ordered = [member_text(n) for n in ("azy", "zy", "zyx")]
    assert_texts(
        schema, ordered, [member_text(n) for n in ("yz", "zay", "az", "xzy")], judged=False
    )
    assert_texts(
        schema, [member_text(n) for n in ("yza", "xzy")], [member_text("az")], property_order="any"
    )


def test_conjunction_keeps_the_order_of_the_document() -> None:
    schema = {"allOf": [{"properties": {"b": True}}, {"properties": {"a": True, "b": True}}]}
    assert_texts(schema, [member_text("ba"), member_text("b")], [member_text("ab")], judged=False)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"é": INTEGER, "b": INTEGER}},
        {"additionalProperties": INTEGER},
        {"patternProperties": {"^.$": INTEGER}},
        {"minProperties": 2},
        {"maxProperties": 3},
        {"required": ["é"]},
        {"not": {"minProperties": 5}},
        {"propertyNames": {"maxLength": 1}},
        {"minProperties": 1, "propertyNames": {"enum": ["é", "b"]}},
    ],
)
def test_names_are_unique(schema: Any, order: Any) -> None:
    twice = [
        '{"b": 1, "b": 2}',
        '{"b": 1, "b": 1}',
        '{"é": 1, "b": 1, "é": 2}',
        '{"é": 1, "b": 1, "\\u00e9": 2}',
        '{"\\u00e9": 1, "\\u00E9": 1, "b": 1}',
        '{"b": 1, "é": 1, "\\u00e9": 1}',
    ]
    assert_texts(schema, ['{"é": 1, "b": 2}'], twice, property_order=order)


def test_names_are_unique_among_sixty_members() -> None:
    machine = JsonSchemaStateMachine({"type": "object"})
    names = [f"name{number}" for number in range(60)]
    text = json.dumps(dict.fromkeys(names))[:-1]
    assert machine.matches(text + ', "name60": null}')
    assert not machine.matches(text + ', "name31": null}')


def test_names_are_spelled_like_json_dumps() -> None:
    schema = {"properties": {'é"\n\\': INTEGER, "a/b~": INTEGER}, "additionalProperties": False}
    value = {'é"\n\\': 1, "a/b~": 2}
    assert_texts(schema, [json.dumps(value), json.dumps(value, ensure_ascii=False)], ['{"é": 1}'])


def test_listed_names_may_be_prefixes_of_each_other() -> None:
    schema = {
        "properties": {"a": INTEGER, "ab": STRING, "abc": {"type": "null"}, "": {"const": 0}},
        "additionalProperties": False,
    }
    admitted = ['{"a": 1, "ab": "", "abc": null, "": 0}', '{"ab": ""}', '{"abc": null}', '{"": 0}']
    assert_texts(
        schema, admitted, ['{"ab": 1}', '{"abc": 1}', '{"abcd": 1}', '{"": 1}', '{"b": 1}']
    )
    open_schema = {"properties": {"ab": INTEGER}}
    assert_texts(open_schema, ['{"a": "", "abc": ""}', '{"ab": 1, "b": ""}'], ['{"ab": ""}'])


def test_no_member_begins_when_all_names_are_used() -> None:
    schema = {
        "additionalProperties": INTEGER,
        "propertyNames": {"enum": ["a", "b"]},
        "type": "object",
    }
    start = JsonSchemaStateMachine(schema, property_order="any").start
    assert start.compute_word_derivative(b'{"a": 1').first_bytes >> ord(",") & 1
    assert not start.compute_word_derivative(b'{"a": 1, "b": 1').first_bytes >> ord(",") & 1
    assert start.compute_word_derivative(b'{"b": 1, "').first_bytes == 1 << ord("a")


def test_members_without_a_value_are_not_named() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"allOf": [STRING, INTEGER]}, "b": INTEGER},
        "additionalProperties": False,
    }
    start = JsonSchemaStateMachine(schema).start
    assert start.compute_word_derivative(b'{"').first_bytes == 1 << ord("b")


def test_four_hundred_optional_members() -> None:
    names = [f"field_{number:03}" for number in range(400)]
    schema = {"properties": dict.fromkeys(names, INTEGER), "additionalProperties": False}
    for order in ("schema", "any"):
        machine = JsonSchemaStateMachine(schema, property_order=order)
        assert machine.matches(member_text(names))
        assert machine.matches(member_text(names[::7]))
        assert machine.matches(member_text(names[::-7])) == (order == "any")
        assert not machine.matches(member_text(["field_400"]))
        assert not machine.matches('{"field_001": 1, "field_001": 1}')


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "additionalProperties": False, "required": ["a"]},
        {"type": "object", "minProperties": 2, "maxProperties": 1},
        {"type": "object", "required": ["a", "b"], "maxProperties": 1},
        {"type": "object", "propertyNames": {"enum": ["a"]}, "minProperties": 2},
        {"type": "object", "propertyNames": {"maxLength": 0}, "required": ["a"]},
        {"type": "object", "patternProperties": {"^a": False}, "required": ["ab"]},
        {
            "type": "object",
            "properties": {"a": INTEGER},
            "additionalProperties": False,
            "minProperties": 2,
        },
        {"type": "object", "additionalProperties": False, "not": {"maxProperties": 0}},
        {"type": "object", "required": ["a"], "not": {"required": ["a"]}},
        {"properties": {"a": {"enum": []}}, "required": ["a"], "type": "object"},
        {"const": {"a": 1}, "properties": {"a": STRING}},
    ],
)
def test_contradictions_are_unsatisfiable(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(schema)


def has_member_other_than(*values: Any) -> Any:
    """Return the schema of objects with a member whose value is none of the given values."""
    return {"not": {"additionalProperties": {"enum": list(values)}}}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    "members",
    [
        {
            "properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}},
            "additionalProperties": False,
        },
        {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"enum": [1, 2]}},
    ],
    ids=["listed", "few names"],
)
def test_last_member_must_satisfy_the_residual_clause(members: Any, order: Any) -> None:
    """Two clauses need two members: no value satisfies both clauses."""
    schema = {
        "type": "object",
        "allOf": [has_member_other_than(1), has_member_other_than(2)],
        **members,
    }
    assert_texts(
        schema,
        ['{"a": 1, "b": 2}', '{"a": 2, "b": 1}'],
        ["{}", '{"a": 1}', '{"b": 2}', '{"a": 1, "b": 1}', '{"a": 3, "b": 1}'],
        property_order=order,
    )
    start = JsonSchemaStateMachine(schema, property_order=order).start
    assert start.compute_word_derivative(b'{"a": 1, "b": ').first_bytes == 1 << ord("2")


@pytest.mark.parametrize(
    "members",
    [
        {"properties": {"a": {"enum": [1, 2]}}, "additionalProperties": False},
        {"propertyNames": {"enum": ["a"]}, "additionalProperties": {"enum": [1, 2]}},
        {
            "required": ["a"],
            "propertyNames": {"enum": ["a"]},
            "properties": {"a": {"enum": [1, 2]}},
        },
    ],
)
def test_clauses_that_need_more_members_than_there_are_names_are_unsatisfiable(
    members: Any,
) -> None:
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(
            {
                "type": "object",
                "allOf": [has_member_other_than(1), has_member_other_than(2)],
                **members,
            }
        )


def test_three_clauses_over_two_members() -> None:
    few = {"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"enum": [1, 2, 3, 4]}}
    clauses = [
        has_member_other_than(1, 2, 3),
        has_member_other_than(2, 3, 4),
        has_member_other_than(1, 3, 4),
    ]
    with pytest.raises(UnsatisfiableSchemaError):
        JsonSchemaStateMachine({"type": "object", "allOf": clauses, **few})
    satisfiable = [
        has_member_other_than(1, 2),
        has_member_other_than(2, 3),
        has_member_other_than(1, 4),
    ]
    assert_texts(
        {"type": "object", "allOf": satisfiable, **few},
        ['{"a": 4, "b": 2}', '{"a": 1, "b": 3}', '{"b": 3, "a": 4}'],
        ['{"a": 4}', '{"a": 1, "b": 2}', '{"a": 1, "b": 4}', "{}"],
    )


_PATTERNS = "^a", "b$", "^[ab]*$", "^ab?$", "c", ""
_NAMES = ["".join(name) for length in range(4) for name in product("abc", repeat=length)]


@given(rules=st.lists(st.tuples(st.sampled_from(_PATTERNS), st.integers(0, 3)), max_size=5))
def test_cells_partition_the_unlisted_names_by_the_rules_that_match(
    rules: list[tuple[str, int]],
) -> None:
    table = TermTable()
    terms = [FALSE, TRUE, table.evaluated("first"), table.evaluated("second")]
    languages = [compile_pattern(pattern, search=True) for pattern, _ in rules]
    found = zip(languages, rules, strict=True)
    shape = ObjectShape(name_rules=tuple(NameRule(names, terms[n]) for names, (_, n) in found))
    cells = [(encoded(cell.names, RAW), cell.term) for cell in name_cells(shape, table)]
    assert not any(names.is_empty for names, _ in cells)
    for name in _NAMES:
        matching = [terms[n] for pattern, n in rules if re.search(pattern, name)]
        expected = table.all_of(matching)
        own = [term for names, term in cells if names.matches(name.encode())]
        assert own == ([] if expected is FALSE else [expected])
