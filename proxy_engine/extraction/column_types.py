"""Types of columns, inferred from all their values or from the schema of the answers.

Libraries infer types from the first values, and fail if later ones differ. Here a column whose
values have no common type becomes a column of texts with JSON. A run in several processes writes
many tables, and none of them has all values: their types follow from the schema alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, Literal, TypeAlias

from .answer_format import OTHERS, AnswerFormat
from .details import RESULT
from .json_values import encode, in_utf8, jsonable

Scalar: TypeAlias = Literal["null", "boolean", "integer", "number", "string", "json"]

_NULL: ColumnType = "null"
_JSON: ColumnType = "json"
_INT64 = 1 << 63
_MAX_FIELDS = 256
_MAX_REFERENCES = 8
_References: TypeAlias = tuple[str, ...]
"""The references that lead to a schema."""

_SCALARS: dict[str, Scalar] = {
    "null": "null",
    "boolean": "boolean",
    "integer": "integer",
    "number": "number",
    "string": "string",
}


@dataclass(frozen=True, slots=True)
class ListOf:
    """Lists of values of one type."""

    item: ColumnType


@dataclass(frozen=True, slots=True)
class Struct:
    """Objects with the same members; one that lacks a member has a null."""

    members: tuple[tuple[str, ColumnType], ...]


@dataclass(frozen=True, slots=True)
class Native:
    """Values of one Python class, such as dates, whose type is left to the library."""

    kind: type


ColumnType: TypeAlias = Scalar | ListOf | Struct | Native


def infer_type(values: Iterable[Any]) -> ColumnType:
    """Return the common type of values: plain values, as ``AnswerFormat.plain`` returns them.

    ``"json"`` if they have none.
    """
    return reduce(common_type, map(_type_of, values), _NULL)


def conform(value: Any, kind: ColumnType) -> Any:
    """Return a value as one of a type that was inferred from it and others."""
    if value is None:
        return None
    if kind == "json":
        return encode(jsonable(value))
    if kind == "number":
        return float(value)
    if kind == "string":
        return value if isinstance(value, str) else str(jsonable(value))
    if isinstance(kind, ListOf):
        return [conform(item, kind.item) for item in value]
    if isinstance(kind, Struct):
        return {name: conform(value.get(name), member) for name, member in kind.members}
    return value


def conform_column(
    values: Sequence[Any],
    make: Callable[[Sequence[Any], ColumnType], Any],
    known: ColumnType | None = None,
) -> Any:
    """Return ``make(values, type)``; with values as JSON if the library refuses them."""
    kind = infer_type(values) if known is None else known
    try:
        return make([conform(value, kind) for value in values], kind)
    except Exception:
        # Libraries have own limits, such as one time zone or one scale of decimals a column.
        return make([conform(value, "json") for value in values], "json")


def _type_of(value: Any) -> ColumnType:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if -_INT64 <= value < _INT64 else "json"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return ListOf(reduce(common_type, (_nested(_type_of(item)) for item in value), _NULL))
        case Mapping():
            # Files of columns have no objects without members.
            if not 0 < len(value) <= _MAX_FIELDS:
                return "json"
            return Struct(tuple((name, _nested(_type_of(m))) for name, m in value.items()))
    return Native(type(value))


def _nested(kind: ColumnType) -> ColumnType:
    # Dates and decimals inside of lists and objects are texts.
    return "string" if isinstance(kind, Native) else kind


def common_type(first: ColumnType, second: ColumnType) -> ColumnType:
    """Return the type that values of two types have in common; ``"json"`` without one."""
    if first == second or second == "null":
        return first
    if first == "null":
        return second
    if {first, second} == {"integer", "number"}:
        return "number"
    if isinstance(first, ListOf) and isinstance(second, ListOf):
        return ListOf(common_type(first.item, second.item))
    if isinstance(first, Struct) and isinstance(second, Struct):
        members = dict(first.members)
        for name, kind in second.members:
            members[name] = common_type(members[name], kind) if name in members else kind
        return Struct(tuple(members.items())) if len(members) <= _MAX_FIELDS else "json"
    return "json"


def answer_types(answers: AnswerFormat) -> dict[str, ColumnType]:
    """Return the type of each column of the answers.

    Objects whose schema is closed are structs. Values that have no type of a column, such as
    objects with any properties or a union of a number and a string, are texts with JSON.
    """
    schema = answers.column_schema
    if schema is None:
        return {answers.prefix + RESULT: "string"}
    if not answers.properties:
        return {answers.prefix + RESULT: schema_type(schema, schema)}
    found = _property_types(schema, schema, ())
    types = {answers.prefix + name: found.get(name, _JSON) for name in answers.properties}
    return {**types, answers.prefix + OTHERS: _JSON} if answers.is_open else types


def schema_type(schema: Any, root: Any) -> ColumnType:
    """Return the type of a column with values of a JSON Schema.

    Args:
        schema: The schema.
        root: The document that its references point into.
    """
    return _type(schema, root, ())


def fit(value: Any, kind: ColumnType) -> Any:
    """Return a plain value as one of a type. Unlike ``conform``, it knows no other values.

    Raises:
        ValueError: The value is of another type. A validator may have changed it, or an integer
            has more than 64 bits.
    """
    if value is None:
        return None
    if kind == "json":
        return encode(jsonable(value))
    if isinstance(kind, ListOf) and isinstance(value, list):
        return [fit(item, kind.item) for item in value]
    if isinstance(kind, Struct) and isinstance(value, Mapping):
        members = dict(kind.members)
        if value.keys() <= members.keys():
            return {name: fit(value.get(name), member) for name, member in kind.members}
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "integer" and _is_integer(value):
        return int(value)
    if kind == "number" and isinstance(value, int | float | Decimal) and value is not True:
        return _float(value)
    if kind == "string" and not isinstance(value, bool | int | float | list | Mapping):
        # Dates, decimals and bytes are written as in JSON.
        return in_utf8(value if isinstance(value, str) else str(jsonable(value)))
    raise ValueError(f"it is not of the type {_shown(kind)}")


def _type(schema: Any, root: Any, seen: _References) -> ColumnType:
    if not isinstance(schema, Mapping):
        return _JSON
    if "$ref" in schema:
        return _type(*_resolved(schema["$ref"], root, seen))
    if "const" in schema:
        return infer_type([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return infer_type(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            return reduce(common_type, (_type(one, root, seen) for one in branches), _NULL)
    parts = schema.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and "type" not in schema:
        return _type(parts[0], root, seen)
    names = schema.get("type")
    names = names if isinstance(names, list) else [names]
    return reduce(common_type, (_named(name, schema, root, seen) for name in names), _NULL)


def _named(name: Any, schema: Mapping[str, Any], root: Any, seen: _References) -> ColumnType:
    if name == "array":
        return _array(schema, root, seen)
    if name == "object":
        return _object(schema, root, seen)
    return _SCALARS.get(name, _JSON) if isinstance(name, str) else _JSON


def _array(schema: Mapping[str, Any], root: Any, seen: _References) -> ColumnType:
    first = schema.get("prefixItems", [])
    items = schema.get("items")
    if not isinstance(first, list) or isinstance(items, list):
        return _JSON
    schemas = list(first)
    # Without `items`, further items can be anything.
    is_complete = items is False or (bool(first) and schema.get("maxItems") == len(first))
    if not is_complete:
        schemas.append(items)
    kinds = (_type(one, root, seen) for one in schemas)
    return ListOf(reduce(common_type, kinds, _NULL))


def _object(schema: Mapping[str, Any], root: Any, seen: _References) -> ColumnType:
    closing = (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
    members = _property_types(schema, root, seen)
    is_closed = False in closing and "patternProperties" not in schema
    if not is_closed or not 0 < len(members) <= _MAX_FIELDS or "allOf" in schema:
        return _JSON
    return Struct(tuple(members.items()))


def _property_types(schema: Any, root: Any, seen: _References) -> dict[str, ColumnType]:
    """Return the types of an object's properties; those of all branches of a union."""
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return _property_types(*_resolved(schema["$ref"], root, seen))
    types: dict[str, ColumnType] = {}
    properties = schema.get("properties")
    for name, member in (properties if isinstance(properties, Mapping) else {}).items():
        types[name] = _type(member, root, seen)
    for branch in schema.get("anyOf") or schema.get("oneOf") or ():
        for name, kind in _property_types(branch, root, seen).items():
            types[name] = common_type(types.get(name, _NULL), kind)
    return types


def _resolved(reference: Any, root: Any, seen: _References) -> tuple[Any, Any, _References]:
    """Return the schema that a reference to a definition names; ``None`` for others.

    Also for a reference inside of itself: columns have no recursive types.
    """
    found = None
    if isinstance(reference, str) and reference not in seen and len(seen) < _MAX_REFERENCES:
        for keyword in ("$defs", "definitions"):
            name = reference.removeprefix(f"#/{keyword}/")
            definitions = root.get(keyword) if isinstance(root, Mapping) else None
            if name != reference and isinstance(definitions, Mapping):
                found = definitions.get(name)
    return found, root, (*seen, str(reference))


def _is_integer(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value == int(value) and -_INT64 <= int(value) < _INT64


def _float(value: int | float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("it is beyond the range of floating-point numbers") from error


def _shown(kind: ColumnType) -> str:
    if isinstance(kind, ListOf):
        return "list"
    if isinstance(kind, Struct):
        return "object"
    return "64-bit integer" if kind == "integer" else str(kind)
