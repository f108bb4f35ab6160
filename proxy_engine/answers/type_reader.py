"""Readers of types: the JSON Schema of a type's answers, and the conversion of answers to values.

A type is read by the library that defines it: pydantic, or msgspec if the type has a part of
msgspec or attrs.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

import pydantic
from typing_extensions import is_typeddict

from state_machines import type_readers
from state_machines.errors import SchemaError
from state_machines.type_readers.marks import TypeSchema
from state_machines.type_readers.pydantic_reader import pydantic_schema

from ..checks import read_json, short_repr
from ..errors import InvalidResponseFormatError, MissingExtraError
from ..runtime.extras import import_extra

T = TypeVar("T")

_TYPE = type
_PYTHON_SCALARS = (
    *(bytes, bytearray, memoryview, Decimal, UUID),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
)

_HINT = (
    "Give a pydantic model, a msgspec Struct, a type with a JSON Schema, a JSON Schema, or a state "
    "machine."
)
_MIXED_HINT = (
    "pydantic does not read Structs and classes of attrs. Define the whole type with pydantic, or "
    "with msgspec: a Struct, or a dataclass without pydantic."
)


class TypeReader(ABC, Generic[T]):
    """Reads answers as values of one type.

    Attributes:
        described: The JSON Schema of the answers, and what it does not guarantee.
    """

    described: TypeSchema

    @property
    def schema(self) -> Any:
        """The JSON Schema of the answers."""
        return self.described.schema

    @abstractmethod
    def read(self, text: str) -> T:
        """Return an answer as a value of the type; raise ``ValueError`` if the type rejects it."""

    @abstractmethod
    def dump(self, value: Any, mode: Literal["json", "python"]) -> Any:
        """Return a value of the type as dicts, lists and scalars, under the names of the JSON.

        Args:
            value: The value.
            mode: Whether scalars are those of JSON, or also those of Python, such as dates.
        """


class _PydanticTypeReader(TypeReader[T]):
    def __init__(self, type: Any, *, write_defaults: bool) -> None:
        is_adapter = isinstance(type, pydantic.TypeAdapter)
        self._adapter: pydantic.TypeAdapter[T] = type if is_adapter else pydantic.TypeAdapter(type)
        self.described = pydantic_schema(self._adapter, write_defaults=write_defaults)

    def read(self, text: str) -> T:
        return read_json(self._adapter, text)

    def dump(self, value: Any, mode: Literal["json", "python"]) -> Any:
        return self._adapter.dump_python(value, mode=mode, by_alias=True, warnings=False)


class _MsgspecTypeReader(TypeReader[T]):
    def __init__(self, type: Any, *, write_defaults: bool) -> None:
        purpose = f"the response format {short_repr(type)}"
        reader = import_extra("msgspec", f"{type_readers.__name__}.msgspec_reader", purpose=purpose)
        self._msgspec = import_extra("msgspec", "msgspec", purpose=purpose)
        self.described = reader.msgspec_schema(type, write_defaults=write_defaults)
        self._decoder = self._msgspec.json.Decoder(type)

    def read(self, text: str) -> T:
        try:
            value: T = self._decoder.decode(text)
        except (ValueError, RecursionError):
            raise
        except Exception as error:
            # The caller's code may raise anything.
            raise ValueError(f"{_class_name(error)} was raised: {error}") from error
        return value

    def dump(self, value: Any, mode: Literal["json", "python"]) -> Any:
        is_json = mode == "json"
        kept = () if is_json else _PYTHON_SCALARS
        return self._msgspec.to_builtins(
            value, builtin_types=kept, str_keys=is_json, enc_hook=self._other
        )

    def _other(self, value: Any) -> Any:
        """Return an object that msgspec does not write as JSON."""
        is_raw = isinstance(value, self._msgspec.Raw)
        return self._msgspec.json.decode(value) if is_raw else str(value)


def type_reader(type: Any, *, write_defaults: bool = True) -> TypeReader[Any]:
    """Return the reader of a type, or of a ``pydantic.TypeAdapter``.

    Args:
        type: The type.
        write_defaults: Whether properties with a default are required.

    Raises:
        InvalidResponseFormatError: The library has no schema for it.
        SchemaError: No JSON is read as a part of the type.
        MissingExtraError: The type needs msgspec, which is not installed.
    """
    try:
        if uses_msgspec(type):
            return _MsgspecTypeReader(type, write_defaults=write_defaults)
        return _PydanticTypeReader(type, write_defaults=write_defaults)
    except MissingExtraError:
        raise
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        hint = _HINT
        if not uses_msgspec(type) and any(map(_is_of_msgspec, _parts(type, within_models=True))):
            hint = _MIXED_HINT
        elif isinstance(error, SchemaError):
            raise
        raise InvalidResponseFormatError(
            f"{short_repr(type)} is not a response format: {error}", hint=hint
        ) from error


def uses_msgspec(type: Any) -> bool:
    """Return whether a type has a ``Struct``, a class of attrs, or an annotation of msgspec.

    Fields of dataclasses, typed dicts and named tuples count, those of pydantic models do not.
    """
    return any(map(_is_of_msgspec, _parts(type)))


def _is_of_msgspec(part: Any) -> bool:
    if hasattr(part, "__attrs_attrs__"):
        return True
    # A type of msgspec exists only where msgspec is imported.
    msgspec = sys.modules.get("msgspec")
    if msgspec is None:
        return False
    if isinstance(part, _TYPE):
        return issubclass(part, (msgspec.Struct, msgspec.Raw, msgspec.UnsetType))
    return isinstance(part, msgspec.Meta)


def _parts(type: Any, *, within_models: bool = False) -> Iterator[Any]:
    """Yield a type with the types and annotations that it is composed of."""
    stack, seen = [type], set[int]()
    while stack:
        part = stack.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        stack.extend(get_args(part))
        stack.extend(getattr(part, "__metadata__", ()))
        # The types of an alias, of `NewType`, and of a generic class with arguments.
        inner = (getattr(part, name, None) for name in ("__value__", "__supertype__"))
        stack.extend(each for each in (*inner, get_origin(part)) if each is not None)
        if isinstance(part, _TYPE) and (within_models or not _is_of_pydantic(part)):
            stack.extend(_field_types(part))


def _is_of_pydantic(cls: Any) -> bool:
    return issubclass(cls, pydantic.BaseModel) or hasattr(cls, "__pydantic_validator__")


def _field_types(cls: Any) -> Iterator[Any]:
    """Yield the types of a class's fields. There are none if one of them cannot be evaluated."""
    has_fields = (
        dataclasses.is_dataclass(cls)
        or is_typeddict(cls)
        or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
        or issubclass(cls, pydantic.BaseModel)
    )
    if has_fields:
        # An annotation is an expression, which may raise anything.
        with suppress(Exception):
            yield from get_type_hints(cls, include_extras=True).values()


def _class_name(value: object) -> str:
    return value.__class__.__name__
