"""What an answer has to look like: every accepted form, brought to a state machine and a parser.

==============================================  =====================================
given                                           ``parsed`` is
==============================================  =====================================
``None``, ``{"type": "text"}``                  ``None``: free text
a pydantic model                                an instance of it
any type pydantic knows (``list[int]``, …)      a value of it
a JSON Schema: dict or bool                     the JSON value
``{"type": "json_schema", "json_schema": …}``   the JSON value (OpenAI's form)
``{"type": "json_object"}``                     the JSON value, some object
``JsonSchemaStateMachine``                      the JSON value
another state machine, a ``MachineSource``      the text
a part of ``state_machines.root``               what its sub-states' ``parse`` returns: the value
                                                of one, or a dict by identifier
==============================================  =====================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import jsonschema
import pydantic
from referencing import Registry

from state_machines import JsonSchemaStateMachine, StateMachine
from state_machines.root import Part

from ..errors import InvalidResponseFormatError, OutputValidationError
from ..pydantic_schemas import ClosedJsonSchema
from ..text_checks import short_repr
from ..validation import json_validator
from .compile_job import CompileJob
from .machine_cache import MachineCache

__all__ = ["MachineSource", "ResponseFormat", "ResponseFormatCompiler"]

JsonSchema: TypeAlias = Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class MachineSource:
    """A state machine that is yet to be compiled: ``compile(source)``."""

    compile: Callable[[Any], StateMachine]
    source: Hashable


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A compiled response format.

    ``machine`` is ``None`` for free text, and where there is a ``part``, the caller's own
    composition. ``parse`` turns the whole output into ``parsed``, and raises
    ``OutputValidationError``.
    """

    machine: StateMachine | None
    parse: Callable[[str], Any]
    part: Part | None = None

    @property
    def is_free(self) -> bool:
        """Whether any text will do."""
        return self.machine is None and self.part is None


class ResponseFormatCompiler:
    """Compiles response formats, and caches the machines of those used last.

    A machine keeps the masks it has computed, so the second request with a schema is much
    cheaper than the first. ``capacity`` is in machines. Safe to use from several threads.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._machines: MachineCache[StateMachine] = MachineCache(capacity)

    def compile(self, given: Any, job: CompileJob | None = None) -> ResponseFormat:
        """Compile any of the forms above, as part of ``job``.

        Raises:
            InvalidResponseFormatError: It is none of them.
            SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
            ProxyError: What else compiling raises, see :meth:`CompileJob.run`.
        """
        job = job or CompileJob()
        if given is None:
            return _FREE_TEXT
        if isinstance(given, bool):
            return self._json(given, job)
        if isinstance(given, Mapping):
            return self._mapping(given, job)
        if isinstance(given, JsonSchemaStateMachine):
            return ResponseFormat(given, _json_parser(given.schema, given.registry))
        if isinstance(given, StateMachine):
            return ResponseFormat(given, str)
        if isinstance(given, MachineSource):
            machine = self._machines.get(given, lambda: given.compile(given.source), job)
            return ResponseFormat(machine, str)
        if isinstance(given, Part):
            return ResponseFormat(None, _no_value, given)
        return self._type(given, job)

    def _mapping(self, given: Mapping[str, Any], job: CompileJob) -> ResponseFormat:
        # None of these three is a type of JSON Schema's, so the two readings cannot collide.
        match given.get("type"):
            case "text":
                _refuse_extra_keys(given, {"type"})
                return _FREE_TEXT
            case "json_object":
                _refuse_extra_keys(given, {"type"})
                return self._json({"type": "object"}, job)
            case "json_schema":
                _refuse_extra_keys(given, {"type", "json_schema"})
                wrapped = given.get("json_schema")
                if not isinstance(wrapped, Mapping) or "schema" not in wrapped:
                    raise InvalidResponseFormatError(
                        "a response format of type 'json_schema' needs a 'json_schema' object "
                        "with a 'schema' in it"
                    )
                # "strict" changes nothing: here every schema is enforced.
                _refuse_extra_keys(wrapped, {"name", "description", "schema", "strict"})
                return self._json(wrapped["schema"], job)
        return self._json(given, job)

    def _json(self, schema: Any, job: CompileJob) -> ResponseFormat:
        if not isinstance(schema, Mapping | bool):
            raise InvalidResponseFormatError(
                f"a JSON Schema is an object or a boolean, not {type(schema).__name__}"
            )
        return ResponseFormat(self._machine(schema, job), _json_parser(schema))

    def _type(self, given: Any, job: CompileJob) -> ResponseFormat:
        try:
            adapter = (
                given
                if isinstance(given, pydantic.TypeAdapter)
                else pydantic.TypeAdapter[Any](given)
            )
            schema = adapter.json_schema(schema_generator=ClosedJsonSchema)
        except Exception as error:
            # A type can run its own code when pydantic builds its schema.
            raise InvalidResponseFormatError(
                f"{short_repr(given)} is not a response format: {error}",
                hint="Give a pydantic model, a type with a JSON Schema, a JSON Schema, or a "
                "state machine.",
            ) from error
        return ResponseFormat(self._machine(schema, job), _type_parser(adapter))

    def _machine(self, schema: JsonSchema, job: CompileJob) -> StateMachine:
        try:
            # Keys in their order: the order of properties is part of what a schema means here.
            key = json.dumps(schema, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidResponseFormatError(f"the schema is not JSON: {error}") from error

        def compile_schema() -> StateMachine:
            # A copy: the caller may go on changing the dict, and the cache may not change with it.
            # Spaces as `json.dumps` writes them, and no choice about them: what is forced is quick.
            return JsonSchemaStateMachine(json.loads(key), whitespace="spaced")

        return self._machines.get(key, compile_schema, job)


def _no_value(text: str) -> None:
    """Free text has no parsed value."""


_FREE_TEXT = ResponseFormat(None, _no_value)


def _json_parser(schema: JsonSchema, registry: Registry[Any] | None = None) -> Callable[[str], Any]:
    validator = json_validator(schema, registry=registry)

    def parse(text: str) -> Any:
        try:
            return validator.read(text)
        except (ValueError, RecursionError, jsonschema.ValidationError) as error:
            raise OutputValidationError(
                f"the output does not match the schema: {error}", text=text
            ) from error

    return parse


def _type_parser(adapter: pydantic.TypeAdapter[Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise OutputValidationError(
                f"the output does not validate: {error}",
                text=text,
                hint="The type asks for more than its JSON Schema says.",
            ) from error

    return parse


def _refuse_extra_keys(given: Mapping[str, Any], known: set[str]) -> None:
    extra = set(given) - known
    if extra:
        kind = given.get("type")
        what = "its 'json_schema'" if kind is None else f"a response format of type {kind!r}"
        raise InvalidResponseFormatError(
            f"{what} has no {', '.join(sorted(map(short_repr, extra)))}"
        )
