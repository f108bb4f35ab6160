"""The readers of the catalogue's types, and the machines that generate for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from pydantic import TypeAdapter

from state_machines import JsonSchemaStateMachine
from state_machines.type_readers.msgspec_reader import msgspec_schema
from state_machines.type_readers.pydantic_reader import pydantic_schema
from state_machines.type_readers.type_schema import Gap, TypeSchema
from type_catalogue.entry import Entry

__all__ = ["gaps_of", "machine_of", "reader_of", "refusal"]


def reader_of(entry: Entry) -> Callable[[str], Any]:
    """Return the function that reads a text as the type; it raises for texts that it refuses."""
    if entry.library == "pydantic":
        return TypeAdapter(entry.type).validate_json
    return msgspec.json.Decoder(entry.type).decode


def _described(entry: Entry) -> TypeSchema:
    if entry.library == "pydantic":
        return pydantic_schema(TypeAdapter(entry.type))
    return msgspec_schema(entry.type)


def gaps_of(entry: Entry) -> tuple[Gap, ...]:
    """Return the requirements of the type that masks do not guarantee."""
    return _described(entry).gaps


def machine_of(entry: Entry) -> JsonSchemaStateMachine:
    """Return the machine of the type, compiled as a response format."""
    schema = _described(entry).schema
    return JsonSchemaStateMachine(schema, whitespace="spaced", additional_properties="closed")


def refusal(read: Callable[[str], Any], text: str) -> str | None:
    """Return the message of a reader that refuses a text, in one line; ``None`` if it reads it."""
    try:
        read(text)
    except Exception as error:
        # The code of a type may raise anything.
        return " ".join(f"{type(error).__name__}: {error}".split())
    return None
