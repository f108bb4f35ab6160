"""Types as response formats: from a type to the JSON that its own reader accepts.

A type is read by the library that defines it, so its schema describes the texts that this reader
accepts. The library's own JSON Schema also admits texts that the reader refuses. Strings that JSON
Schema cannot describe have the keyword ``x-reader-language``, a language of
:mod:`state_machines.reader_languages`.

Reading order: :mod:`~state_machines.type_readers.type_schema` (a schema while it is built),
:mod:`~state_machines.type_readers.pydantic_reader` (the table of pydantic's core schemas) with
:mod:`~state_machines.type_readers.core_reader` (its state),
:mod:`~state_machines.type_readers.pydantic_scalars`,
:mod:`~state_machines.type_readers.pydantic_listed`,
:mod:`~state_machines.type_readers.pydantic_containers`,
:mod:`~state_machines.type_readers.pydantic_members` and
:mod:`~state_machines.type_readers.pydantic_functions`;
:mod:`~state_machines.type_readers.msgspec_reader` (the table of msgspec's types) with
:mod:`~state_machines.type_readers.msgspec_definitions` (the generator of a schema),
:mod:`~state_machines.type_readers.msgspec_scalars` and
:mod:`~state_machines.type_readers.msgspec_classes`. Which library reads a type is recognised here,
without an import of msgspec or attrs.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, NewType, get_args, get_origin, get_type_hints

_TYPE = type


def uses_msgspec(type: Any, *, within_models: bool = False) -> bool:
    """Return whether a type has a ``Struct``, a class of attrs, or an annotation of msgspec.

    Args:
        type: The type. Fields of dataclasses, typed dicts and named tuples are parts of it.
        within_models: Whether fields of pydantic's classes are parts, too.
    """
    return any(map(_is_of_msgspec, _parts(type, within_models)))


def _is_of_msgspec(part: Any) -> bool:
    is_class = isinstance(part, _TYPE)
    if is_class and hasattr(part, "__attrs_attrs__"):
        return True
    # A type of msgspec exists only where msgspec is imported.
    msgspec = sys.modules.get("msgspec")
    if msgspec is None:
        return False
    if is_class:
        return issubclass(part, (msgspec.Struct, msgspec.Raw, msgspec.UnsetType))
    return isinstance(part, msgspec.Meta)


def _parts(type: Any, within_models: bool) -> Iterator[Any]:
    """Yield a type with the types and annotations that it is composed of."""
    stack, seen = [type], set[int]()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        stack.extend(get_args(part))
        origin = get_origin(part)
        if origin is Annotated:
            stack.extend(part.__metadata__)
        elif origin is not None:
            # A generic class with arguments.
            stack.append(origin)
        elif isinstance(part, NewType):
            stack.append(part.__supertype__)
        elif _TYPE(part).__name__ == "TypeAliasType":
            # Of `typing_extensions`, or of a later Python.
            stack.append(part.__value__)
        if isinstance(part, _TYPE) and (within_models or not _is_of_pydantic(part)):
            stack.extend(_field_types(part))


def _is_of_pydantic(cls: Any) -> bool:
    return hasattr(cls, "__pydantic_validator__")


def _field_types(cls: Any) -> Iterator[Any]:
    """Yield the types of a class's fields. There are none if one of them cannot be evaluated."""
    has_fields = (
        dataclasses.is_dataclass(cls)
        or _is_of_pydantic(cls)
        or (issubclass(cls, dict) and hasattr(cls, "__total__"))
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    )
    if has_fields:
        # An annotation is an expression, which may raise anything.
        with suppress(Exception):
            yield from get_type_hints(cls, include_extras=True).values()
