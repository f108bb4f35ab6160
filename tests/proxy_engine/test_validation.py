"""The last check of outputs: exact, bounded, and never wrong about what is correct."""

from __future__ import annotations

import json
import logging
from functools import reduce
from typing import Any

import jsonschema
import pytest
from data_files import NO_SUITE, official_suite, suite_groups, suite_remotes
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012, specification_with
from schema_strategies import examples

from proxy_engine import validation
from proxy_engine.validation import JsonValidator


def is_valid(validator: JsonValidator, value: Any) -> bool:
    try:
        validator.validate(value)
    except jsonschema.ValidationError:
        return False
    return True


DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "6": "http://json-schema.org/draft-06/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (r"^\d+$", ["12"], ["", "1\n", "٣"]),
        (r"^\D$", ["x", "٣"], ["1"]),
        (r"^[\d\-]+$", ["1-2"], ["٣"]),
        (r"^\w$", ["a", "_"], ["ä"]),
        (r"^\W$", ["ä", " "], ["a"]),
        (r"^\s$", [" ", "\u00a0", "\ufeff"], ["a"]),
        (r"^\S$", ["a"], [" ", "\ufeff"]),
        (r"^[\S]$", ["a"], [" ", "\ufeff"]),
        (r"^[\D]$", ["٣", "a"], ["3"]),
        (r"^\p{Lu}$", ["Ä"], ["ä"]),
        (r"b", ["abc"], ["ac"]),
        (r"^[[a]$", ["[", "a"], ["b"]),
        (r"^\$$", ["$"], [""]),
        (r"^a$|b", ["a", "xb"], ["a\n"]),
        (r"^.$", ["a"], ["\n", "\r", "\u2028"]),
        (r"^(?!.*x)", ["a", "a\rx"], ["ax"]),
    ],
)
def test_patterns_mean_what_ecma_says(
    pattern: str, accepted: list[str], refused: list[str]
) -> None:
    validator = JsonValidator({"pattern": pattern})
    assert [text for text in accepted if not is_valid(validator, text)] == []
    assert [text for text in refused if is_valid(validator, text)] == []
    assert is_valid(validator, 1)


def test_patterns_of_names_mean_what_ecma_says() -> None:
    schema = {"patternProperties": {r"^\p{Lu}$": {"type": "integer"}}}
    validator = JsonValidator({**schema, "additionalProperties": False})
    assert is_valid(validator, {"Ä": 1})
    assert not is_valid(validator, {"Ä": "x"})
    assert not is_valid(validator, {"ä": 1})
    # Python's patterns would refuse the name.
    assert is_valid(JsonValidator({**schema, "unevaluatedProperties": False}), {"Ä": 1})


def test_a_pattern_that_cannot_be_decided_is_left_to_the_grammar(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert is_valid(JsonValidator({"pattern": r"^(a)\1$"}), "x")
    assert "gave up" in caplog.text


def test_the_schema_chooses_its_draft() -> None:
    schema = {"$schema": DRAFTS["4"], "minimum": 1}
    assert not is_valid(JsonValidator({**schema, "exclusiveMinimum": True}), 1)
    assert is_valid(JsonValidator({**schema, "exclusiveMinimum": True}), 2)
    assert is_valid(JsonValidator(schema), 1)
    assert not is_valid(JsonValidator(schema), 0)
    assert not is_valid(JsonValidator({"exclusiveMinimum": 1}), 1)


@pytest.mark.parametrize(
    ("schema", "texts", "refused"),
    [
        ({"multipleOf": 0.1}, ["0.3", "0.7", "1e22", "100000000000000000000.1"], ["0.35"]),
        ({"multipleOf": 0.01}, ["0.07", "1.1", "0.29", "4.35"], ["0.005"]),
        ({"exclusiveMinimum": 1}, ["1.00000000000000000000000001"], ["1", "1.0"]),
        ({"exclusiveMinimum": 0}, ["1e-324", "5e-324"], ["0"]),
        ({"maximum": 0.3}, ["0.3", "0.30"], ["0.300000000000000000001"]),
        ({"enum": [0.1, 2]}, ["0.1", "0.10", "2.0", "1e-1"], ["0.100000000000000000001"]),
        ({"const": {"a": [1.0]}}, ['{"a": [1]}'], ['{"a": [true]}', '{"a": [1, 1]}']),
        ({"uniqueItems": True}, ["[1, true, 1.5, [1], [true]]"], ["[1, 1.0]", "[[1], [1.0]]"]),
        ({"enum": [1, None]}, ["1", "null"], ["true", "false", "0"]),
    ],
)
def test_numbers_are_validated_as_decimals(
    schema: Any, texts: list[str], refused: list[str]
) -> None:
    validator = JsonValidator(schema)
    for text in texts:
        assert validator.read(text) == json.loads(text)
    for text in refused:
        with pytest.raises(jsonschema.ValidationError):
            validator.read(text)


def test_an_error_names_the_place() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"items": {"type": "null"}}},
    }
    with pytest.raises(jsonschema.ValidationError) as caught:
        JsonValidator(schema).validate({"a": [None, 1]})
    assert list(caught.value.absolute_path) == ["a", 1]


def groups() -> list[dict[str, Any]]:
    return [group for group in suite_groups() if not group["optional"]]


@pytest.mark.skipif(official_suite() is None, reason=NO_SUITE)
@pytest.mark.parametrize("draft", DRAFTS)
def test_verdicts_are_those_of_the_test_suite(draft: str, caplog: pytest.LogCaptureFixture) -> None:
    registry: Registry[Any] = Registry()
    for uri, contents in suite_remotes().items():
        if "/draft" not in uri or f"/draft{draft}/" in uri:
            resource = Resource.from_contents(contents, specification_with(DRAFTS[draft]))
            registry = registry.with_resource(uri, resource)
    judged, undecided = 0, 0
    for group in groups():
        if str(group["draft"]).removeprefix("draft") != draft:
            continue
        schema = group["schema"]
        if isinstance(schema, dict):
            schema = {"$schema": DRAFTS[draft], **schema}
        validator = JsonValidator(schema, registry=registry)
        for test in group["tests"]:
            caplog.clear()
            verdict = is_valid(validator, test["data"])
            judged += 1
            if caplog.text:
                # Dialects of their own, and Boolean schemas where draft 4 knows none.
                undecided += 1
                continue
            if verdict != test["valid"]:
                refused = (group["file"], "patternProperties" in str(schema), verdict)
                assert refused == ("unevaluatedProperties", True, True), (schema, test)
    assert judged > 500
    assert undecided <= 12


def defined(make: Any, last: Any = True, levels: int = 40) -> dict[str, Any]:
    """Return definitions, each of which refers to the next one."""
    names = {f"d{n}": make({"$ref": f"#/$defs/d{n + 1}"}) for n in range(levels)}
    return {"$defs": {**names, f"d{levels}": last}, "$ref": "#/$defs/d0"}


HOSTILE: dict[str, tuple[Any, Any]] = {
    "all of two": (defined(lambda d: {"allOf": [d, d]}), {"a": 1}),
    "any of two": (
        {"anyOf": [defined(lambda d: {"anyOf": [d, d]}, False), True]}
        | {"$defs": defined(lambda d: {"anyOf": [d, d]}, False)["$defs"]},
        1,
    ),
    "one of two": (defined(lambda d: {"oneOf": [d, {"not": d}]}), 1),
    "properties that others evaluate": (
        defined(
            lambda d: {"allOf": [d, d], "unevaluatedProperties": False},
            {"properties": {"a": True}},
        ),
        {"a": 1},
    ),
    "items that others evaluate": (
        defined(lambda d: {"allOf": [d, d], "unevaluatedItems": False}, {"prefixItems": [True]}),
        [1],
    ),
    "dynamic references": (
        {
            "$defs": {
                f"d{n}": {
                    "$dynamicAnchor": f"a{n}",
                    "allOf": [{"$dynamicRef": f"#a{n + 1}"}] * 2 if n < 40 else [],
                }
                for n in range(41)
            },
            "$dynamicRef": "#a0",
        },
        1,
    ),
    "conditions": (reduce(lambda s, _: {"if": s, "then": s, "else": s}, range(40), {}), 1),
    "a pattern": ({"pattern": "(a+)+$"}, "a" * 60 + "b"),
    "patterns of names": ({"patternProperties": {"(a+)+$": True}}, {"a" * 60 + "b": 1}),
    "a draft inside": (
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"$schema": DRAFTS["7"], "pattern": "(a+)+$"}},
        },
        "a" * 60 + "b",
    ),
    "items that differ": ({"uniqueItems": True}, [{"a": n} for n in range(2_000)]),
    "many alternatives": ({"anyOf": [{"type": "null", "title": str(n)} for n in range(50_000)]}, 1),
    "an anchor": (
        {"$ref": "#z", "$defs": {**{f"d{n}": {} for n in range(50_000)}, "z": {"$anchor": "z"}}},
        1,
    ),
    "a deep value": (
        defined(lambda d: d, {"items": {"$ref": "#"}}, 1),
        json.loads("[" * 400 + "]" * 400),
    ),
}


class Clock:
    """A clock on which a second passes from one look to the next."""

    def __init__(self) -> None:
        self.seconds = 0

    def perf_counter(self) -> int:
        self.seconds += 1
        return self.seconds


@pytest.mark.parametrize("name", HOSTILE)
def test_validation_ends_and_accepts_once_its_time_is_over(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(validation, "time", clock)
    schema, value = HOSTILE[name]
    with caplog.at_level(logging.WARNING):
        accepted = is_valid(JsonValidator(schema), value)
    # Some of them do not take long.
    assert clock.seconds <= validation.MAX_SECONDS + 2
    assert accepted or "gave up" not in caplog.text


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/remote"},
        {"$ref": "#/none"},
        {"$ref": 5},
        {"pattern": 5},
        {"properties": 5},
        {"$id": 5, "$ref": "#a"},
        {"$schema": "http://example.com/own"},
        {"$schema": 5},
        {"enum": 5},
        {"required": None},
        {"items": {"$schema": []}},
    ],
)
def test_unreadable_schema_accepts(schema: Any) -> None:
    assert is_valid(JsonValidator(schema), {"a": 1})
    assert is_valid(JsonValidator(schema), ["a"])


def test_documents_are_those_of_the_registry() -> None:
    registry: Registry[Any] = Registry().with_resource(
        "http://x/", DRAFT202012.create_resource({"type": "integer"})
    )
    validator = JsonValidator({"$ref": "http://x/"}, registry=registry)
    assert is_valid(validator, 1)
    assert not is_valid(validator, "a")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b", 0.5, 1.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "unevaluatedItems": st.just(False),
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(st.just("a"), inner),
            "$ref": st.just("#/$defs/d"),
        },
    )


SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["null", "integer", "number", "string", "array", "object"]),
            "enum": st.lists(VALUES, max_size=3),
            "const": VALUES,
            "minimum": st.sampled_from([0, 0.5, 1]),
            "uniqueItems": st.booleans(),
            "required": st.just(["a"]),
            "pattern": st.sampled_from(["a", "^b?$"]),
        },
    ),
    schemas,
    max_leaves=4,
)


@given(schemas(SCHEMAS), SCHEMAS.filter(lambda s: "$ref" not in str(s)), VALUES)
@examples(40)
def test_verdicts_are_those_of_jsonschema(schema: Any, definition: Any, value: Any) -> None:
    schema = {**schema, "$defs": {"d": definition}}
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    if "unevaluatedProperties" in str(schema) and "patternProperties" in str(schema):
        expected = expected or is_valid(JsonValidator(schema), value)
    assert is_valid(JsonValidator(schema), value) == expected
