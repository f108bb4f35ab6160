"""Rows of msgspec's types that are classes: ``Struct``s, dataclasses, attrs classes and enums.

A ``Struct`` with ``array_like`` and a named tuple are arrays, the other classes are objects. Names
are those of the JSON (``rename``). msgspec reads the fields of a class as they are declared: it
ignores the aliases and converters of attrs, and reads fields with ``init=False``, which are not
written here. Observed with msgspec 0.22.
"""

from __future__ import annotations

import dataclasses
import inspect as python_inspect
from typing import Any, TypeAlias

import msgspec
from msgspec import inspect

from state_machines.errors import UnsatisfiableSchemaError
from state_machines.type_readers.msgspec_definitions import MsgspecReader, class_name
from state_machines.type_readers.msgspec_scalars import enum_values, json_values
from state_machines.type_readers.type_schema import (
    DEFAULTED,
    GAPS,
    LEFT_OUT,
    Schema,
    note,
    unlike_equality,
)

_Class: TypeAlias = (
    inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType
)

_EMPTY_FACTORIES = (list, dict, set, frozenset, tuple, bytearray)


def array(items: list[Schema], min_items: int) -> Schema:
    """Return the schema of arrays whose items have one schema each."""
    if not items:
        return {"type": "array", "maxItems": 0}
    return {"type": "array", "prefixItems": items, "minItems": min_items, "items": False}


def enumeration(reader: MsgspecReader, info: inspect.EnumType) -> Schema:
    """``Enum``: the values of the members."""
    return reader.definition(
        info.cls, lambda: _described(info.cls, enum_values(info)), is_scalar=True
    )


def instance(reader: MsgspecReader, info: _Class) -> Schema:
    """Classes with fields. Other members are ignored or refused, so none is written."""
    if reader.is_hashable and not _is_hashable(info):
        raise reader.unhashable(f"an instance of {class_name(info.cls)}", "a frozen class")
    is_array = isinstance(info, inspect.NamedTupleType) or getattr(info, "array_like", False)
    make = _fields_in_order if is_array else _fields_by_name

    def described() -> Schema:
        schema = _described(info.cls, make(reader, info))
        checks = _checks(info.cls)
        if reader.is_canonical:
            checks += filter(None, [unlike_equality(getattr(info.cls, "__origin__", info.cls))])
        return note(schema, GAPS, *checks) if checks else schema

    return reader.definition(info.cls, described, is_scalar=False)


def _is_hashable(info: _Class) -> bool:
    cls = getattr(info.cls, "__origin__", info.cls)
    if isinstance(info, inspect.StructType) and cls.__hash__ is msgspec.Struct.__hash__:
        return cls.__struct_config__.frozen or not cls.__struct_config__.eq
    return not isinstance(info, inspect.TypedDictType) and cls.__hash__ is not None


def _tag(info: _Class) -> dict[str, Schema]:
    """Return the property of the tag of a ``Struct``. It is written outside of unions, too."""
    if not isinstance(info, inspect.StructType) or info.tag_field is None:
        return {}
    return {info.tag_field: {"const": info.tag}}


def _fields_by_name(reader: MsgspecReader, info: _Class) -> Schema:
    properties = _tag(info)
    required = list(properties)
    defaulted: list[str] = []
    lost: list[str] = []
    for field in _written(info):
        name = field.encode_name
        try:
            properties[name] = _field(reader, info, field, "properties", name)
        except UnsatisfiableSchemaError:
            if field.required:
                raise
            lost.append(f"the property {name!r}")
            continue
        # Different items of a set could otherwise be equal.
        writes_defaults = reader.writes_defaults or reader.is_canonical
        if field.required or (writes_defaults and _has_default(field)):
            required.append(name)
            defaulted += [] if field.required else [name]
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    if defaulted:
        schema[DEFAULTED] = defaulted
    return note(schema, LEFT_OUT, *lost) if lost else schema


def _fields_in_order(reader: MsgspecReader, info: _Class) -> Schema:
    items = list(_tag(info).values())
    min_items = first = len(items)
    lost: list[str] = []
    for index, field in enumerate(info.fields):
        try:
            items.append(_field(reader, info, field, "prefixItems", first + index))
        except UnsatisfiableSchemaError:
            if any(later.required for later in info.fields[index:]):
                raise
            lost.append(f"the items from {field.name!r} on")
            break
        if field.required:
            min_items = len(items)
    writes_defaults = reader.writes_defaults or reader.is_canonical
    schema = array(items, len(items) if writes_defaults else min_items)
    return note(schema, LEFT_OUT, *lost) if lost else schema


def _field(reader: MsgspecReader, info: _Class, field: inspect.Field, *steps: str | int) -> Schema:
    schema = reader.schema(field.type, *steps)
    found: tuple[Any, ...] = ()
    if field.default is not msgspec.NODEFAULT:
        found = (field.default,)
    elif field.default_factory in _EMPTY_FACTORIES:
        found = (field.default_factory(),)
    for default in json_values(*found):
        schema = {**schema, "default": default}
    validator = _attrs_validator(info.cls, field.name)
    return note(schema, GAPS, validator) if validator else schema


def _has_default(field: inspect.Field) -> bool:
    defaults = (field.default, field.default_factory)
    return any(default is not msgspec.NODEFAULT for default in defaults)


def _written(info: _Class) -> list[inspect.Field]:
    """Return the fields that are written, in the order of the class.

    msgspec sorts those of a typed dict. A field with ``init=False`` has the default of the class.
    """
    cls = getattr(info.cls, "__origin__", info.cls)
    if not isinstance(info, inspect.TypedDictType):
        kept = {field.name for field in _declared(cls) if not field.init}
        return [field for field in info.fields if field.required or field.name not in kept]
    places = {name: place for place, name in enumerate(cls.__annotations__)}
    return sorted(info.fields, key=lambda field: places.get(field.name, len(places)))


def _described(cls: Any, schema: Schema) -> Schema:
    """Return a schema with the name and the docstring of a class."""
    origin = getattr(cls, "__origin__", cls)
    text = vars(origin).get("__doc__") or ""
    # The default docstrings of dataclasses, named tuples and enums.
    is_written = not text.startswith((f"{origin.__name__}(", "An enumeration."))
    described = {"description": python_inspect.cleandoc(text)} if text and is_written else {}
    return {"title": class_name(cls), **described, **schema}


def _checks(cls: Any) -> list[str]:
    """Return the methods of a class that msgspec calls for a new instance, and may refuse it."""
    origin = getattr(cls, "__origin__", cls)
    is_attrs = hasattr(origin, "__attrs_attrs__")
    is_checked = is_attrs or issubclass(origin, msgspec.Struct) or dataclasses.is_dataclass(origin)
    method = "__attrs_post_init__" if is_attrs else "__post_init__"
    return [f"{method} of {origin.__name__}"] if is_checked and hasattr(origin, method) else []


def _declared(cls: Any) -> tuple[Any, ...]:
    """Return the declarations of the fields of a dataclass or an attrs class."""
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(cls.__attrs_attrs__)
    return dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()


def _attrs_validator(cls: Any, name: str) -> str:
    """Return a description of the validator of an attrs field; empty without one."""
    origin = getattr(cls, "__origin__", cls)
    fields = _declared(origin) if hasattr(origin, "__attrs_attrs__") else ()
    found = (field.validator for field in fields if field.name == name)
    return f"the validator of {name!r}" if next(found, None) is not None else ""
