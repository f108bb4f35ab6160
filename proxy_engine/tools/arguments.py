"""Convert the arguments of a call, a JSON object, to the arguments of a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jsonschema
import pydantic

from state_machines.argument_notations import INPUT

from ..validation import json_validator


class ArgumentReader(Protocol):
    """Validates arguments and calls a function with them."""

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """Return the arguments as Python values. Raises ``ValueError`` if they are invalid."""

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        """Call ``function`` with the result of ``read``."""


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """Arguments of a tool with a JSON Schema only: JSON values, passed by keyword."""

    schema: Mapping[str, Any]

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(_written(arguments))
        try:
            json_validator(self.schema).validate(value)
        except jsonschema.ValidationError as error:
            place = "".join(f"[{step!r}]" for step in error.absolute_path)
            raise ValueError(f"{place}: {error.message}" if place else error.message) from error
        return value

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        return function(**value)


@dataclass(frozen=True, slots=True)
class InstanceArguments:
    """Arguments that become an instance of a type, the only argument of the function."""

    adapter: pydantic.TypeAdapter[Any]

    def read(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self.adapter.validate_json(_written(arguments))
        except pydantic.ValidationError as error:
            raise ValueError(_refusal(error)) from error

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        return function(value)


@dataclass(frozen=True, slots=True)
class KeywordArguments:
    """Arguments of a Python function.

    Attributes:
        model: A model with a field for each parameter.
        parameters: Names of parameters by field.
        defaults: Fields whose default is a ``Field(default=…)``, which Python would pass as it is.
    """

    model: type[pydantic.BaseModel]
    parameters: Mapping[str, str]
    defaults: frozenset[str] = frozenset()

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            value = self.model.model_validate_json(_written(arguments))
        except pydantic.ValidationError as error:
            raise ValueError(_refusal(error)) from error
        given = value.model_fields_set | self.defaults
        return {
            parameter: getattr(value, field)
            for field, parameter in self.parameters.items()
            if field in given
        }

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        return function(**value)


@dataclass(frozen=True, slots=True)
class InputArguments:
    """The arguments of a custom tool: one text, the only argument of the function."""

    def read(self, arguments: Mapping[str, Any]) -> str:
        text = arguments.get(INPUT)
        if len(arguments) != 1 or not isinstance(text, str):
            raise ValueError(f"a custom tool has the argument {INPUT!r} alone, a text")
        return text

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        return function(value)


def _written(arguments: Mapping[str, Any]) -> str:
    # As text: even in strict mode, pydantic reads dates, sets and tuples from JSON.
    try:
        return json.dumps(arguments if isinstance(arguments, dict) else dict(arguments))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error


def _refusal(error: pydantic.ValidationError) -> str:
    """Return one line per error, without links and without the name of the generated model."""
    lines = []
    for fault in error.errors(include_url=False, include_context=False):
        place = ".".join(map(str, fault["loc"]))
        lines.append(f"{place}: {fault['msg']}" if place else fault["msg"])
    return "; ".join(lines)
