"""How the arguments of a call, a JSON object, become what a tool's function is called with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jsonschema
import pydantic

from ..validation import json_validator

__all__ = ["ArgumentReader", "InstanceArguments", "JsonArguments", "KeywordArguments"]


class ArgumentReader(Protocol):
    """Reads arguments, and calls with them."""

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """What the arguments stand for. Raises ``ValueError`` where they are not valid."""

    def call(self, function: Callable[..., Any], value: Any) -> Any:
        """Call ``function`` with what ``read`` returned."""


@dataclass(frozen=True, slots=True)
class JsonArguments:
    """A JSON Schema is all that is known: arguments are JSON, and given by keyword."""

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
    """The arguments make an instance of a model or a dataclass, the function's one argument."""

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
    """The arguments of a Python function.

    ``model`` has a field for each parameter; ``parameters`` are their names by that of the
    field. ``defaults``: fields whose default is written as ``Field(default=…)``, which Python
    would hand to the function as it stands.
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


def _written(arguments: Mapping[str, Any]) -> str:
    # Pydantic reads more of JSON than of Python: a date, a set, a tuple are JSON's strings and
    # arrays, in strict models, too.
    try:
        return json.dumps(arguments if isinstance(arguments, dict) else dict(arguments))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error


def _refusal(error: pydantic.ValidationError) -> str:
    """One line a fault, without links and without the name of a model nobody wrote."""
    lines = []
    for fault in error.errors(include_url=False, include_context=False):
        place = ".".join(map(str, fault["loc"]))
        lines.append(f"{place}: {fault['msg']}" if place else fault["msg"])
    return "; ".join(lines)
