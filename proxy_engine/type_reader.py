"""Readers of types: the JSON Schema of a type's answers, and the conversion of answers to values.

A type is read by the library that defines it: pydantic, or msgspec if the type has a part of
msgspec or attrs. The parameters of a function become the fields of a ``Struct`` then.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import json
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import EnumType
from types import ModuleType
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from uuid import UUID

import pydantic
from annotated_types import BaseMetadata
from pydantic.errors import (
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic.fields import FieldInfo

from state_machines.errors import SchemaError
from state_machines.type_readers import uses_msgspec
from state_machines.type_readers.pydantic_reader import pydantic_schema
from state_machines.type_readers.type_schema import Gap, TypeSchema

from .checks import read_json, short_repr
from .errors import InvalidResponseFormatError, InvalidToolError, MissingExtraError
from .runtime.extras import import_extra

__all__ = ["Gap", "TypeReader", "gaps", "type_reader"]

T = TypeVar("T")

_PYTHON_SCALARS = (
    *(bytes, bytearray, memoryview, Decimal, UUID),
    *(datetime.datetime, datetime.date, datetime.time, datetime.timedelta),
)

_MSGSPEC_READER = "state_machines.type_readers.msgspec_reader"

_HINT = (
    "Give a pydantic model, a dataclass or another type, a JSON Schema as a dict, or a Regex, "
    "Choice, Lark or GBNF."
)
_UNREADABLE_HINT = "Make it a pydantic model, a dataclass or a TypedDict, or leave it out."
_UNDEFINED_HINT = "Define the types that it names before the request."
_MIXED_HINT = (
    "pydantic does not read Structs and classes of attrs. Define the whole type with pydantic, or "
    "with msgspec: a Struct, or a dataclass without pydantic."
)


_WITHOUT_SCHEMA = re.compile(r"Unable to generate pydantic-core schema for (.*)\. Set ")


class TypeReader(ABC, Generic[T]):
    """Reads answers as values of one type.

    Attributes:
        described: The JSON Schema of the answers, and the requirements that it does not guarantee.
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
        reader = import_extra("msgspec", _MSGSPEC_READER, purpose=purpose)
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
            raise ValueError(
                f"a method of the type raised {error.__class__.__name__}: {error}"
            ) from error
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

    A warning names each optional part, such as a choice or a property with a default, that is left
    out since no JSON is read as it.

    Args:
        type: The type.
        write_defaults: Whether properties with a default are required.

    Raises:
        InvalidResponseFormatError: The library has no schema for it.
        SchemaError: No JSON is read as a part of the type.
        MissingExtraError: The type needs msgspec, which is not installed.
    """
    check_is_type(type)
    kind = _MsgspecTypeReader if uses_msgspec(type) else _PydanticTypeReader
    reader: TypeReader[Any]
    try:
        reader = kind(type, write_defaults=write_defaults)
    except MissingExtraError:
        raise
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        reason, hint = _reason_of(error)
        if kind is _PydanticTypeReader and uses_msgspec(type, within_models=True):
            hint = _MIXED_HINT
        elif isinstance(error, SchemaError):
            raise
        raise InvalidResponseFormatError(
            f"{short_repr(type)} is not a response format: {reason}", hint=hint
        ) from error
    warn_of_left_out(f"answers of {short_repr(type)}", reader.described)
    return reader


def check_is_type(value: Any) -> None:
    """Raise ``InvalidResponseFormatError`` for a value that is often given in place of a type.

    pydantic takes strings for names of types, and other values for types without a schema.
    """
    hint = ""
    match value:
        case str():
            hint = "Give the type itself, Regex(...) for a pattern, or Choice([...]) for texts."
            if _is_json_object(value):
                hint = "Give a JSON Schema as a dict: json.loads(text)."
            elif value in ("json", "json_object"):
                hint = 'Give {"type": "json_object"} for any JSON object, or a type.'
        case re.Pattern():
            hint = f"Give Regex({short_repr(value.pattern)})."
        case list() | tuple() | set() | frozenset():
            hint = "Give Choice([...]) for one of several texts, or Literal[...] for values."
        case int() | float() | complex() | bytes() | ModuleType():
            hint = _HINT
        case pydantic.BaseModel():
            hint = f"Give the class, {type(value).__name__}, in place of an instance."
    if hint or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        hint = hint or f"Give the class, {type(value).__name__}, in place of an instance."
        is_module = isinstance(value, ModuleType)
        shown = f"the module {value.__name__!r}" if is_module else short_repr(value)
        raise InvalidResponseFormatError(f"{shown} is not a response format", hint=hint)
    if isinstance(value, EnumType) and not len(value):
        raise InvalidResponseFormatError(
            f"{short_repr(value)} is not a response format: it has no members",
            hint="Give an enum with members.",
        )


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _reason_of(error: Exception) -> tuple[str, str]:
    """Return why a type has no schema, and a hint, without the advice to authors of types."""
    text = str(error)
    if isinstance(error, PydanticSchemaGenerationError):
        part = _WITHOUT_SCHEMA.match(text)
        return f"pydantic has no schema for {part[1] if part else 'a part of it'}", _UNREADABLE_HINT
    if isinstance(error, PydanticUserError) and error.code == "class-not-fully-defined":
        return "it names a type that is not defined", _UNDEFINED_HINT
    if isinstance(error, PydanticUndefinedAnnotation):
        return f"it names the type {error.name!r}, which is not defined", _UNDEFINED_HINT
    return text.partition("\n\nFor further information")[0], _HINT


def warn_of_left_out(texts: str, described: TypeSchema) -> None:
    """Warn of the parts of a type that are left out, since no JSON is read as them.

    Args:
        texts: What leaves them out, such as the answers of a type.
        described: The type.
    """
    for part in described.left_out:
        # Shown once for each text, as Python's filter does by default.
        warnings.warn(
            f"{texts} leave out {part.reason}, since no JSON is read as it (at #{part.pointer})",
            stacklevel=3,
        )


def gaps(type: Any) -> tuple[Gap, ...]:
    """Return the requirements of a type that masks do not guarantee.

    They are those of code, such as a validator, and of the world, such as a file that exists. An
    answer that violates one raises ``OutputValidationError``; ``max_retries`` asks the model again.
    Without gaps, every answer is read as a value of the type.

    Args:
        type: A type, or a ``pydantic.TypeAdapter``.

    Returns:
        Each requirement with a JSON Pointer into the schema of the type.

    Raises:
        InvalidResponseFormatError: The library has no schema for the type.
        SchemaError: No JSON is read as a part of the type.
        MissingExtraError: The type needs msgspec, which is not installed.
    """
    return type_reader(type).described.gaps


ReadArguments: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Returns arguments as a value of a type; raises ``ValueError`` if they are invalid."""


_SHOWN_DEFAULTS = (str, int, float, bool, type(None))


def arguments_type(
    parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any], *, tool: str
) -> Any:
    """Return a ``Struct`` whose fields are the parameters of a function.

    Args:
        parameters: The parameters.
        hints: Their types by name.
        tool: The name of the tool, for errors.

    Raises:
        InvalidToolError: A parameter has a constraint of pydantic, which msgspec does not read.
        MissingExtraError: msgspec is not installed.
    """
    msgspec = import_extra("msgspec", "msgspec", purpose="a parameter of a function")
    fields: list[tuple[Any, ...]] = []
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        if any(map(_is_of_pydantic, (parameter.default, *getattr(hint, "__metadata__", ())))):
            raise InvalidToolError(
                f"the parameter {parameter.name!r} has a constraint of pydantic, and msgspec reads "
                "the parameters of this function",
                tool=tool,
                hint="Give msgspec.Meta in place of pydantic.Field, or no type of msgspec.",
            )
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        elif type(parameter.default) in _SHOWN_DEFAULTS:
            fields.append((parameter.name, hint, parameter.default))
        else:
            # A factory, since msgspec copies or refuses mutable defaults. The function is called
            # with the default itself, as it is without the argument.
            factory = functools.partial(_same, parameter.default)
            fields.append((parameter.name, hint, msgspec.field(default_factory=factory)))
    return msgspec.defstruct("Arguments", fields, kw_only=True)


def read_arguments(read: ReadArguments, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as values by parameter, given the reader of their ``Struct``."""
    value = read(arguments)
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _is_of_pydantic(value: Any) -> bool:
    return isinstance(value, FieldInfo | BaseMetadata)


def _same(value: Any) -> Any:
    return value
