"""Schemas a few changes away from real ones, against ``jsonschema``."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any

import pytest
from data_files import NO_MASKBENCH, maskbench_file
from hypothesis import event, given
from hypothesis import strategies as st
from near_schemas import mutated_schema, mutated_value
from oracle import Oracle
from schema_strategies import examples
from small_vocabulary import a_text, small_vocabulary
from suites import maskbench
from verdicts import Case

from state_machines import JsonSchemaStateMachine, SchemaError, UnsatisfiableSchemaError

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(maskbench_file() is None, reason=NO_MASKBENCH),
]

# Numbers that are not generated in this spelling.
UNUSUAL = re.compile(r"[0-9.][eE]|\d{300}|-0|\.0+\b")


@cache
def cases() -> list[Case]:
    """Return the real schemas that are not too long."""
    return [
        case
        for case in maskbench()
        if isinstance(case.schema, dict) and len(json.dumps(case.schema)) < 40_000
    ]


def compiled(schema: Any, **options: Any) -> JsonSchemaStateMachine | None:
    """Compile a schema; ``None`` if it is refused with the place of an error."""
    try:
        return JsonSchemaStateMachine(schema, assert_formats=False, **options)
    except UnsatisfiableSchemaError:
        event("unsatisfiable")
    except SchemaError as error:
        assert error.is_located
        event(f"refused: {type(error).__name__}")
    return None


@examples(30)
@given(st.randoms(use_true_random=False))
def test_values_near_real_schemas_are_accepted_exactly_if_valid(random: Random) -> None:
    case, *others = random.sample(cases(), 5)
    schema = mutated_schema(case.schema, [other.schema for other in others], random)
    machine = compiled(schema, property_order="any")
    if machine is None:
        return
    oracle, in_order = Oracle(schema), compiled(schema)
    matcher = machine.matcher(small_vocabulary())
    for value, _ in random.sample(case.tests, min(3, len(case.tests))):
        for near in (value, mutated_value(value, random)):
            text, admitted = json.dumps(near), oracle.admits(near)
            if admitted is None or UNUSUAL.search(text) or re.search(r"\\ud[89a-f]", text):
                continue
            event(f"admitted: {admitted}")
            assert machine.matches(text) == admitted, text
            assert admitted or in_order is None or not in_order.matches(text), text
            if admitted:
                writing = matcher.copy()
                for byte in text[:200].encode():
                    assert writing.allowed_tokens()[byte], text
                    writing.advance(byte)


@examples(30)
@given(st.randoms(use_true_random=False))
def test_random_bytes_for_schemas_near_real_ones_end_in_valid_text(random: Random) -> None:
    case, *others = random.sample(cases(), 5)
    schema = mutated_schema(case.schema, [other.schema for other in others], random)
    machine = compiled(schema, whitespace=random.choice(("json", "compact", "indented")))
    if machine is None:
        return
    text = a_text(machine.start, random, random.randint(3, 40))
    if text is None:
        event("too far from the end")
        return
    assert Oracle(schema).admits_text(text) is not False, text
