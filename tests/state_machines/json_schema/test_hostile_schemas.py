"""Schemas made to do harm end in a result or in an error of the project, within their budget.

Each runs in a process of its own, with bounded memory and time: it is compiled, and texts are
begun by random walks over the masks.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patched_limits import patch_limits
from small_vocabulary import small_vocabulary

from state_machines import JsonSchemaStateMachine, UnsupportedSchemaError
from state_machines.budgets import step_budget

SUPPORT = Path(__file__).parents[2] / "support"
SECONDS = 300
GIBIBYTES = 4

WALKER = f"""
import json, resource, sys
from random import Random
import numpy as np
from small_vocabulary import small_vocabulary
from state_machines import JsonSchemaStateMachine, ProxyError

resource.setrlimit(resource.RLIMIT_AS, ({GIBIBYTES} << 30, {GIBIBYTES} << 30))
vocabulary = small_vocabulary()
# Letters that the patterns speak of come often, so that long texts are written.
liked = {{b"a", b"b", b"ab", b"ba", b'"', b'{{"', b"["}}
for line in sys.stdin:
    name, schema = json.loads(line)
    try:
        machine = JsonSchemaStateMachine(schema)
        random, matcher = Random(0), machine.matcher(vocabulary)
        for step in range(25):
            mask = matcher.allowed_tokens()
            assert mask.any(), "dead end"
            allowed = [
                i for i in np.flatnonzero(mask).tolist() if i not in vocabulary.end_token_ids
            ]
            if not allowed:
                break
            if step % 10 == 0:
                matcher.forced_bytes()
            often = [i for i in allowed if vocabulary.token_bytes[i] in liked]
            matcher.advance(random.choice(often if often and step % 5 else allowed))
        print(json.dumps([name, "compiled"]), flush=True)
    except ProxyError as error:
        print(json.dumps([name, type(error).__name__]), flush=True)
"""


def walked(schemas: dict[str, Any]) -> dict[str, str]:
    """Return by name what came of the schemas: ``compiled`` or the name of an error."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    lines = "".join(json.dumps([name, schema]) + "\n" for name, schema in schemas.items())
    done = subprocess.run(
        [sys.executable, "-c", WALKER],
        input=lines,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment,
    )
    outcomes = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, (sorted(set(schemas) - set(outcomes))[:1], done.stderr[-2000:])
    return outcomes


def nested(levels: int, wrap: Callable[[Any], Any]) -> Any:
    """Return a schema wrapped again and again."""
    schema: Any = {"type": "integer"}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


def bomb(keyword: str, levels: int = 32, **beside: Any) -> Any:
    """Return references that double at every level."""
    definitions: dict[str, Any] = {}
    for level in range(levels):
        ref = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {keyword: [ref, {**ref, **beside}]}
    definitions[f"d{levels}"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


def doubling_members(levels: int) -> Any:
    """Return objects whose least instance doubles at every level."""
    definitions: dict[str, Any] = {}
    for level in range(levels):
        ref = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {
            "type": "object",
            "properties": {"l": ref, "r": ref},
            "required": ["l", "r"],
        }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


NAMES = [f"p{index}" for index in range(10_000)]
TEXT = {"type": "string"}

COMPILED: dict[str, Any] = {
    "anyOf in allOf": {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {f"a{i}": {"const": j}}, "required": [f"a{i}"]} for j in range(4)
                ]
            }
            for i in range(20)
        ]
    },
    "members 300 deep": nested(300, lambda s: {"properties": {"a": s}, "required": ["a"]}),
    "a constant 300 deep": {"const": json.loads("[" * 300 + "]" * 300)},
    "allOf bomb": bomb("allOf"),
    "anyOf bomb": bomb("anyOf"),
    "allOf bomb with bounds": bomb("allOf", minProperties=2),
    "anyOf bomb with bounds": bomb("anyOf", minProperties=2),
    "doubling members": doubling_members(40),
    "recursion under not": {
        "not": {"$ref": "#/$defs/a"},
        "$defs": {
            "a": {
                "properties": {"a": {"not": {"$ref": "#/$defs/a"}}, "b": {"$ref": "#/$defs/a"}},
                "items": {"not": {"$ref": "#/$defs/a"}},
            }
        },
    },
    "2^30 states": {**TEXT, "pattern": "(a|b)*a(a|b){30}"},
    "2^30 states, anchored": {**TEXT, "pattern": "^(a|b)*a(a|b){30}$"},
    "nested stars": {**TEXT, "pattern": "^(a+)+$"},
    "stars in a row": {**TEXT, "pattern": "(.*a){20}"},
    "ambiguous counters": {**TEXT, "pattern": "^((a{1,100}){1,100}){1,100}$"},
    "optional letters": {**TEXT, "pattern": "^(a?){50}a{50}$"},
    "counters of a thousand million": {**TEXT, "pattern": "^(x{0,1000000000}){0,1000000000}$"},
    "the complement of 2^20 states": {**TEXT, "not": {"pattern": "(a|b)*a(a|b){20}c$"}},
    "fifteen complements": {
        **TEXT,
        "allOf": [{"not": {"pattern": f"a.{{{gap}}}b"}} for gap in range(15)],
    },
    "look-aheads": {
        **TEXT,
        "pattern": "^(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*[0-9])(?!.*ee).{8,64}$",
    },
    "a long pattern": {**TEXT, "pattern": "a" * 10_000},
    "maxLength": {**TEXT, "maxLength": 10**9},
    "minLength": {**TEXT, "minLength": 10**9},
    "maxLength and pattern": {**TEXT, "maxLength": 10**9, "pattern": "^[ab]*$"},
    "minItems": {"type": "array", "minItems": 10**9},
    "maxItems": {"type": "array", "maxItems": 10**9},
    "minItems of one value": {"type": "array", "items": {"type": "null"}, "minItems": 10**9},
    "maxContains": {"type": "array", "contains": {"type": "integer"}, "maxContains": 10**9},
    "many different items": {"type": "array", "uniqueItems": True, "minItems": 10**6},
    "minProperties": {"type": "object", "minProperties": 10**9},
    "minProperties of a pattern": {
        "type": "object",
        "minProperties": 10**6,
        "propertyNames": {"pattern": "^[ab]*$"},
    },
    "maxProperties": {"type": "object", "maxProperties": 10**9},
    "100,000 words": {"enum": [f"e{index * 7919 % 1000003}" for index in range(100_000)]},
    "all but 20,000 words": {**TEXT, "not": {"enum": [f"e{i}" for i in range(20_000)]}},
    "10,000 properties": {"type": "object", "properties": dict.fromkeys(NAMES, TEXT)},
    "five of 10,000 properties": {
        "type": "object",
        "properties": dict.fromkeys(NAMES, TEXT),
        "maxProperties": 5,
    },
    "10,000 required names": {"type": "object", "required": NAMES},
    "10,000 prefixItems": {
        "type": "array",
        "prefixItems": [{"type": "integer"}] * 10_000,
        "items": False,
    },
    "1,000 dependencies": {"dependentRequired": {name: [f"q{name}"] for name in NAMES[:1000]}},
    "not all of 3,000 names": {"not": {"required": NAMES[:3000]}},
    "20,000 different prefixItems": {
        "type": "array",
        "prefixItems": [{"const": index} for index in range(20_000)],
    },
    "a tiny step": {"type": "number", "multipleOf": 1e-300},
    "a bound at the end of doubles": {"type": "number", "minimum": 1e307},
    "no multiple of a large number": {"type": "number", "not": {"multipleOf": 10**9 + 7}},
}

REFUSED: dict[str, tuple[str, Any]] = {
    "oneOf bomb": ("UnsatisfiableSchemaError", bomb("oneOf")),
    "minContains": (
        "UnsupportedSchemaError",
        {"type": "array", "contains": {"type": "integer"}, "minContains": 10**9},
    ),
    "5,000 groups in one another": (
        "UnsupportedSchemaError",
        {**TEXT, "pattern": "(" * 5000 + "a" + ")" * 5000},
    ),
    "an integer beyond all that is written": (
        "UnsatisfiableSchemaError",
        {"type": "integer", "minimum": 10**4000},
    ),
    "what twelve alternatives evaluate": (
        "UnsupportedSchemaError",
        {
            "anyOf": [{"properties": {f"u{i}": True}, "required": [f"u{i}"]} for i in range(12)],
            "unevaluatedProperties": False,
        },
    ),
}


def test_hostile_schemas_compile_or_are_refused() -> None:
    refused = {name: schema for name, (_, schema) in REFUSED.items()}
    expected = {name: error for name, (error, _) in REFUSED.items()}
    assert walked(COMPILED | refused) == dict.fromkeys(COMPILED, "compiled") | expected


WRAPPINGS: dict[str, Callable[[Any], Any]] = {
    "properties": lambda s: {"properties": {"a": s}},
    "items": lambda s: {"items": s},
    "allOf": lambda s: {"allOf": [s]},
    "anyOf": lambda s: {"anyOf": [s, {"type": "null"}]},
    "oneOf": lambda s: {"oneOf": [s, {"type": "null"}]},
    "not": lambda s: {"not": s},
    "if": lambda s: {"if": s, "then": {"minimum": 1}},
    "const": lambda s: {"const": s},
}


@pytest.mark.parametrize("keyword", WRAPPINGS)
def test_ten_thousand_levels_are_refused_by_name(keyword: str) -> None:
    schema = nested(10_000, WRAPPINGS[keyword])
    with pytest.raises(UnsupportedSchemaError, match="nested too deeply") as caught:
        JsonSchemaStateMachine({"title": "deep", **schema})
    assert (caught.value.keyword, caught.value.pointer) == (keyword, f"/{keyword}")


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "not", "if"])
def test_levels_in_place_compile_or_are_refused_by_name(keyword: str) -> None:
    machine = JsonSchemaStateMachine(nested(60, WRAPPINGS[keyword]))
    assert machine.matches("7")
    assert machine.matches('"a"') is (keyword == "if")
    with pytest.raises(UnsupportedSchemaError, match="nested too deeply"):
        JsonSchemaStateMachine(chain(3000, keyword))


def chain(levels: int, keyword: str) -> Any:
    """Return a chain of references."""
    definitions = {
        f"d{level}": WRAPPINGS[keyword]({"$ref": f"#/$defs/d{level + 1}"})
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "integer"}
    return {"$ref": "#/$defs/d0", "$defs": definitions}


@pytest.mark.parametrize(
    ("keyword", "levels"),
    [("allOf", 60), ("anyOf", 60), ("oneOf", 60), ("not", 60), ("if", 60), ("items", 3000)],
)
def test_chains_of_references(keyword: str, levels: int) -> None:
    machine = JsonSchemaStateMachine(chain(levels, keyword))
    assert machine.matches("7")
    assert machine.matches("[[7]]") is (keyword in ("if", "items"))


# More than the interpreter's limit of recursion.
LEVELS = 1100
RECURSIVE: dict[str, tuple[Any, str, str, str]] = {
    "arrays": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
        "[",
        "",
        "]",
    ),
    "objects": (
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/$defs/a"}},
                    "additionalProperties": False,
                }
            },
        },
        '{"a": ',
        "{}",
        "}",
    ),
    "free arrays": ({}, "[", "", "]"),
    "free objects": ({}, '{"a":', "null", "}"),
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_answers_nested_beyond_the_recursion_limit(name: str) -> None:
    schema, opening, innermost, closing = RECURSIVE[name]
    text = (opening * LEVELS + innermost + closing * LEVELS).encode()
    machine = JsonSchemaStateMachine(schema)
    matcher = machine.matcher(small_vocabulary())
    twin = matcher.copy()
    for index, byte in enumerate(text):
        if index % 1000 == 0 or index == len(text) // 2:
            assert matcher.allowed_tokens()[byte]
            assert matcher.forced_bytes() == text[index : index + len(matcher.forced_bytes())]
            twin = matcher.copy()
        matcher.advance(byte)
    assert matcher.is_accepting
    assert machine.matches(text)
    # States as deep as the text hang together by their rests.
    del machine, matcher
    gc.collect()
    assert twin.allowed_tokens().any()
    del twin
    gc.collect()


def test_reading_a_large_schema_is_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_limits(monkeypatch, compile_steps=20_000)
    for keyword in ("const", "enum"):
        with pytest.raises(UnsupportedSchemaError, match="steps"):
            JsonSchemaStateMachine({keyword: list(range(40_000))})


def steps_until_refused(schema: Any, what: str, **options: Any) -> int:
    """Return the steps after which a schema is refused with a message."""
    budget = step_budget()
    with budget, pytest.raises(UnsupportedSchemaError, match=what):
        JsonSchemaStateMachine(schema, **options)
    return budget.steps_taken


ENUMERATED: dict[str, Callable[[list[Any]], Any]] = {
    "enum": lambda values: {"enum": values},
    "not": lambda values: {"not": {"enum": values}},
    "oneOf": lambda values: {"oneOf": [{"enum": values}, {"type": "null"}]},
    "propertyNames": lambda values: {"propertyNames": {"enum": values}},
}


@pytest.mark.parametrize("place", ENUMERATED)
@pytest.mark.parametrize("value", [{"a": 1}, [1], [{"a": [1]}]], ids=str)
def test_constants_are_counted_before_they_are_read(place: str, value: Any) -> None:
    text = json.dumps(value)
    steps = []
    for count in (2_000, 100_000):
        values = [json.loads(text.replace("1", str(index))) for index in range(count)]
        steps.append(steps_until_refused(ENUMERATED[place](values), "1,024 alternatives"))
    # Most of these copy the schema.
    assert steps[1] - steps[0] < 3 * 98_000


def test_equal_constants_are_counted_once() -> None:
    machine = JsonSchemaStateMachine({"enum": [{"a": [1]}, [], None, True] * 20_000})
    assert machine.matches("[]")
    assert not machine.matches("[1]")


@pytest.mark.parametrize(
    "alternative",
    [
        lambda i: {"type": "object", "properties": {f"p{i}": {"type": "integer"}}},
        lambda i: {"type": "string", "pattern": f"x{i}"},
        lambda i: {"type": "array", "minItems": i},
    ],
)
def test_overlapping_alternatives_are_counted_before_they_are_compared(
    alternative: Callable[[int], Any],
) -> None:
    schema = {"oneOf": [alternative(index) for index in range(2_000)]}
    assert steps_until_refused(schema, "32,768 pairs of alternatives") < 100 * 2_000


def test_alternatives_with_a_tag_are_not_compared() -> None:
    alternatives = [
        {"properties": {"kind": {"const": f"k{index}"}}, "required": ["kind"], "type": "object"}
        for index in range(1_000)
    ]
    machine = JsonSchemaStateMachine({"oneOf": alternatives})
    assert machine.matches('{"kind": "k999"}')


@pytest.mark.parametrize("options", [{}, {"additional_properties": "closed"}])
def test_refused_schema_is_read_once(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading, and the checks of what was read, share one budget."""
    patch_limits(monkeypatch, compile_steps=20_000)
    names = [f"p{index}" for index in range(20)]
    constants = {name: {"enum": [{name: value} for value in range(200)]} for name in names}
    assert steps_until_refused({"properties": constants}, "20,000 steps", **options) < 21_000


def test_names_that_a_conjunction_copies_are_charged() -> None:
    parts = [{"required": [f"p{index}"]} for index in range(10_000)]
    steps_until_refused({"allOf": parts}, "300,000 steps")
