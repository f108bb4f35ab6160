"""The invariants of structured generation, over generated schemas, by bytes and by tokens."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from judging import Judge
from schema_strategies import (
    crowded_arrays,
    crowded_objects,
    examples,
    json_values,
    object_schemas,
    schemas,
    values_near,
)
from small_vocabulary import a_text, an_ending, brute_force_mask, cuttings, small_vocabulary

from state_machines import (
    GrammarBudgetError,
    InvalidSchemaError,
    JsonSchemaStateMachine,
    Matcher,
    TokenRejectedError,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.grammar.node import EMPTY, leading_bytes

VOCABULARY = small_vocabulary()
WHITESPACE_LAYOUTS = st.sampled_from(("json", "compact", "indented"))
ORDERS = st.sampled_from(("schema", "any"))


def compiled(schema: Any, **options: Any) -> JsonSchemaStateMachine:
    """Compile a schema; skip the example if it is refused with an error."""
    try:
        machine = JsonSchemaStateMachine(schema, **options)
    except UnsatisfiableSchemaError:
        event("unsatisfiable")
    except (UnsupportedSchemaError, GrammarBudgetError) as error:
        event(f"refused: {error.what[:60]}")
    except InvalidSchemaError:
        assert consumes_nothing(schema), "only empty loops are invalid here"
        event("an empty loop")
    else:
        # A loop may not matter, as in {"if": {"$ref": "#"}}, but the validator would not terminate.
        assume(not consumes_nothing(schema))
        return machine
    assume(False)
    raise AssertionError


def consumes_nothing(schema: Any) -> bool:
    """Whether a chain of references leads back to itself without entering an array or object."""

    def beside(part: Any) -> Iterator[Any]:
        if isinstance(part, dict):
            if "$ref" in part:
                yield schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
            for keyword in ("anyOf", "oneOf", "allOf"):
                yield from part.get(keyword, ())
            for keyword in ("not", "if", "then", "else"):
                if keyword in part:
                    yield part[keyword]
            yield from part.get("dependentSchemas", {}).values()

    def below(part: Any) -> Iterator[Any]:
        if isinstance(part, dict):
            for item in part.values():
                yield item
                yield from below(item)
        elif isinstance(part, list):
            for item in part:
                yield item
                yield from below(item)

    def loops(part: Any, open_parts: tuple[int, ...]) -> bool:
        if id(part) in open_parts:
            return True
        return any(loops(other, (*open_parts, id(part))) for other in beside(part))

    return any(loops(part, ()) for part in [schema, *below(schema)])


@examples(100)
@given(schemas(), ORDERS, WHITESPACE_LAYOUTS, st.integers(0, 2**32))
def test_random_bytes_end_in_valid_text(schema: Any, order: Any, layout: Any, seed: int) -> None:
    machine = compiled(schema, property_order=order, whitespace=layout)
    text = a_text(machine.start, Random(seed), 30)
    if text is None:
        event("too far from the end")
        return
    assert Judge(schema).admits_text(text), text


@examples(60)
@given(schemas(), ORDERS, WHITESPACE_LAYOUTS, st.integers(0, 2**32))
def test_random_tokens_end_in_valid_text(schema: Any, order: Any, layout: Any, seed: int) -> None:
    machine = compiled(schema, property_order=order, whitespace=layout)
    random, matcher = Random(seed), machine.matcher(VOCABULARY)
    text = b""
    for step in range(60):
        allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
        assert allowed, f"dead end after {text!r}"
        ends = [token_id for token_id in allowed if token_id in VOCABULARY.end_token_ids]
        if ends and (step > 12 or random.random() < 0.2 or len(ends) == len(allowed)):
            matcher.advance(random.choice(ends))
            assert matcher.is_finished
            assert not matcher.allowed_tokens().any()
            assert Judge(schema).admits_text(text), text
            return
        plain = [token_id for token_id in allowed if token_id not in ends]
        if step > 12:
            ending = an_ending(matcher.state)
            if ending is None:
                event("too far from the end")
                return
            token_id = random.choice(
                [t for t in plain if ending.startswith(VOCABULARY.token_bytes[t] or b"\0")]
            )
        else:
            # Prefer a longer token half of the time; otherwise nearly all would be single bytes.
            long = [t for t in plain if len(VOCABULARY.token_bytes[t] or b"") > 1]
            token_id = random.choice(long if long and random.random() < 0.5 else plain)
        matcher.advance(token_id)
        text += VOCABULARY.token_bytes[token_id] or b""
    event("a long walk")


@examples(100)
@given(st.data())
def test_values_are_accepted_exactly_if_valid(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    machine = compiled(schema, property_order="any")
    in_order = compiled(schema, property_order="schema")
    judge = Judge(schema)
    for _ in range(4):
        value = data.draw(st.one_of(values_near(schema), json_values))
        admitted = judge.admits(value)
        event(f"admitted: {admitted}")
        for ensure_ascii in (True, False):
            for separators in ((",", ":"), (", ", ": ")):
                text = json.dumps(value, ensure_ascii=ensure_ascii, separators=separators)
                assert machine.matches(text) == admitted, text
                # In schema order a valid value may be refused only because of its order.
                assert admitted or not in_order.matches(text), text


@examples(50)
@given(st.data())
def test_values_are_accepted_in_every_tokenization(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    value = data.draw(values_near(schema))
    # Compiled first: the validator does not terminate for a schema that is an empty loop.
    machine = compiled(schema, property_order="any")
    assume(Judge(schema).admits(value))
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    matcher = machine.matcher(VOCABULARY)
    for token_id in data.draw(cuttings(text, VOCABULARY)):
        assert not matcher.is_finished
        assert matcher.allowed_tokens()[token_id], VOCABULARY.token_bytes[token_id]
        matcher.advance(token_id)
    assert matcher.is_accepting
    for end in VOCABULARY.end_token_ids:
        assert matcher.allowed_tokens()[end]
        twin = matcher.copy()
        twin.advance(end)
        assert twin.is_finished


@examples(50)
@given(st.data())
def test_objects_in_schema_order_are_accepted(data: st.DataObject) -> None:
    schema = data.draw(object_schemas())
    value = data.draw(values_near(schema))
    machine = compiled(schema)
    admitted = Judge(schema).admits(value)
    event(f"admitted: {admitted}")
    text = json.dumps(_ordered(value, schema), ensure_ascii=data.draw(st.booleans()))
    assert machine.matches(text) == admitted, text


def _ordered(value: Any, schema: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return value
    properties = schema.get("properties", {})
    listed = list(dict.fromkeys((*properties, *schema.get("required", ()))))
    names = [n for n in listed if n in value] + [n for n in value if n not in listed]
    return {name: _ordered(value[name], properties.get(name)) for name in names}


crowded = st.one_of(crowded_objects(), crowded_arrays())
few_values = st.sampled_from((1, 2, 3, "a", None))


@examples(60)
@given(crowded, ORDERS, st.integers(0, 2**32))
def test_no_dead_ends_where_few_values_satisfy_many_clauses(
    schema: Any, order: Any, seed: int
) -> None:
    machine = compiled(schema, property_order=order)
    judge = Judge(schema)
    random, state, text = Random(seed), machine.start, b""
    for _ in range(60):
        choices = leading_bytes(state)
        if state.nullable:
            assert judge.admits_text(text), text
            return
        assert choices, f"dead end after {text!r}"
        # Prefer names and structure; otherwise walks would stay in strings.
        likely = [byte for byte in choices if byte in b'ab"{}[]:,123n']
        byte = random.choice(likely or choices)
        state = state.derivative(byte)
        text += bytes((byte,))
    event("a long walk")


@examples(60)
@given(st.data())
def test_few_values_that_satisfy_many_clauses_are_accepted(data: st.DataObject) -> None:
    schema = data.draw(crowded)
    judge = Judge(schema)
    if schema["type"] == "object":
        values = st.dictionaries(st.sampled_from(("a", "b", "ab", "é")), few_values, max_size=3)
    else:
        values = st.lists(few_values, max_size=4)
    try:
        machine = JsonSchemaStateMachine(schema, property_order="any")
    except UnsatisfiableSchemaError:
        machine = None
    except (UnsupportedSchemaError, GrammarBudgetError) as error:
        event(f"refused: {error.what[:60]}")
        assume(False)
    for _ in range(5):
        value = data.draw(values)
        admitted = judge.admits(value)
        event(f"admitted: {admitted}")
        assert (machine is not None and machine.matches(json.dumps(value))) == admitted, value


@examples(40)
@given(schemas(), json_values)
def test_unsatisfiable_schema_accepts_no_value(schema: Any, value: Any) -> None:
    try:
        JsonSchemaStateMachine(schema)
    except UnsatisfiableSchemaError:
        assert not Judge(schema).admits(value)
    except (UnsupportedSchemaError, InvalidSchemaError, GrammarBudgetError):
        assume(False)


@examples(40)
@given(schemas(), ORDERS, st.integers(0, 2**32))
def test_masks_and_advance_agree_with_brute_force(schema: Any, order: Any, seed: int) -> None:
    machine = compiled(schema, property_order=order)
    random, matcher = Random(seed), machine.matcher(VOCABULARY)
    for _ in range(6):
        mask = matcher.allowed_tokens()
        assert mask.dtype == np.bool_
        assert mask.shape == (VOCABULARY.size,)
        assert not mask.flags.writeable
        expected = brute_force_mask(matcher.state, VOCABULARY)
        wrong = np.flatnonzero(mask != expected).tolist()
        assert not wrong, [VOCABULARY.token_bytes[token_id] for token_id in wrong]
        assert all(mask[end] == matcher.is_accepting for end in VOCABULARY.end_token_ids)
        state = matcher.state
        for token_id in range(VOCABULARY.size):
            twin = matcher.copy()
            if mask[token_id]:
                twin.advance(token_id)
                continue
            with pytest.raises(TokenRejectedError) as caught:
                twin.advance(token_id)
            assert caught.value.token_id == token_id
            assert twin.state is state
            assert not twin.is_finished
        assert matcher.state is state
        plain = [t for t in np.flatnonzero(mask).tolist() if t not in VOCABULARY.end_token_ids]
        if not plain:
            break
        long = [t for t in plain if len(VOCABULARY.token_bytes[t] or b"") > 1]
        matcher.advance(random.choice(long if long and random.random() < 0.5 else plain))


@examples(40)
@given(schemas(), st.integers(0, 2**32))
def test_forced_bytes_are_the_only_continuation(schema: Any, seed: int) -> None:
    machine = compiled(schema)
    random, matcher = Random(seed), machine.matcher(VOCABULARY)
    for _ in range(10):
        forced = matcher.forced_bytes()
        state = matcher.state
        for byte in forced:
            assert not state.nullable
            assert leading_bytes(state) == (byte,)
            state = state.derivative(byte)
        assert state.nullable or len(leading_bytes(state)) != 1
        choices = leading_bytes(matcher.state)
        if not choices:
            break
        matcher.advance(random.choice(choices))


@examples(25)
@given(schemas(), st.integers(0, 2**32))
def test_copies_are_independent(schema: Any, seed: int) -> None:
    machine = compiled(schema)
    random = Random(seed)
    matcher = machine.matcher(VOCABULARY)
    trail: list[tuple[Matcher, Any, bool]] = []
    for _ in range(12):
        twin = matcher.copy()
        trail.append((twin, matcher.state, matcher.is_finished))
        allowed = np.flatnonzero(matcher.allowed_tokens()).tolist()
        if not allowed:
            break
        matcher.advance(random.choice(allowed))
    for twin, state, finished in trail:
        assert twin.state is state
        assert twin.is_finished == finished
        before = twin.allowed_tokens().copy()
        other = twin.copy()
        allowed = np.flatnonzero(before).tolist()
        if allowed:
            other.advance(random.choice(allowed))
        assert (twin.allowed_tokens() == before).all()


@examples(40)
@given(schemas())
def test_compilation_does_not_modify_the_schema(schema: Any) -> None:
    before = copy.deepcopy(schema)
    try:
        machine = JsonSchemaStateMachine(schema)
    except (UnsupportedSchemaError, UnsatisfiableSchemaError, InvalidSchemaError):
        machine = None
    except GrammarBudgetError:
        machine = None
    assert schema == before
    assert json.dumps(schema) == json.dumps(before)
    if machine is not None:
        state = machine.start
        schema.clear()
        schema["type"] = "null"
        first = leading_bytes(state)
        assert first
        assert all(state.derivative(byte) is not EMPTY for byte in first)


def test_no_token_is_allowed_after_the_end() -> None:
    matcher = JsonSchemaStateMachine({"type": "null"}).matcher(VOCABULARY)
    for byte in b"null":
        matcher.advance(byte)
    end = min(VOCABULARY.end_token_ids)
    matcher.advance(end)
    assert matcher.is_finished
    assert matcher.forced_bytes() == b""
    assert not matcher.allowed_tokens().any()
    for token_id in (end, ord("a")):
        with pytest.raises(TokenRejectedError, match="end token"):
            matcher.advance(token_id)


@pytest.mark.parametrize("token_id", [-1, VOCABULARY.size, VOCABULARY.size + 5, 10**9])
def test_token_ids_out_of_range_are_rejected(token_id: int) -> None:
    matcher = JsonSchemaStateMachine({}).matcher(VOCABULARY)
    with pytest.raises(TokenRejectedError):
        matcher.advance(token_id)
