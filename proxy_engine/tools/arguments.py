"""Convert the arguments of a call, a JSON object, to the arguments of a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jsonschema
import pydantic

from state_machines.argument_notations import INPUT

from ..validation import JsonValidator


@dataclass(frozen=True, slots=True)
class ArgumentReader:
    """Validates arguments and calls a function with them.

    Attributes:
        read: Returns the arguments as Python values; raises ``ValueError`` if they are invalid.
        by_keyword: Whether the value is a dict of keyword arguments, rather than the function's
            only argument.
    """

    read: Callable[[Mapping[str, Any]], Any]
    by_keyword: bool = True

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        """Call ``function`` with the result of ``read``."""
        return function(**value) if self.by_keyword else function(value)


def json_arguments(schema: Mapping[str, Any]) -> ArgumentReader:
    """Return the reader of a tool with a JSON Schema only: JSON values, passed by keyword."""
    return ArgumentReader(partial(_read_json, schema))


def instance_arguments(adapter: pydantic.TypeAdapter[Any]) -> ArgumentReader:
    """Return the reader of a tool whose function takes an instance of a type."""
    return ArgumentReader(partial(read_instance, adapter), by_keyword=False)


def input_arguments() -> ArgumentReader:
    """Return the reader of a custom tool: one text, the only argument of the function."""
    return ArgumentReader(_read_input, by_keyword=False)


def read_instance(adapter: pydantic.TypeAdapter[Any], arguments: Mapping[str, Any]) -> Any:
    """Return arguments as an instance of a type; raises ``ValueError`` if they are invalid."""
    try:
        # As text: even in strict mode, pydantic reads dates, sets and tuples from JSON.
        return adapter.validate_json(_written(arguments))
    except pydantic.ValidationError as error:
        # One line per error, without links and without the name of a generated model.
        faults = error.errors(include_url=False, include_context=False)
        places = (".".join(map(str, fault["loc"])) for fault in faults)
        lines = (
            f"{place}: {fault['msg']}" if place else fault["msg"]
            for place, fault in zip(places, faults, strict=True)
        )
        raise ValueError("; ".join(lines)) from error


def _read_json(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    value = json.loads(_written(arguments))
    try:
        JsonValidator(schema).validate(value)
    except jsonschema.ValidationError as error:
        place = "".join(f"[{step!r}]" for step in error.absolute_path)
        raise ValueError(f"{place}: {error.message}" if place else error.message) from error
    return value


def _read_input(arguments: Mapping[str, Any]) -> str:
    text = arguments.get(INPUT)
    if len(arguments) != 1 or not isinstance(text, str):
        raise ValueError(f"a custom tool has the argument {INPUT!r} alone, a text")
    return text


def _written(arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(arguments if isinstance(arguments, dict) else dict(arguments))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error
