"""Regressions: schemas, found by fuzzing, that were compiled or matched incorrectly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, UnsupportedSchemaError, Vocabulary
from state_machines.budgets import step_budget
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import EMPTY
from state_machines.grammar.until import text_without
from state_machines.reader_languages.formats import STRING_FORMATS

VOCABULARY = small_vocabulary()


def closed_by(names: list[str]) -> Any:
    """Return a schema of objects in which each of the names is required and a number."""
    properties = {name: {"type": "number"} for name in names}
    return {"type": "object", "properties": properties, "required": names}


def test_exponential_product_is_refused_before_generation() -> None:
    """The item that must fail was evaluated only during generation."""
    either = {
        "oneOf": [
            closed_by([f"a{index}" for index in range(20)]),
            closed_by([f"b{index}" for index in range(20)]),
        ]
    }
    schema = {"properties": {"x": {"not": {"type": "array", "items": either}}}, "required": ["x"]}
    try:
        machine = JsonSchemaStateMachine(schema, property_order="any")
    except UnsupportedSchemaError as error:
        assert error.pointer.startswith("/properties/x")
        return
    for seed in range(20):
        random, matcher = Random(seed), machine.matcher(VOCABULARY)
        for byte in b'{"x":[':
            matcher.advance(byte)
        for _ in range(10):
            allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
            assert allowed
            plain = [i for i in allowed if i not in VOCABULARY.end_token_ids]
            if not plain:
                break
            matcher.advance(random.choice(plain))


@pytest.mark.parametrize("instance", ['{"x": [1]}', '{"x": 1}'])
def test_array_with_a_failing_item_is_accepted(instance: str) -> None:
    """A product that is small enough to be compiled."""
    either = {"oneOf": [closed_by(["a", "b"]), closed_by(["c", "d"])]}
    schema = {"properties": {"x": {"not": {"type": "array", "items": either}}}, "required": ["x"]}
    machine = JsonSchemaStateMachine(schema, property_order="any")
    assert machine.matches(instance)
    assert not machine.matches('{"x": []}')
    assert not machine.matches('{"x": [{"a": 1, "b": 2}]}')
    assert machine.matches('{"x": [{"a": 1, "b": 2, "c": 3, "d": 4}]}')


def test_negated_length_bounds_are_enforced() -> None:
    machine = JsonSchemaStateMachine({"type": "string", "not": {"maxLength": 65536}})
    assert machine.matches('"' + 65537 * "a" + '"')
    assert not machine.matches('"' + 65536 * "a" + '"')
    short = {"type": "string", "not": {"minLength": 3, "maxLength": 100_000}}
    assert JsonSchemaStateMachine(short).matches('"ab"')
    assert not JsonSchemaStateMachine(short).matches('"abc"')


ORDERS: list[Any] = [
    ({"not": {"required": ["c", "a"]}}, '{"b": 1, "c": 1}'),
    ({"required": ["c"], "not": {"required": ["c", "a"]}}, '{"b": 1, "c": 1}'),
    ({"not": {"anyOf": [{"required": ["c", "b"]}, {"required": ["b"]}]}}, '{"a": 1, "c": 1}'),
    (
        {
            "required": ["c"],
            "if": {"properties": {"c": {"const": "x"}}},
            "then": {"required": ["b"]},
        },
        '{"a": 1, "b": 1, "c": "x"}',
    ),
]


@pytest.mark.parametrize(("before", "text"), ORDERS)
def test_names_in_conditions_do_not_set_the_order(before: Any, text: str) -> None:
    schema = {"type": "object", **before, "properties": {"a": {}, "b": {}, "c": {}}}
    assert JsonSchemaStateMachine(schema).matches(text)


def test_threads_may_evaluate_the_same_term_concurrently() -> None:
    depending = {
        f"d{i}": {
            "properties": {
                "tags": {"type": "array", "items": {"minimum": i}, "maxItems": 20 + i},
                f"p{i}": {"type": "integer"},
            }
        }
        for i in range(7)
    }
    schema = {"type": "object", "dependentSchemas": depending}
    for _ in range(8):
        machine = JsonSchemaStateMachine(schema, property_order="any")
        barrier = Barrier(4)

        def match(machine: JsonSchemaStateMachine = machine, barrier: Barrier = barrier) -> bool:
            barrier.wait()
            return machine.matches('{"d0": 1, "d1": 2, "tags": [9], "p0": 2}')

        with ThreadPoolExecutor(4) as pool:
            assert all(future.result() for future in [pool.submit(match) for _ in range(4)])


def test_dynamic_scope_begins_with_the_outermost_entry_of_a_document() -> None:
    node = {"$dynamicAnchor": "node"}
    schema = {
        "$id": "http://x/root",
        "type": "object",
        "properties": {"p": {"$ref": "A#/$defs/toB"}, "q": {"$ref": "B#/$defs/toA"}},
        "$defs": {
            "A": {
                "$id": "http://x/A",
                "$defs": {
                    "n": {**node, "type": "string"},
                    "toB": {"$ref": "B#/$defs/toA"},
                    "toC": {"$ref": "C"},
                },
            },
            "B": {
                "$id": "http://x/B",
                "$defs": {"n": {**node, "type": "integer"}, "toA": {"$ref": "A#/$defs/toC"}},
            },
            "C": {"$id": "http://x/C", "$dynamicRef": "#node", "$defs": {"n": node}},
        },
    }
    machine = JsonSchemaStateMachine(schema)
    for text in ('{"p": "a"}', '{"q": 1}'):
        assert machine.matches(text)
    for text in ('{"p": 1}', '{"q": "a"}'):
        assert not machine.matches(text)


def test_parts_of_the_schema_of_a_machine_are_not_shared() -> None:
    part = {"type": "string"}
    copy = JsonSchemaStateMachine({"properties": {"a": part, "b": dict(part)}}).schema
    copy["properties"]["a"]["x"] = 1
    assert copy["properties"]["b"] == part


def test_unique_item_that_exhausts_the_next_items_is_refused() -> None:
    """A token that closes an item and continues did not record the item."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    forms = [bytes((byte,)) for byte in range(256)]
    forms += [(a + b).encode() for a in letters for b in letters]
    forms += [b'",', b'", ', b'"]', b'"}', b'", "']
    vocabulary = Vocabulary([*forms, b"<end>"], end_token_ids=[len(forms)])
    schema = {
        "type": "array",
        "uniqueItems": True,
        "prefixItems": [{"type": "string"}, {"const": "b"}],
        "items": False,
    }
    matcher = JsonSchemaStateMachine(schema).matcher(vocabulary)
    for form in (b"[", b'"', b"b"):
        matcher.advance(forms.index(form))
    allowed = matcher.allowed_tokens()
    assert not allowed[forms.index(b'",')]
    assert allowed[forms.index(b'"]')]
    matcher.advance(forms.index(b"c"))
    assert matcher.allowed_tokens()[forms.index(b'",')]


def clauses_on_a(count: int) -> dict[str, Any]:
    """Return objects with clauses on ``a``; two of them cannot be enforced together."""
    either = [{"anyOf": [{"required": [f"f{i}"]}, {"required": [f"g{i}"]}]} for i in range(5)]
    terms: list[dict[str, Any]] = [
        {"type": "array", "contains": {"const": 1}, "items": {"enum": [1, 2]}, "minContains": 2},
        {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, 3]}},
    ]
    terms += [{"type": "string", "minLength": index} for index in range(1, count - 1)]
    claims = [
        {"anyOf": [{"required": ["a"], "properties": {"a": term}}, {"required": [f"b{i}"]}]}
        for i, term in enumerate(terms)
    ]
    return {"type": "object", "maxProperties": 5 + count, "allOf": either + claims}


def test_unenforceable_pair_of_clauses_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        JsonSchemaStateMachine(clauses_on_a(3), property_order="any")
    assert caught.value.keyword == "uniqueItems"


def test_pair_among_many_clauses_is_no_dead_end() -> None:
    machine = JsonSchemaStateMachine(clauses_on_a(7), property_order="any")
    others = "".join(f'"f{i}": 1, ' for i in range(5)) + "".join(
        f'"b{i}": 1, ' for i in range(2, 7)
    )
    assert machine.start.compute_word_derivative(f'{{{others}"z": 1, "a": ['.encode()) is EMPTY
    assert machine.matches(f'{{{others}"b0": 1, "a": [1, 2]}}')


def test_intersection_with_a_time_format_is_decided_within_the_budget() -> None:
    times = STRING_FORMATS["date-time"]()
    with step_budget(5000):
        assert not intersection((times, text_without(["<never asked before>"]))).is_empty
