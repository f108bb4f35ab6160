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
``{"type": "structural_tag", …}``               the text (XGrammar's forms)
``{"type": "grammar", "grammar": …}``           the text (OpenAI's form; GBNF or Lark)
``JsonSchemaStateMachine``                      the JSON value
another state machine, a ``MachineSource``      the text
``Fenced``                                      that of the format inside
``Spoken``                                      a ``SpokenText`` with that of the format inside
a part of ``state_machines.root``               the results of its parts' ``parse``: a value,
                                                or a dict by name if there are several
==============================================  =====================================

OpenAI's forms may have a member ``delimiters``: the texts around the JSON, as ``Fenced`` has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeAlias, TypeVar

import jsonschema
import pydantic
from referencing import Registry

from state_machines import GrammarStateMachine, JsonSchemaStateMachine, StateMachine
from state_machines.json_schema.machine import AdditionalProperties
from state_machines.json_schema.quotes import SUBSTRING_OF
from state_machines.pydantic_schemas import ClosedJsonSchema
from state_machines.root import (
    Marker,
    Optional,
    Part,
    Sequence,
    StructuralTagPart,
    Structured,
    leaves,
)
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters

from ..checks.texts import has_surrogate, short_repr
from ..errors import InvalidOptionError, InvalidResponseFormatError, OutputValidationError
from ..results.generation import Quotation
from ..validation import JsonValidator
from .compile_queue import CompileCache, CompileJob
from .spoken import Spoken, SpokenStateMachine, SpokenText

V = TypeVar("V")

JsonSchema: TypeAlias = Mapping[str, Any] | bool

_SCHEMA_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_FORMAT_TYPES = ("grammar", "json_object", "json_schema", "structural_tag", "text")

_QUOTING_MACHINES = 4
"""Machines with quotes that are cached; each holds its sources."""

_CACHED_CHARACTERS = 1_000_000
"""Characters of sources up to which their machine is cached."""


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
        quotes: Returns where the quotes of an output stand, or raises ``OutputValidationError``;
            ``None`` if the answer has no quotes.
        sources: The names of the sources that the answer is quoted from.
    """

    machine: StateMachine | None
    parse: Callable[[str], Any]
    part: Part | None = None
    delimiters: Delimiters = NO_DELIMITERS
    quotes: Callable[[str], tuple[Quotation, ...]] | None = None
    sources: frozenset[str] = frozenset()

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


@dataclass(frozen=True, slots=True)
class _Context:
    """The arguments of ``compile`` beside the response format."""

    job: CompileJob
    sources: Callable[[], Mapping[str, str]]
    additional_properties: AdditionalProperties


class ResponseFormatCompiler:
    """Compiles response formats, with an LRU cache of machines. Thread-safe.

    A machine keeps the masks that it has computed, so a second request with a schema costs much
    less than the first.

    Args:
        capacity: Capacity of the cache, in machines.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._machines: CompileCache[StateMachine] = CompileCache(capacity)
        self._spoken_machines: CompileCache[SpokenStateMachine] = CompileCache(capacity)
        self._structural_tags: CompileCache[StructuralTagPart] = CompileCache(capacity)
        self._schemas: CompileCache[JsonSchemaStateMachine] = CompileCache(capacity)
        self._quoting: CompileCache[JsonSchemaStateMachine] = CompileCache(_QUOTING_MACHINES)

    def compile(
        self,
        given: Any,
        job: CompileJob | None = None,
        sources: Callable[[], Mapping[str, str]] = dict,
        additional_properties: AdditionalProperties = "closed",
    ) -> ResponseFormat:
        """Compile a response format of any kind, as part of ``job``.

        Args:
            given: The response format.
            job: The job that the compilation is part of.
            sources: Returns the texts that strings are quoted from, by name. Called if a schema has
                quotes.
            additional_properties: That of the machines of schemas.

        Raises:
            InvalidResponseFormatError: It is of no accepted kind.
            SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
            StructuralTagError: A structural tag is malformed, or would not be enforced.
            ProxyError: :meth:`CompileJob.run` raised it.
        """
        return self._compile(given, _Context(job or CompileJob(), sources, additional_properties))

    def _compile(self, given: Any, context: _Context) -> ResponseFormat:
        if given is None:
            return _FREE_TEXT
        if isinstance(given, bool):
            return self._json(given, context)
        if isinstance(given, Mapping):
            return self._mapping(given, context)
        if isinstance(given, JsonSchemaStateMachine):
            parse = _json_parser(given.schema, given.registry, given.sources)
            return _with_quotes(ResponseFormat(given, parse), given)
        if isinstance(given, StateMachine):
            return ResponseFormat(given, str)
        if isinstance(given, MachineSource):
            return self._source(given, context.job)
        if isinstance(given, Part):
            return ResponseFormat(None, _no_value, given)
        if isinstance(given, Fenced):
            inner = self._compile(given.response_format, context)
            return _delimited(inner, (given.begin, given.end))
        if isinstance(given, Spoken):
            return self._spoken(self._compile(given.response_format, context), given, context.job)
        return self._type(given, context)

    def _mapping(self, given: Mapping[str, Any], context: _Context) -> ResponseFormat:
        # JSON Schema has no type of these names, so there is no ambiguity.
        match given.get("type"):
            case "text":
                _refuse_extra_keys(given, {"type"})
                return _FREE_TEXT
            case "json_object":
                _refuse_extra_keys(given, {"type", "delimiters"})
                inner = self._json({"type": "object"}, context)
                return _delimited(inner, given.get("delimiters"))
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
                return _delimited(self._json(wrapped["schema"], context), delimiters)
            case "structural_tag":
                return self._structural_tag(given, context.job)
            case "grammar":
                _refuse_extra_keys(given, {"type", "grammar"})
                text = given.get("grammar")
                if not isinstance(text, str):
                    raise InvalidResponseFormatError(
                        "a response format of type 'grammar' needs a string 'grammar'"
                    )
                return self._source(MachineSource(GrammarStateMachine.from_text, text), context.job)
            case str() as unknown if unknown not in _SCHEMA_TYPES:
                raise InvalidResponseFormatError(
                    f"there is no response format of type {short_repr(unknown)}",
                    hint=f"Known are {', '.join(_FORMAT_TYPES)}, and JSON Schemas, whose types are "
                    f"{', '.join(sorted(_SCHEMA_TYPES))}.",
                )
        return self._json(given, context)

    def _source(self, given: MachineSource, job: CompileJob) -> ResponseFormat:
        machine = self._machines.get(given, lambda: given.compile(given.source), job)
        return ResponseFormat(machine, str)

    def _spoken(self, inner: ResponseFormat, given: Spoken, job: CompileJob) -> ResponseFormat:
        machine = inner.machine
        if machine is None and given.lead_in is not None:
            raise InvalidOptionError(
                "lead_in precedes constrained text, and the response format is free text or a "
                "composition of parts",
                option="lead_in",
                hint="Leave it out, or give a pattern, a choice, a grammar or a JSON Schema.",
            )
        if machine is None:
            if inner.part is None:
                return inner
            space = Optional(Marker("space", " "))
            return replace(inner, part=Sequence(space, inner.part))
        lead_ins = given.lead_in, given.max_lead_in
        spoken = self._spoken_machines.get(
            (machine, *lead_ins), lambda: SpokenStateMachine(machine, *lead_ins), job
        )

        def parse(text: str) -> SpokenText:
            lead_in, own = spoken.split(text)
            return SpokenText(lead_in, own, inner.parse(own))

        return replace(inner, machine=spoken, parse=parse)

    def _structural_tag(self, tag: Mapping[str, Any], job: CompileJob) -> ResponseFormat:
        key = _json_key(tag, "the structural tag")
        part = self._structural_tags.get(key, lambda: StructuralTagPart.of(key), job)
        return ResponseFormat(None, _no_value, part)

    def _json(self, schema: Any, context: _Context) -> ResponseFormat:
        if not isinstance(schema, Mapping | bool):
            raise InvalidResponseFormatError(
                f"a JSON Schema is an object or a boolean, not {type(schema).__name__}"
            )
        machine = self._machine(schema, context)
        parse = _json_parser(schema, sources=machine.sources or None)
        return _with_quotes(ResponseFormat(machine, parse), machine)

    def _type(self, given: Any, context: _Context) -> ResponseFormat:
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
        machine = self._machine(schema, context)
        return _with_quotes(ResponseFormat(machine, _type_parser(adapter)), machine)

    def _machine(self, schema: JsonSchema, context: _Context) -> JsonSchemaStateMachine:
        text, job = _json_key(schema, "the schema"), context.job
        key = (text, context.additional_properties)
        texts = context.sources() if f'"{SUBSTRING_OF}"' in text else {}

        def compile_schema() -> JsonSchemaStateMachine:
            # A copy, since the caller may change the dict. Whitespace is fixed to that of
            # `json.dumps`: forced text is not sampled.
            return JsonSchemaStateMachine(
                json.loads(text),
                whitespace="spaced",
                sources=texts,
                additional_properties=context.additional_properties,
            )

        if not texts:
            return self._schemas.get(key, compile_schema, job)
        if sum(map(len, texts.values())) > _CACHED_CHARACTERS:
            return job.run(compile_schema)
        digests = [(name, _digest(source)) for name, source in sorted(texts.items())]
        return self._quoting.get((*key, *digests), compile_schema, job)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()


def _with_quotes(response: ResponseFormat, machine: JsonSchemaStateMachine) -> ResponseFormat:
    """Return a format of one schema with the reader of its quotes, if it has quotes."""
    sources = machine.sources
    if not sources:
        return response
    validator = JsonValidator(machine.schema, registry=machine.registry, sources=sources)

    def quotes(text: str) -> tuple[Quotation, ...]:
        return tuple(Quotation(*quote) for quote in validator.quotes_in(text))

    return replace(response, quotes=_checked(quotes), sources=frozenset(sources))


def _json_key(value: JsonSchema, what: str) -> str:
    """Return the JSON text of a value; ``what`` names it in errors."""
    try:
        # Not sorted: properties are written in the schema's order.
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResponseFormatError(f"{what} is not JSON: {error}") from error


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


def _json_parser(
    schema: JsonSchema,
    registry: Registry[Any] | None = None,
    sources: Mapping[str, str] | None = None,
) -> Callable[[str], Any]:
    return _checked(JsonValidator(schema, registry=registry, sources=sources or None).read)


def _checked(read: Callable[[str], V]) -> Callable[[str], V]:
    """Return a reader that raises ``OutputValidationError`` where an output violates a schema."""

    def read_output(text: str) -> V:
        try:
            return read(text)
        except (ValueError, RecursionError, jsonschema.ValidationError) as error:
            raise OutputValidationError(
                f"the output does not match the schema: {error}", text=text
            ) from error

    return read_output


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
