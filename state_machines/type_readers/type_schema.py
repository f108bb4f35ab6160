"""A JSON Schema while it is built from a type: its parts, and notes that are removed at the end.

A reader knows facts about a part of a schema before the part has a pointer. It writes them into
the part, under a name that no keyword has, and :func:`finished` collects them. A *gap* is a
requirement of the type that masks do not guarantee, such as a validator in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from state_machines.json_schema.reader.schema_copy import pointer_token

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


@dataclass(frozen=True, slots=True)
class Gap:
    """A requirement of a type that an answer under its masks may violate.

    Attributes:
        pointer: JSON Pointer (RFC 6901) into the schema of the type.
        reason: The requirement.
    """

    pointer: str
    reason: str

    def __str__(self) -> str:
        return f"#{self.pointer}: {self.reason}"


JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
"""The JSON types of Python's types."""

_BOUNDS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")

_DISTINCT_STEP, _DISTINCT_LIMIT = 1e-6, 1e9
"""Multiples of the step below the limit have at most 15 digits: each is another double."""


def language(name: str, **arguments: Any) -> Schema:
    """Return the schema of strings in a language; arguments that are ``None`` are left out."""
    given = {key: value for key, value in arguments.items() if value is not None}
    return {"type": "string", "x-reader-language": {"language": name, **given}}


def integers(bounds: Schema) -> Schema:
    """Return the schema of integers with bounds, which their reader does not round.

    Bounds of a JSON Schema are also compared after rounding, so a large open bound excludes more.
    """
    schema: Schema = {"type": "integer", **bounds}
    for opened, closed, step, stricter in _OPEN_BOUNDS:
        bound = schema.get(opened)
        if isinstance(bound, int) and abs(bound) >= _EXACT_INTEGERS:
            del schema[opened]
            schema[closed] = stricter(bound + step, schema.get(closed, bound + step))
    return schema


_EXACT_INTEGERS = 2**53
_OPEN_BOUNDS = (
    ("exclusiveMinimum", "minimum", 1, max),
    ("exclusiveMaximum", "maximum", -1, min),
)


def distinct_numbers(schema: Schema) -> Schema:
    """Return the numbers of a schema for which different texts are different doubles."""
    bounds = (schema.get(keyword) for keyword in _BOUNDS)
    if any(bound is not None and abs(bound) >= _DISTINCT_LIMIT for bound in bounds):
        grid: Schema = {"type": "integer", "minimum": -(2**53), "maximum": 2**53}
    else:
        limits = {"minimum": -_DISTINCT_LIMIT, "maximum": _DISTINCT_LIMIT}
        grid = {"multipleOf": _DISTINCT_STEP, **limits}
    return {**schema, "allOf": [grid]}


def listed(values: list[Any]) -> Schema:
    """Return the schema of listed values, with their type if they have one type."""
    schema: Schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
    kinds = {type(value) for value in values}
    name = JSON_TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return schema if name is None else {"type": name, **schema}


def unlike_equality(cls: Any) -> str:
    """Return why instances of a class may be equal though their fields differ; empty if not.

    The methods that dataclasses, attrs and pydantic generate compare all fields, except the fields
    with ``compare=False`` or ``eq=False``.
    """
    left_out = [
        field.name
        for field in (
            *getattr(cls, "__attrs_attrs__", ()),
            *getattr(cls, "__dataclass_fields__", {}).values(),
        )
        # The attribute of dataclasses, or of attrs.
        if not getattr(field, "compare", getattr(field, "eq", True))
        or getattr(field, "eq_key", None)
    ]
    if left_out:
        return f"{', '.join(left_out)} of {cls.__name__} in comparisons of items"
    code = getattr(cls.__eq__, "__code__", None)
    is_of_pydantic = str(getattr(cls.__eq__, "__module__", "")).startswith("pydantic.")
    # The code of generated methods has no file.
    if code is None or code.co_filename.startswith("<") or is_of_pydantic:
        return ""
    return f"__eq__ of {cls.__name__}"


class Distinctness:
    """What items of a set and keys of an object have to be, while their schema is generated.

    Attributes:
        is_canonical: Whether different texts have to be different values, as for keys.
        is_hashable: Whether values have to be hashable, as items of a set have.
    """

    is_canonical = False
    is_hashable = False

    @contextmanager
    def distinct(self, *, canonical: bool) -> Iterator[None]:
        """Generate schemas of items of a set within a ``with`` block."""
        before = self.is_canonical, self.is_hashable
        self.is_canonical, self.is_hashable = self.is_canonical or canonical, True
        try:
            yield
        finally:
            self.is_canonical, self.is_hashable = before
