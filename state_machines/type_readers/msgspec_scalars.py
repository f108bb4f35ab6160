"""Rows of msgspec's types that are read from numbers and strings, and keys of objects.

Each row returns the JSON Schema of the texts that ``msgspec.json.decode`` reads as one kind of
``msgspec.inspect`` type, given the reader and the type. Observed with msgspec 0.22:

=============  ====================================================================================
type           texts
=============  ====================================================================================
``int``        digits without a point or an exponent, at most 4,300
``float``      numbers that are finite as doubles; bounds are compared after rounding, and
               ``multiple_of`` takes the remainder of doubles
``str``        no lone surrogate; lengths count code points, and ``re`` searches the pattern
``bytes``      base64 of RFC 4648, section 4, with padding; lengths count bytes
``datetime``   RFC 3339 without leap seconds, with or without an offset
``timedelta``  ISO 8601 with days, hours, minutes and seconds
``UUID``       with hyphens or without
``Decimal``    a number, or a text that Python's ``Decimal`` reads
``Enum``       the values of the members: all strings, or all integers of 64 bits
=============  ====================================================================================
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from state_machines.reader_languages.multiples import AcceptedMultiples, multiples_by_remainder
from state_machines.type_readers.msgspec_definitions import MsgspecReader, Row
from state_machines.type_readers.type_schema import (
    Schema,
    distinct_numbers,
    integers,
    language,
    listed,
)

_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def json_values(*values: Any) -> Iterator[Any]:
    """Yield, as parsed JSON, the values that msgspec can write as JSON."""
    for value in values:
        try:
            builtin = msgspec.to_builtins(value, str_keys=True)
            yield json.loads(json.dumps(builtin, allow_nan=False))
        except (TypeError, ValueError, RecursionError, OverflowError):
            continue


# Numbers


def _integer(reader: MsgspecReader, info: inspect.IntType) -> Schema:
    """``int``: digits; bounds and multiples are exact."""
    schema = integers(_bounds(info))
    return schema if info.multiple_of is None else {**schema, "multipleOf": info.multiple_of}


def _number(reader: MsgspecReader, info: inspect.FloatType) -> Schema:
    """``float``: numbers; different multiples are different doubles."""
    schema: Schema = {"type": "number", **_bounds(info)}
    if info.multiple_of is not None:
        return {**schema, "allOf": [_multiples(info).schema()]}
    return distinct_numbers(schema) if reader.is_canonical else schema


def _bounds(info: inspect.IntType | inspect.FloatType) -> Schema:
    bounds = {keyword: getattr(info, name) for name, keyword in _BOUNDS.items()}
    return _given(bounds)


def _multiples(info: inspect.FloatType) -> AcceptedMultiples:
    low = max(-math.inf if bound is None else bound for bound in (info.ge, info.gt))
    high = min(math.inf if bound is None else bound for bound in (info.le, info.lt))
    return multiples_by_remainder(float(info.multiple_of or 0), low, high)


def _decimal(reader: MsgspecReader, info: inspect.DecimalType) -> Schema:
    """``Decimal``: a number, or its text. NaN and infinities, which are read, are not written."""
    texts = language("decimal", canonical=reader.is_canonical or None)
    return texts if reader.is_canonical else {"anyOf": [{"type": "number"}, texts]}


# Strings


def _text(reader: MsgspecReader, info: inspect.StrType) -> Schema:
    """``str``: the pattern is in the syntax of Python's ``re``, without flags."""
    lengths = {"minLength": info.min_length, "maxLength": info.max_length}
    schema: Schema = {"type": "string", **_given(lengths)}
    if info.pattern is None:
        return schema
    spec = language(
        "text",
        min_length=info.min_length,
        max_length=info.max_length,
        pattern=info.pattern,
        dialect="python",
    )
    return {**schema, "pattern": info.pattern, **spec}


def _data(reader: MsgspecReader, info: inspect.BytesType) -> Schema:
    """``bytes``, ``bytearray`` and ``memoryview``: base64, whose unused bits are zero."""
    if reader.is_hashable and isinstance(info, inspect.ByteArrayType):
        raise reader.unhashable("a bytearray", "bytes")
    spec = language("base64", min_length=info.min_length, max_length=info.max_length)
    return {**spec, "contentEncoding": "base64"}


def _date(reader: MsgspecReader, info: inspect.DateType) -> Schema:
    """``date``: RFC 3339's ``full-date``."""
    return {**language("date"), "format": "date"}


def _date_time(reader: MsgspecReader, info: inspect.DateTimeType) -> Schema:
    """``datetime``: RFC 3339's ``date-time``, also without an offset."""
    return {**_moment("datetime", reader, info), "format": "date-time"}


def _time(reader: MsgspecReader, info: inspect.TimeType) -> Schema:
    """``time``: RFC 3339's ``full-time``, also without an offset."""
    return {**_moment("time", reader, info), "format": "time"}


_OFFSETS = {True: "aware", False: "naive", None: None}


def _moment(
    name: str, reader: MsgspecReader, info: inspect.DateTimeType | inspect.TimeType
) -> Schema:
    canonical = reader.is_canonical or None
    return language(name, tz=_OFFSETS[info.tz], reader="msgspec", canonical=canonical)


def _duration(reader: MsgspecReader, info: inspect.TimeDeltaType) -> Schema:
    """``timedelta``: ISO 8601, within the range of Python's."""
    spec = language("duration", reader="msgspec", canonical=reader.is_canonical or None)
    return {**spec, "format": "duration"}


def _uuid(reader: MsgspecReader, info: inspect.UUIDType) -> Schema:
    """``UUID``: the hyphenated form."""
    return {**language("uuid", canonical=reader.is_canonical or None), "format": "uuid"}


def _given(keywords: Mapping[str, Any]) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}


# Listed values


def _literal(reader: MsgspecReader, info: inspect.LiteralType) -> Schema:
    """``Literal``: strings, integers, Booleans and ``None``."""
    # True equals 1 in a set, and so does its place in this dict.
    values = list(dict.fromkeys(info.values) if reader.is_canonical else info.values)
    return listed(values)


def enum_values(info: inspect.EnumType) -> Schema:
    """Return the schema of the values of an enum's members."""
    return listed([member.value for member in info.cls])


SCALAR_ROWS: Mapping[type[inspect.Type], Row] = {
    inspect.NoneType: lambda reader, info: {"type": "null"},
    inspect.BoolType: lambda reader, info: {"type": "boolean"},
    inspect.IntType: _integer,
    inspect.FloatType: _number,
    inspect.DecimalType: _decimal,
    inspect.StrType: _text,
    inspect.BytesType: _data,
    inspect.ByteArrayType: _data,
    inspect.MemoryViewType: _data,
    inspect.DateType: _date,
    inspect.DateTimeType: _date_time,
    inspect.TimeType: _time,
    inspect.TimeDeltaType: _duration,
    inspect.UUIDType: _uuid,
    inspect.LiteralType: _literal,
}
"""The rows of types without parts."""


# Keys


def key_names(reader: MsgspecReader, info: inspect.Type) -> Any:
    """Return the schema of the names that a type of keys reads: a Boolean or an object.

    A name is written as msgspec writes it, so that no two names are the same key.
    """
    match info:
        case inspect.Metadata(type=inner):
            names = key_names(reader, inner)
            extra = info.extra_json_schema
            return {**extra, **names} if extra and isinstance(names, dict) else names
        case inspect.AnyType():
            return True
        case inspect.CustomType(cls=cls):
            return issubclass(str, cls)
        case inspect.IntType():
            return language("int", **_arguments(info), multiple_of=info.multiple_of)
        case inspect.FloatType():
            return _number_names(info)
        case inspect.EnumType(cls=cls):
            return _listed_names(member.value for member in cls)
        case inspect.LiteralType(values=values):
            return _listed_names(values)
        case inspect.UnionType(types=types):
            known = _union_names(reader, types)
            known = [names for names in known if names is not False]
            return True if True in known else {"anyOf": known} if known else False
        case inspect.ByteArrayType() | inspect.NoneType() | inspect.BoolType():
            return False
    if type(info) not in SCALAR_ROWS:
        return False
    with reader.distinct(canonical=True):
        names = SCALAR_ROWS[type(info)](reader, info)
    return True if names == {"type": "string"} else names


def _union_names(reader: MsgspecReader, types: Sequence[inspect.Type]) -> list[Any]:
    """Return the names of each type that is selected for a name.

    A ``str`` is selected for each name, then an integer, a float, and at last a ``Decimal``.
    """
    bare = [unwrapped(kind) for kind in types]
    kept: tuple[type, ...] = (inspect.Type,)
    lost: tuple[type, ...] = ()
    if any(isinstance(kind, inspect.StrType) for kind in bare):
        kept = (inspect.StrType,)
    elif any(isinstance(kind, inspect.FloatType) for kind in bare):
        # With a minimum of keys, 1 and 1.0 are one key.
        lost = (inspect.DecimalType, *(_INTEGERS if reader.is_canonical else ()))
    has_integers = any(isinstance(kind, inspect.IntType) or reads_integers(kind) for kind in bare)
    found = []
    for kind, inner in zip(types, bare, strict=True):
        if isinstance(inner, kept) and not isinstance(inner, lost):
            names = key_names(reader, kind)
            if has_integers and isinstance(inner, inspect.DecimalType):
                names = {"allOf": [names, {"not": {"pattern": r"^-?\d+$"}}]}
            found.append(names)
    return found


_INTEGERS = (inspect.IntType, inspect.LiteralType, inspect.EnumType)


def reads_integers(info: inspect.Type) -> bool:
    """Return whether a type reads integers, and refuses some of them."""
    match info:
        case inspect.EnumType(cls=cls):
            return any(isinstance(member.value, int) for member in cls)
        case inspect.LiteralType(values=values):
            return any(isinstance(v, int) and not isinstance(v, bool) for v in values)
        case inspect.IntType():
            return any(
                value is not None for value in (*_arguments(info).values(), info.multiple_of)
            )
    return False


def unwrapped(info: inspect.Type) -> inspect.Type:
    """Return a type without its annotations."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _listed_names(values: Iterable[Any]) -> Any:
    # None and Booleans are no keys.
    kept = (v for v in values if isinstance(v, str | int) and not isinstance(v, bool))
    names = [str(value) for value in kept]
    return listed(names) if names else False


def _arguments(info: inspect.IntType | inspect.FloatType) -> Schema:
    return {bound: getattr(info, bound) for bound in _BOUNDS}


def _number_names(info: inspect.FloatType) -> Any:
    """Return the schema of the names that are read as floats."""
    bounds = {name: bound for name, bound in _arguments(info).items() if bound is not None}
    if info.multiple_of is None:
        return language("float", **bounds)
    multiples = _multiples(info)
    if multiples.values is None:
        bounds["ge"] = max(-multiples.limit, bounds.get("ge", -multiples.limit))
        bounds["le"] = min(multiples.limit, bounds.get("le", multiples.limit))
        return language("float", **bounds, multiple_of=info.multiple_of)
    names = [
        repr(multiple)
        for multiple in multiples.values
        if all(_HOLDS[name](multiple, bound) for name, bound in bounds.items())
    ]
    return listed(names) if names else False


_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}
