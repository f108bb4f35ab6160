"""What completes a text, over generated schemas, patterns and compositions."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schema_strategies import (
    crowded_arrays,
    crowded_objects,
    examples,
    object_schemas,
    schemas,
    values_near,
)
from small_vocabulary import brute_force_mask, cuttings, small_vocabulary

from state_machines import (
    JsonSchemaStateMachine,
    Matcher,
    ProxyError,
    RegexStateMachine,
    UnwritableTextError,
    Vocabulary,
)
from state_machines.completion import Completion
from state_machines.grammar.node import EMPTY, Node
from state_machines.root import Choice, Repeat, RootStateMachine, Series, Structured, Text
from state_machines.root import Optional as Maybe

VOCABULARY = small_vocabulary()
ANY_SCHEMA = st.one_of(schemas(), object_schemas(), crowded_objects(), crowded_arrays())


def compiled(schema: Any, **options: Any) -> JsonSchemaStateMachine:
    try:
        return JsonSchemaStateMachine(schema, **options)
    except ProxyError:
        assume(False)
        raise


def check_plan(state: Node, vocabulary: Vocabulary = VOCABULARY) -> None:
    completion = Completion.of(vocabulary)
    plan = completion.plan(state).tokens
    assert len(plan) == completion.length(state)
    assert (not plan) == state.nullable
    matcher = Matcher(state, vocabulary)
    for token_id in plan:
        assert matcher.allowed_tokens()[token_id]
        matcher.advance(token_id)
    assert matcher.is_accepting


@given(st.data())
@examples(60)
def test_plan_completes_a_partial_text(data: st.DataObject) -> None:
    schema = data.draw(ANY_SCHEMA)
    layout = data.draw(st.sampled_from(("json", "compact", "indented")))
    order = data.draw(st.sampled_from(("schema", "any")))
    machine = compiled(schema, whitespace=layout, property_order=order)
    check_plan(machine.start)
    value = data.draw(values_near(schema))
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    state = machine.start
    for token_id in data.draw(cuttings(text, VOCABULARY)):
        state = state.compute_word_derivative(VOCABULARY.token_bytes[token_id] or b"")
        if state is EMPTY:
            break
        check_plan(state)


@pytest.mark.parametrize(
    ("schema", "shortest"),
    [
        ({}, 1),
        ({"type": "object"}, len("{}")),
        ({"type": "array", "minItems": 3, "items": {"enum": ["aa", 7]}}, len("[7,7,7]")),
        ({"enum": ["a long text", "short", "a longer text"]}, len('"short"')),
        ({"type": "string", "minLength": 40}, 42),
        ({"type": "string", "pattern": "^(a{9}|b{3})$"}, 5),
        ({"type": "integer", "minimum": 1000}, 4),
        ({"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "string"}}, 12),
        ({"type": "object", "minProperties": 2}, len('{"":0,"a":0}')),
        (
            {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                "required": ["next"],
            },
            len('{"next":null}'),
        ),
        (
            {
                "type": "object",
                "properties": {name: {"type": "integer"} for name in "abcdefghijklmnop"},
                "required": ["h", "p"],
            },
            len('{"h":0,"p":0}'),
        ),
        (
            {
                "type": "object",
                "dependentRequired": {"a": ["b"]},
                "anyOf": [{"required": ["a"]}, {"required": ["ccccccccccc"]}],
            },
            len('{"a":0,"b":0}'),
        ),
    ],
)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_words_are_short(schema: Any, shortest: int, order: str) -> None:
    """In bytes, with a vocabulary of single ones."""
    bytewise = Vocabulary([*(bytes((b,)) for b in range(256)), b"end"], end_token_ids=[256])
    machine = JsonSchemaStateMachine(schema, property_order=order)
    assert Completion.of(bytewise).length(machine.start) == shortest


def many_names() -> Any:
    names = [f"name{number}" for number in range(60)]
    return {
        "type": "object",
        "properties": {name: {"type": "array"} for name in names},
        "required": names,
    }


def deep_recursion() -> Any:
    """Objects that may begin anew at every level; only arrays lead to the end."""
    schema: Any = {"$ref": "#/$defs/0", "$defs": {}}
    for number in range(40):
        further = {"$ref": f"#/$defs/{number + 1}"} if number < 39 else {"type": "null"}
        further = {"type": "array", "items": further, "minItems": 1}
        schema["$defs"][str(number)] = {
            "type": "object",
            "properties": {"a": {"anyOf": [{"$ref": "#/$defs/0"}, further]}},
            "required": ["a"],
            "additionalProperties": False,
        }
    return schema


@pytest.mark.parametrize("schema", [many_names(), deep_recursion()], ids=["names", "recursion"])
@pytest.mark.parametrize(
    "options", [{"property_order": "any"}, {"whitespace": "json"}, {"whitespace": "indented"}]
)
def test_large_schemas_are_planned(schema: Any, options: dict[str, Any]) -> None:
    check_plan(JsonSchemaStateMachine(schema, **options).start)


def composition() -> RootStateMachine:
    number = Structured("number", grammar=RegexStateMachine(r"-?\d{3}"))
    person = Structured(
        "person",
        begin="<tool>",
        end="}}",
        grammar=JsonSchemaStateMachine({"type": "object", "required": ["ab"]}),
    )
    thoughts = Text("thoughts", begin="<s>", end="]]")
    return RootStateMachine(
        Series(Maybe(thoughts), Choice(number, Repeat(person, min_count=2))), VOCABULARY
    )


@given(st.data())
@examples(40)
def test_plan_completes_a_composition(data: st.DataObject) -> None:
    machine = composition()
    matcher = machine.matcher(VOCABULARY)
    check_plan(machine.start)
    for _ in range(20):
        mask = brute_force_mask(matcher.state, VOCABULARY)
        mask[list(VOCABULARY.end_token_ids)] = False
        ids = [i for i, is_in in enumerate(mask.tolist()) if is_in]
        if not ids:
            break
        matcher.advance(data.draw(st.sampled_from(ids)))
        check_plan(matcher.state)


def test_another_word_is_found_if_the_vocabulary_lacks_bytes() -> None:
    forms = [b"a", b"b", b"cd", b"10", b'"', b"{", b"}", b"[", b"]", b":", b",", b"end"]
    vocabulary = Vocabulary(forms, end_token_ids=[11])
    check_plan(RegexStateMachine("c(c|d)|bbb").start, vocabulary)
    check_plan(RegexStateMachine("c{2}|bbb").start, vocabulary)
    check_plan(JsonSchemaStateMachine({"type": "integer"}).start, vocabulary)
    check_plan(JsonSchemaStateMachine({"enum": ["x", "ab", 3]}).start, vocabulary)
    completion = Completion.of(vocabulary)
    for machine in (RegexStateMachine("c{3}"), JsonSchemaStateMachine({"type": "boolean"})):
        with pytest.raises(UnwritableTextError):
            completion.length(machine.start)


@settings(max_examples=40)
@given(limits=st.lists(st.integers(0, 60), min_size=1, max_size=6), walk=st.integers(0, 10**6))
def test_masks_that_keep_all_tokens_are_those_that_narrowing_leaves_alone(
    limits: list[int], walk: int
) -> None:
    schema = {"properties": {"a": {"enum": ["x", "y" * 30]}, "b": {"type": "string"}}}
    matcher = JsonSchemaStateMachine(schema).matcher(VOCABULARY)
    completion = Completion(VOCABULARY)
    draw = Random(walk)
    for _ in range(draw.randrange(12)):
        ids = set(np.flatnonzero(matcher.allowed_tokens()).tolist()) - VOCABULARY.end_token_ids
        if ids:
            matcher.advance(draw.choice(sorted(ids)))
    allowed = matcher.allowed_tokens()
    for limit in limits:
        narrowed = completion.within(matcher.state, allowed, limit)
        kept = completion.keeps_all(matcher.state, allowed, limit)
        assert kept == np.array_equal(narrowed, allowed)
