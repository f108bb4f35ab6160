"""Types of columns, inferred from all their values.

Libraries infer types from the first values, and fail if later ones differ. Here a column whose
values have no common type becomes a column of texts with JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, TypeAlias

from .json_values import encode, jsonable

Scalar: TypeAlias = Literal["null", "boolean", "integer", "number", "string", "json"]

_NULL: ColumnType = "null"
_INT64 = 1 << 63
_MAX_FIELDS = 256


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
