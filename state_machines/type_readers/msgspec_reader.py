"""JSON Schemas of msgspec types that admit the texts that ``msgspec.json.decode`` reads.

msgspec's own JSON Schema describes more: a pattern in another dialect, keys of any name, an object
without the tag that a union requires. Here each kind of ``msgspec.inspect`` type has a row in
:data:`ROWS`. ``Struct``s, dataclasses, attrs classes, typed dicts, named tuples and enums are
definitions, since they have a name and may be recursive. Observed with msgspec 0.22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import inspect

from state_machines.errors import UnsatisfiableSchemaError
from state_machines.type_readers.msgspec_classes import array, enumeration, instance
from state_machines.type_readers.msgspec_definitions import MsgspecReader, Row, class_name
from state_machines.type_readers.msgspec_scalars import (
    SCALAR_ROWS,
    key_names,
    reads_integers,
    unwrapped,
)
from state_machines.type_readers.type_schema import (
    GAPS,
    LEFT_OUT,
    Schema,
    TypeSchema,
    finished,
    note,
)

_KINDS = {"null": type(None), "boolean": bool, "integer": int, "number": float, "string": str}
_CONTAINERS = {"array": list, "object": dict}


def msgspec_schema(type: Any, *, write_defaults: bool = True) -> TypeSchema:
    """Return the JSON Schema of the texts that ``msgspec.json.decode`` reads as a type.

    Args:
        type: A ``Struct``, a class of dataclasses or attrs, or another type that msgspec supports.
        write_defaults: Whether properties with a default are required. A field whose default is
            ``UNSET`` is always optional, since its absence is a value.

    Raises:
        UnsatisfiableSchemaError: No JSON is read as a part of the type.
        TypeError: msgspec does not support the type.
        ValueError: msgspec does not support a constraint of the type.
    """
    reader = MsgspecReader(ROWS, writes_defaults=write_defaults)
    return finished(reader.whole(inspect.type_info(type)))


# Any value


def _any(reader: MsgspecReader, info: inspect.AnyType) -> Schema:
    """Any value; any hashable one in a set. With a minimum, True and 1 would be one item."""
    if not reader.is_hashable:
        return {}
    return {"type": "string" if reader.is_canonical else ["null", "boolean", "number", "string"]}


def _raw(reader: MsgspecReader, info: inspect.RawType) -> Schema:
    """``Raw``: any JSON text."""
    if reader.is_hashable:
        raise reader.unhashable("a Raw", "Any")
    return {}


def _custom(reader: MsgspecReader, info: inspect.CustomType) -> Schema:
    """Other classes: msgspec reads JSON without a type, and requires an instance of the class."""
    kinds = _KINDS if reader.is_hashable else {**_KINDS, **_CONTAINERS}
    if reader.is_canonical:
        kinds = {"string": str}
    names = [name for name, kind in kinds.items() if issubclass(kind, info.cls)]
    if not names:
        raise reader.unreadable(
            f"msgspec reads no JSON as {class_name(info.cls)}",
            "Give a Struct, a dataclass or a type that msgspec supports. What a dec_hook reads is "
            "not known here: give the JSON type, and convert the value in __post_init__",
        )
    return {} if len(names) == len(_KINDS) + len(_CONTAINERS) else {"type": names}


def _extension(reader: MsgspecReader, info: inspect.ExtType) -> Schema:
    """``Ext``: an extension of MessagePack."""
    raise reader.unreadable("msgspec reads no JSON as Ext", "Give bytes, which are read as base64")


# Arrays and objects


def _sizes(info: Any, low: str, high: str) -> Schema:
    sizes = {low: info.min_length, high: info.max_length}
    return {keyword: size for keyword, size in sizes.items() if size is not None}


def _list(reader: MsgspecReader, info: inspect.ListType) -> Schema:
    """``list`` and tuples of any length."""
    if reader.is_hashable and isinstance(info, inspect.ListType):
        raise reader.unhashable("a list", "a tuple")
    items = reader.schema(info.item_type, "items")
    return {
        "type": "array",
        **({"items": items} if items else {}),
        **_sizes(info, "minItems", "maxItems"),
    }


def _set(reader: MsgspecReader, info: inspect.SetType | inspect.FrozenSetType) -> Schema:
    """Sets: equal items count once, so with a minimum, different texts are different values."""
    if reader.is_hashable and isinstance(info, inspect.SetType):
        raise reader.unhashable("a set", "a frozenset")
    is_item = reader.is_canonical
    with reader.distinct(canonical=(info.min_length or 0) > 1):
        items = reader.schema(info.item_type, "items")
    sizes = _sizes(info, "minItems", "maxItems")
    schema: Schema = {"type": "array", "items": items, "uniqueItems": True, **sizes}
    if is_item:
        schema = note(schema, GAPS, "sets with the same items in another order are one item")
    return schema


def _tuple(reader: MsgspecReader, info: inspect.TupleType) -> Schema:
    """Tuples of one length."""
    items = [
        reader.schema(item, "prefixItems", index) for index, item in enumerate(info.item_types)
    ]
    return array(items, len(items))


def _mapping(reader: MsgspecReader, info: inspect.DictType) -> Schema:
    """Dictionaries: keys are texts that are read as the type of keys."""
    if reader.is_hashable:
        raise reader.unhashable("a dict", "a tuple of pairs")
    with reader.distinct(canonical=(info.min_length or 0) > 1):
        names = key_names(reader, info.key_type)
    if names is False:
        raise reader.unreadable(
            "msgspec reads no name of an object as a key of this type",
            "Give keys that are strings, numbers, dates, UUIDs, or enums of strings or integers",
        )
    values = reader.schema(info.value_type, "additionalProperties")
    schema: Schema = {"type": "object", "additionalProperties": values or True}
    if names is not True:
        schema["propertyNames"] = names
    return {**schema, **_sizes(info, "minProperties", "maxProperties")}


# Unions


def _union(reader: MsgspecReader, info: inspect.UnionType) -> Schema:
    """Unions: the kind of the JSON value, or the tag of an object, selects the type."""
    parts, lost, members = [], [], []
    error: UnsatisfiableSchemaError | None = None
    for index, member in enumerate(info.types):
        match unwrapped(member):
            case inspect.AnyType():
                return reader.schema(member, "anyOf", index)
            case inspect.RawType():
                # Ignored in a union.
                lost.append("Raw")
                continue
        try:
            parts.append(reader.schema(member, "anyOf", index))
            members.append(unwrapped(member))
        except UnsatisfiableSchemaError as found:
            error = found
            lost.append(f"a choice: {found.what}")
    if not parts:
        raise error or reader.unreadable(
            "msgspec reads no JSON as Raw in a union", "Give Raw alone"
        )
    parts = [
        _as_selected(part, member, members) for part, member in zip(parts, members, strict=True)
    ]
    if reader.is_canonical:
        parts = _without_equal_numbers(parts, members)
    schema = parts[0] if len(parts) == 1 else {"anyOf": parts}
    return note(schema, LEFT_OUT, *lost) if lost else schema


def _as_selected(part: Schema, member: inspect.Type, members: list[inspect.Type]) -> Schema:
    """Return the schema of a choice without the numbers for which another choice is selected.

    A number without a point or an exponent is read as an integer, if a choice has integers, and
    any other number as a float. A ``Decimal`` is read from the numbers that are left.
    """
    is_decimal = isinstance(member, inspect.DecimalType)
    if is_decimal and "anyOf" in part and any(isinstance(m, inspect.FloatType) for m in members):
        return next(text for text in part["anyOf"] if text["type"] == "string")
    is_selected_last = is_decimal or isinstance(member, inspect.FloatType)
    if is_selected_last and any(map(reads_integers, members)):
        return {"allOf": [part, {"not": {"type": "integer"}}]}
    return part


def _without_equal_numbers(parts: list[Schema], members: list[inspect.Type]) -> list[Schema]:
    """Return the choices of a set's items without numbers that equal those of another choice.

    Decimals give way to other numbers, and 0 and 1 to ``False`` and ``True``.
    """
    kinds = (inspect.IntType, inspect.FloatType, inspect.BoolType)
    if any(isinstance(m, kinds) or reads_integers(m) for m in members):
        pairs = zip(parts, members, strict=True)
        parts = [part for part, member in pairs if not isinstance(member, inspect.DecimalType)]
    if not any(part.get("type") == "boolean" for part in parts):
        return parts
    return [
        {"allOf": [part, {"not": {"enum": [0, 1]}}]}
        if part.get("type") in ("integer", "number")
        else part
        for part in parts
    ]


ROWS: Mapping[type[inspect.Type], Row] = {
    **SCALAR_ROWS,
    inspect.AnyType: _any,
    inspect.RawType: _raw,
    inspect.CustomType: _custom,
    inspect.ExtType: _extension,
    inspect.EnumType: enumeration,
    inspect.ListType: _list,
    inspect.VarTupleType: _list,
    inspect.SetType: _set,
    inspect.FrozenSetType: _set,
    inspect.TupleType: _tuple,
    inspect.DictType: _mapping,
    inspect.FrozenDictType: _mapping,
    inspect.UnionType: _union,
    inspect.StructType: instance,
    inspect.DataclassType: instance,
    inspect.TypedDictType: instance,
    inspect.NamedTupleType: instance,
}
"""The row of each kind of type."""
