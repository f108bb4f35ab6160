"""Each keyword is enforced as its record says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema.validators import validator_for
from schema_checks import URIS

from state_machines import JsonSchemaStateMachine, UnsupportedSchemaError
from state_machines.json_schema.reader.dialects import DIALECTS
from state_machines.json_schema.reader.keywords import KEYWORDS, Keyword

SHORT = {"type": "string", "maxLength": 1}
EXAMPLES: dict[str, Any] = {
    "$ref": "#/definitions/short",
    "$dynamicRef": "#/definitions/short",
    "$recursiveRef": "#",
    "oneOf": [SHORT],
    "anyOf": [SHORT],
    "allOf": [SHORT],
    "not": {"type": "string", "minLength": 2},
    "if": {"type": "string", "minLength": 2},
    "dependencies": {"long": ["a"]},
    "dependentSchemas": {"long": {"required": ["a"]}},
    "properties": {"long": False},
    "patternProperties": {"..": False},
    "additionalProperties": {"type": "null"},
    "propertyNames": {"maxLength": 1},
    "unevaluatedProperties": {"type": "null"},
    "prefixItems": [{"type": "null"}],
    "items": {"type": "null"},
    "contains": {"type": "null"},
    "unevaluatedItems": {"type": "null"},
    "type": "null",
    "enum": ["a", None],
    "const": "a",
    "minimum": 10,
    "maximum": -10,
    "exclusiveMinimum": 10,
    "exclusiveMaximum": -10,
    "multipleOf": 7,
    "minLength": 5,
    "maxLength": 1,
    "pattern": "^.?$",
    "format": "ipv4",
    "minItems": 3,
    "maxItems": 1,
    "uniqueItems": True,
    "minProperties": 3,
    "maxProperties": 0,
    "required": ["b"],
    "dependentRequired": {"long": ["a"]},
}
"""A value of each keyword that admits some of ``VALUES`` and rejects others."""

ADJACENT: dict[str, Any] = {
    "$ref": {"definitions": {"short": SHORT}},
    "$dynamicRef": {"definitions": {"short": SHORT}},
    "if": {"then": False},
}

VALUES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True, False],
    "number": [0, 3, -3, 2.5],
    "string": ["", "a", "bb", "long", "1.2.3.4"],
    "array": [[], [None], [1, 1], [None, 2, "a"]],
    "object": [{}, {"a": None}, {"a": 1}, {"long": 1}, {"b": 1, "a": 2, "long": 3}],
}

READ = [
    (keyword, draft)
    for keyword in KEYWORDS
    # `jsonschema` does not know the extensions: see `test_substring`.
    if keyword.read is not None and not keyword.name.startswith("x-")
    for draft in sorted(keyword.drafts)
]


def schema_of(keyword: Keyword, draft: str) -> dict[str, Any]:
    """Return a schema with the keyword's example."""
    name = keyword.name
    if name == "$recursiveRef":
        return {"$schema": URIS[draft], "items": {name: "#"}, "maxLength": 1}
    return {"$schema": URIS[draft], name: EXAMPLES[name], **ADJACENT.get(name, {})}


@pytest.mark.parametrize(("keyword", "draft"), READ, ids=lambda it: getattr(it, "name", it))
def test_keyword_is_enforced_in_every_draft_that_defines_it(keyword: Keyword, draft: str) -> None:
    schema = schema_of(keyword, draft)
    machine = JsonSchemaStateMachine(schema, property_order="any")
    validator = validator_for(schema)
    judge = validator(schema, format_checker=validator.FORMAT_CHECKER)
    rejected = set()
    for kind, values in VALUES.items():
        for value in values:
            expected = judge.is_valid(value)
            if not expected:
                rejected.add(kind)
            assert machine.matches(json.dumps(value)) == expected, value
    assert rejected
    assert rejected <= set(keyword.types)


@pytest.mark.parametrize(
    ("keyword", "draft"),
    # Draft 4 has no propertyNames.
    [(keyword, draft) for keyword, draft in READ if draft != "4"],
    ids=lambda it: getattr(it, "name", it),
)
def test_keyword_for_strings_is_enforced_on_property_names(keyword: Keyword, draft: str) -> None:
    schema = schema_of(keyword, draft)
    names = {key: value for key, value in schema.items() if key not in ("$schema", "definitions")}
    around: dict[str, Any] = {"$schema": URIS[draft], "definitions": schema.get("definitions", {})}
    if keyword.name == "$recursiveRef":
        names, around["maxLength"] = {keyword.name: "#"}, 1
    objects = JsonSchemaStateMachine({**around, "propertyNames": names})
    strings = JsonSchemaStateMachine(schema)
    verdicts = set()
    for name in VALUES["string"]:
        verdict = objects.matches(json.dumps({name: 1}))
        assert verdict == strings.matches(json.dumps(name)), name
        verdicts.add(verdict)
    assert (False in verdicts) == ("string" in keyword.types)


@pytest.mark.parametrize("keyword", KEYWORDS, ids=lambda it: it.name)
def test_strict_refuses_a_keyword_in_drafts_that_do_not_define_it(keyword: Keyword) -> None:
    drafts = {draft for other in KEYWORDS if other.name == keyword.name for draft in other.drafts}
    for draft in set(DIALECTS) - drafts:
        schema = {"$schema": URIS[draft], keyword.name: EXAMPLES.get(keyword.name, {})}
        with pytest.raises(UnsupportedSchemaError, match=keyword.name.replace("$", r"\$")):
            JsonSchemaStateMachine(schema, strict=True)


def test_strict_admits_the_boolean_bounds_of_draft_4() -> None:
    schema = {"$schema": URIS["4"], "minimum": 1, "exclusiveMinimum": True}
    machine = JsonSchemaStateMachine(schema, strict=True)
    assert machine.matches("2")
    assert not machine.matches("1")
