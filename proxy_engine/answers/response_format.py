"""Compile response formats of every kind to a state machine and a parser.

==============================================  =====================================
response format                                 ``parsed``
==============================================  =====================================
``None``, ``{"type": "text"}``                  ``None``: free text
a pydantic model                                an instance
a type, ``Annotated``, or ``TypeAdapter``       a value of the type
a JSON Schema: dict or bool                     the JSON value
``{"type": "json_schema", "json_schema": …}``   the JSON value (OpenAI's form)
``{"type": "json_object"}``                     the JSON object
``JsonSchemaStateMachine``                      the JSON value
another state machine, a ``MachineSource``      the text
``Fenced``                                      that of the format inside
a part of ``state_machines.root``               the results of its parts' ``parse``: a value,
                                                or a dict by name if there are several
==============================================  =====================================

OpenAI's forms may have a member ``delimiters``: the texts around the JSON, as ``Fenced`` has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jsonschema
import pydantic
from referencing import Registry

from state_machines import JsonSchemaStateMachine, StateMachine
from state_machines.root import Part, Structured, leaves
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters

from ..errors import InvalidResponseFormatError, OutputValidationError
from ..pydantic_schemas import ClosedJsonSchema
from ..text_checks import has_surrogate, short_repr
from ..validation import json_validator
from .compile_job import CompileJob
from .machine_cache import MachineCache

JsonSchema: TypeAlias = Mapping[str, Any] | bool


@dataclass(frozen=True, slots=True)
class MachineSource:
    """A state machine that is not compiled yet: ``compile(source)``."""

    compile: Callable[[Any], StateMachine]
    source: Hashable


@dataclass(frozen=True, slots=True)
class Fenced:
    """A response format whose output stands between two texts, by default in a Markdown fence.

    The texts are markers: they are in ``result.parts``, not in ``result.text``.

    Attributes:
        response_format: A response format other than free text and compositions.
        begin: The text before the output.
        end: The text after it.
    """

    response_format: Any
    begin: str = "```json\n"
    end: str = "\n```"


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A compiled response format.

    Attributes:
        machine: The state machine; ``None`` for free text and for a composition.
        parse: Converts the output to ``parsed``, or raises ``OutputValidationError``.
        part: A composition of the caller.
        delimiters: The markers around the output of the machine.
    """

    machine: StateMachine | None
    parse: Callable[[str], Any]
    part: Part | None = None
    delimiters: Delimiters = NO_DELIMITERS

    @property
    def is_free(self) -> bool:
        """Whether the answer is free text."""
        return self.machine is None and self.part is None

    @property
    def schemas(self) -> list[tuple[str, Any]]:
        """The JSON Schemas of the answer, each with the name of its part in a composition."""
        machines = [("", self.machine)]
        if self.part is not None:
            structured = (leaf for leaf in leaves(self.part) if isinstance(leaf, Structured))
            machines = list(dict.fromkeys((leaf.name, leaf.grammar) for leaf in structured))
        return [
            (name, machine.schema)
            for name, machine in machines
            if isinstance(machine, JsonSchemaStateMachine)
        ]


class ResponseFormatCompiler:
    """Compiles response formats, with an LRU cache of machines. Thread-safe.

    A machine keeps the masks that it has computed, so a second request with a schema costs much
    less than the first.

    Args:
        capacity: Capacity of the cache, in machines.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._machines: MachineCache[StateMachine] = MachineCache(capacity)

    def compile(self, given: Any, job: CompileJob | None = None) -> ResponseFormat:
        """Compile a response format of any kind, as part of ``job``.

        Raises:
            InvalidResponseFormatError: It is of no accepted kind.
            SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
            ProxyError: :meth:`CompileJob.run` raised it.
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
        if isinstance(given, Fenced):
            inner = self.compile(given.response_format, job)
            return _delimited(inner, (given.begin, given.end))
        return self._type(given, job)

    def _mapping(self, given: Mapping[str, Any], job: CompileJob) -> ResponseFormat:
        # JSON Schema has no type of these names, so there is no ambiguity.
        match given.get("type"):
            case "text":
                _refuse_extra_keys(given, {"type"})
                return _FREE_TEXT
            case "json_object":
                _refuse_extra_keys(given, {"type", "delimiters"})
                return _delimited(self._json({"type": "object"}, job), given.get("delimiters"))
            case "json_schema":
                _refuse_extra_keys(given, {"type", "json_schema", "delimiters"})
                wrapped = given.get("json_schema")
                if not isinstance(wrapped, Mapping) or "schema" not in wrapped:
                    raise InvalidResponseFormatError(
                        "a response format of type 'json_schema' needs a 'json_schema' object "
                        "with a 'schema' in it"
                    )
                # "strict" has no effect: every schema is enforced.
                _refuse_extra_keys(
                    wrapped, {"name", "description", "schema", "strict", "delimiters"}
                )
                # The Responses API has one object for both.
                delimiters = given.get("delimiters", wrapped.get("delimiters"))
                return _delimited(self._json(wrapped["schema"], job), delimiters)
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
            # A type's own code, called for its schema, may raise anything.
            raise InvalidResponseFormatError(
                f"{short_repr(given)} is not a response format: {error}",
                hint="Give a pydantic model, a type with a JSON Schema, a JSON Schema, or a "
                "state machine.",
            ) from error
        return ResponseFormat(self._machine(schema, job), _type_parser(adapter))

    def _machine(self, schema: JsonSchema, job: CompileJob) -> StateMachine:
        try:
            # Not sorted: properties are written in the schema's order.
            key = json.dumps(schema, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidResponseFormatError(f"the schema is not JSON: {error}") from error

        def compile_schema() -> StateMachine:
            # A copy, since the caller may change the dict. Whitespace is fixed to that of
            # `json.dumps`: forced text is not sampled.
            return JsonSchemaStateMachine(json.loads(key), whitespace="spaced")

        return self._machines.get(key, compile_schema, job)


def _delimited(inner: ResponseFormat, delimiters: Any) -> ResponseFormat:
    """Return a format with its output between two texts; ``None`` stands for no texts."""
    if delimiters is None:
        return inner
    if inner.machine is None or inner.delimiters != NO_DELIMITERS:
        raise InvalidResponseFormatError(
            "only structured output can stand between delimiters",
            hint="A Text has its own: Text(begin=..., end=...).",
        )
    if not isinstance(delimiters, list | tuple) or len(delimiters) != 2:
        raise InvalidResponseFormatError(
            f"delimiters are two texts, not {short_repr(delimiters)}",
            hint='Give the text before the output and the one after it: ["```json\\n", "\\n```"].',
        )
    for text in delimiters:
        if not isinstance(text, str) or has_surrogate(text):
            raise InvalidResponseFormatError(f"a delimiter is a text, not {short_repr(text)}")
    return replace(inner, delimiters=Delimiters(*delimiters))


def _no_value(text: str) -> None:
    """Return ``None``: free text has no parsed value."""


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
                hint="The type has constraints that its JSON Schema lacks.",
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
