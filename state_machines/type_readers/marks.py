"""Notes in a JSON Schema while it is built from a type, and their removal at the end.

A reader knows facts about a part of a schema before the part has a pointer. It writes them into
the part, under a name that no keyword has, and :func:`finished` collects them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from state_machines.json_schema.reader.schema_copy import pointer_token
from state_machines.type_readers.gaps import Gap

Schema: TypeAlias = dict[str, Any]

GAPS = "x-type-gaps"
"""A list of the reasons of gaps."""

LEFT_OUT = "x-type-left-out"
"""A list of the values and properties of the type that no JSON is read as."""

DEFAULTED = "x-type-defaulted"
"""The required properties that have a default."""

_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_VALUES = frozenset({"default", "examples", "example", "enum", "const", "required", "mapping"})


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """The JSON Schema of a type.

    Attributes:
        schema: The schema.
        gaps: The requirements that masks do not guarantee.
        left_out: The values and properties of the type that no JSON is read as.
    """

    schema: Schema
    gaps: tuple[Gap, ...] = ()
    left_out: tuple[Gap, ...] = ()


def note(schema: Schema, mark: str, *texts: str) -> Schema:
    """Return a schema with further texts under a mark."""
    return {**schema, mark: list(dict.fromkeys((*schema.get(mark, ()), *texts)))}


def finished(schema: Schema) -> TypeSchema:
    """Return the schema without marks, and the facts that they held.

    A property with a default is required, unless all its values contain a value of the object
    itself, as in a linked list whose next element has a default.
    """
    _relax(schema)
    gaps: list[Gap] = []
    left_out: list[Gap] = []
    for pointer, part in _subschemas(schema, ""):
        gaps.extend(Gap(pointer, reason) for reason in part.pop(GAPS, ()))
        left_out.extend(Gap(pointer, reason) for reason in part.pop(LEFT_OUT, ()))
        part.pop(DEFAULTED, None)
    return TypeSchema(schema, tuple(dict.fromkeys(gaps)), tuple(dict.fromkeys(left_out)))


def _subschemas(schema: Any, pointer: str) -> Iterator[tuple[str, Schema]]:
    """Yield the schemas inside of a schema, with their pointers."""
    stack = [(pointer, schema)]
    while stack:
        where, part = stack.pop()
        if isinstance(part, list):
            stack.extend((f"{where}/{index}", item) for index, item in enumerate(part))
        if not isinstance(part, dict):
            continue
        yield where, part
        for keyword, value in part.items():
            inner = f"{where}/{pointer_token(str(keyword))}"
            if keyword in _BY_NAME and isinstance(value, dict):
                stack.extend((f"{inner}/{pointer_token(str(k))}", v) for k, v in value.items())
            elif keyword not in _VALUES:
                stack.append((inner, value))


def _relax(schema: Schema) -> None:
    """Make properties with defaults optional where requiring them leaves no finite value."""
    objects = [part for _, part in _subschemas(schema, "") if DEFAULTED in part]
    if not objects or "$defs" not in schema:
        return
    while True:
        finite = _finite_definitions(schema["$defs"])
        changed = False
        for part in objects:
            for name in part[DEFAULTED]:
                is_required = name in part.get("required", ())
                if is_required and not _is_finite(part["properties"][name], finite):
                    part["required"] = [other for other in part["required"] if other != name]
                    changed = True
        if not changed:
            return


def _finite_definitions(definitions: Schema) -> frozenset[str]:
    """Return the names of the definitions with a finite value: a least fixed point."""
    known: frozenset[str] = frozenset()
    while True:
        found = frozenset(name for name, part in definitions.items() if _is_finite(part, known))
        if found == known:
            return known
        known = found


def _is_finite(schema: Any, known: frozenset[str]) -> bool:
    """Return whether a schema has a finite value, given the definitions that have."""
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        if name.replace("~1", "/").replace("~0", "~") not in known:
            return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema and not any(_is_finite(part, known) for part in schema[keyword]):
            return False
    if not all(_is_finite(part, known) for part in schema.get("allOf", ())):
        return False
    properties = schema.get("properties", {})
    if not all(_is_finite(properties.get(name), known) for name in schema.get("required", ())):
        return False
    min_items = schema.get("minItems", 0)
    prefix = schema.get("prefixItems", [])
    if not all(_is_finite(item, known) for item in prefix[:min_items]):
        return False
    return min_items <= len(prefix) or _is_finite(schema.get("items"), known)
