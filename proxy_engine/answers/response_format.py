"""Compile response formats of every kind to a state machine and a parser.

==============================================  =====================================
response format                                 ``parsed``
==============================================  =====================================
``None``, ``{"type": "text"}``                  ``None``: free text
a pydantic model                                an instance
a type, ``Annotated``, or ``TypeAdapter``       a value of the type
a msgspec ``Struct``, a class of attrs          an instance
a JSON Schema: dict or bool                     the JSON value
``{"type": "json_schema", "json_schema": …}``   the JSON value (OpenAI's form)
``{"type": "json_object"}``                     the JSON object
``{"type": "structural_tag", …}``               the text (XGrammar's forms)
``{"type": "grammar", "grammar": …}``           the text (OpenAI's form; GBNF or Lark)
``JsonSchemaStateMachine``                      the JSON value
``Regex``, ``Lark``, ``GBNF``, ``Choice``       the text
another state machine                           the text
``Fenced``                                      the value of the format inside
another ``OuterFormat``                         what its ``around`` returns
a part of ``state_machines.root``               the results of its parts' ``parse``: a value,
                                                or a dict by name if there are several
==============================================  =====================================

OpenAI's forms may have a member ``delimiters``: the texts around the JSON, as ``Fenced`` has them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import jsonschema

from state_machines import ChoiceStateMachine, JsonSchemaStateMachine, StateMachine
from state_machines.errors import has_surrogate
from state_machines.json_schema.machine import AdditionalProperties
from state_machines.json_schema.reader.keywords import KEYWORD_NAMES
from state_machines.quotes import SUBSTRING_OF
from state_machines.root import (
    Part,
    StructuralTagPart,
    Structured,
    leaves,
)
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters

from ..checks import short_repr
from ..errors import InvalidResponseFormatError, OutputValidationError
from ..results.parts import Quotation
from ..text_formats import TextFormat, grammar_format
from ..validation import JsonValidator
from .compile_queue import CompileCache, CompileJob

if TYPE_CHECKING:
    from ..type_reader import TypeReader

T = TypeVar("T")

JsonSchema: TypeAlias = Mapping[str, Any] | bool

_SCHEMA_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_FORMAT_TYPES = ("grammar", "json_object", "json_schema", "structural_tag", "text")

_QUOTING_MACHINES = 4
"""Machines with quotes that are cached; each holds its sources."""

_CACHED_CHARACTERS = 1_000_000
"""Characters of sources up to which their machine is cached."""


class Cached(Protocol):
    """Returns the value of a key, which it compiles if it is missing."""

    def __call__(self, key: Hashable, compile: Callable[[], T]) -> T: ...


class OuterFormat(ABC):
    """A response format around another, which its attribute ``response_format`` is."""

    response_format: Any

    @abstractmethod
    def around(self, inner: ResponseFormat, cached: Cached) -> ResponseFormat:
        """Return the compiled format, for the compiled ``response_format``."""


@dataclass(frozen=True, slots=True)
class Fenced(OuterFormat):
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

    def around(self, inner: ResponseFormat, cached: Cached) -> ResponseFormat:
        """Return the inner format between the two texts."""
        return _delimited(inner, (self.begin, self.end))


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
    def is_enumeration(self) -> bool:
        """Whether the format lists the few values that the answer can have."""
        match self.machine:
            case ChoiceStateMachine():
                return True
            case JsonSchemaStateMachine(schema={"enum": _} | {"type": "boolean"}):
                return True
        return False

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
        self._machines: CompileCache[Any] = CompileCache(capacity)
        self._quoting: CompileCache[Any] = CompileCache(_QUOTING_MACHINES)

    def compile(
        self,
        response_format: Any,
        job: CompileJob | None = None,
        sources: Callable[[], Mapping[str, str]] = dict,
        additional_properties: AdditionalProperties = "closed",
        excluding: Sequence[Any] = (),
        *,
        write_defaults: bool = True,
    ) -> ResponseFormat:
        """Compile a response format of any kind, as part of ``job``.

        Args:
            response_format: The response format.
            job: The job that the compilation is part of.
            sources: Returns the texts that strings are quoted from, by name. Called if a schema has
                quotes.
            additional_properties: How the machines of schemas treat further properties.
            excluding: JSON values that answers must not have.
            write_defaults: Whether properties of a type that have a default are required.

        Raises:
            InvalidResponseFormatError: It is of no accepted kind.
            SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
            StructuralTagError: A structural tag is malformed, or would not be enforced.
            ProxyError: :meth:`CompileJob.run` raised it.
        """
        job = job or CompileJob()
        caches = self._machines, self._quoting
        compilation = _FormatCompilation(
            *caches, job, sources, additional_properties, excluding, write_defaults
        )
        return compilation.compile(response_format)


@dataclass(frozen=True, slots=True)
class _FormatCompilation:
    """The compilation of one response format; see ``ResponseFormatCompiler``."""

    machines: CompileCache[Any]
    quoting: CompileCache[Any]
    job: CompileJob
    sources: Callable[[], Mapping[str, str]]
    additional_properties: AdditionalProperties
    excluding: Sequence[Any]
    write_defaults: bool

    def compile(self, response_format: Any) -> ResponseFormat:
        """Compile a response format of any kind."""
        match response_format:
            case None:
                return _FREE_TEXT
            case bool():
                return self._json(response_format)
            case Mapping():
                return self._mapping(response_format)
            case JsonSchemaStateMachine():
                return _json_format(response_format)
            case StateMachine():
                return ResponseFormat(response_format, str)
            case TextFormat():
                machine = self._cached(response_format, response_format.machine)
                return ResponseFormat(machine, str)
            case Part():
                return ResponseFormat(None, _no_value, response_format)
            case OuterFormat():
                inner = self.compile(response_format.response_format)
                return response_format.around(inner, self._cached)
        return self._type(response_format)

    def _cached(self, key: Hashable, compile: Callable[[], T]) -> T:
        value: T = self.machines.get(key, compile, self.job)
        return value

    def _mapping(self, fields: Mapping[str, Any]) -> ResponseFormat:
        # JSON Schema has no type of these names, so there is no ambiguity.
        match fields.get("type"):
            case "text":
                _refuse_extra_keys(fields, {"type"})
                return _FREE_TEXT
            case "json_object":
                _refuse_extra_keys(fields, {"type", "delimiters"})
                return _delimited(self._json({"type": "object"}), fields.get("delimiters"))
            case "json_schema":
                _refuse_extra_keys(fields, {"type", "json_schema", "delimiters"})
                wrapped = fields.get("json_schema")
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
                delimiters = fields.get("delimiters", wrapped.get("delimiters"))
                return _delimited(self._json(wrapped["schema"]), delimiters)
            case "structural_tag":
                key = _json_key(fields, "the structural tag")
                part = self._cached(("structural_tag", key), lambda: StructuralTagPart.of(key))
                return ResponseFormat(None, _no_value, part)
            case "grammar":
                _refuse_extra_keys(fields, {"type", "grammar"})
                text = fields.get("grammar")
                if not isinstance(text, str):
                    raise InvalidResponseFormatError(
                        "a response format of type 'grammar' needs a string 'grammar'"
                    )
                return self.compile(grammar_format(text))
            case str() as unknown if unknown not in _SCHEMA_TYPES:
                raise InvalidResponseFormatError(
                    f"there is no response format of type {short_repr(unknown)}",
                    hint=f"Known are {', '.join(_FORMAT_TYPES)}, and JSON Schemas, whose types are "
                    f"{', '.join(sorted(_SCHEMA_TYPES))}.",
                )
        if fields and not fields.keys() & KEYWORD_NAMES:
            names = ", ".join(map(short_repr, list(fields)[:3]))
            raise InvalidResponseFormatError(
                f"the schema has no keyword of JSON Schema, only {names}",
                hint='Properties stand in {"type": "object", "properties": {...}}.',
            )
        return self._json(fields)

    def _json(self, schema: Any) -> ResponseFormat:
        if not isinstance(schema, Mapping | bool):
            raise InvalidResponseFormatError(
                f"a JSON Schema is an object or a boolean, not {type(schema).__name__}"
            )
        text = _json_key(schema, "the schema")
        key = ("schema", text, self.additional_properties)
        texts = self.sources() if f'"{SUBSTRING_OF}"' in text else {}

        def compile_schema() -> ResponseFormat:
            # A copy, since the caller may change the dict. Whitespace is fixed to that of
            # `json.dumps`: forced text is not sampled.
            machine = JsonSchemaStateMachine(
                json.loads(text),
                whitespace="spaced",
                sources=texts,
                additional_properties=self.additional_properties,
                excluding=self.excluding,
            )
            return _json_format(machine)

        if self.excluding:
            # Of one request alone.
            return self.job.run(compile_schema)
        if not texts:
            return self._cached(key, compile_schema)
        if sum(map(len, texts.values())) > _CACHED_CHARACTERS:
            return self.job.run(compile_schema)
        digests = [(name, _digest(source)) for name, source in sorted(texts.items())]
        response: ResponseFormat = self.quoting.get((*key, *digests), compile_schema, self.job)
        return response

    def _type(self, response_format: Any) -> ResponseFormat:
        # Deferred: free text has no type.
        from ..type_reader import type_reader  # noqa: PLC0415

        reader = type_reader(response_format, write_defaults=self.write_defaults)
        return replace(self._json(reader.schema), parse=type_parser(reader))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=20).digest()


def _json_format(machine: JsonSchemaStateMachine) -> ResponseFormat:
    """Return the format of one schema, with the reader of its quotes if it has quotes."""
    sources = machine.sources
    validator = JsonValidator(machine.schema, registry=machine.registry, sources=sources or None)
    response = ResponseFormat(machine, _checked(validator.read))
    if not sources:
        return response
    return replace(response, quotes=_checked(validator.quotes_in), sources=frozenset(sources))


def _json_key(value: JsonSchema, what: str) -> str:
    """Return the JSON text of a value; ``what`` names it in errors."""
    try:
        # Not sorted: properties are written in the schema's order.
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "A pydantic model, a dataclass or another type is a response format itself."
        raise InvalidResponseFormatError(f"{what} is not JSON: {error}", hint=hint) from error


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


def _checked(read: Callable[[str], T], hint: str = "") -> Callable[[str], T]:
    """Return a reader that raises ``OutputValidationError`` where an output violates a schema."""

    def read_output(text: str) -> T:
        try:
            return read(text)
        except (ValueError, RecursionError, jsonschema.ValidationError) as error:
            raise OutputValidationError(
                f"the output does not match the schema: {error}", text=text, hint=hint
            ) from error

    return read_output


def type_parser(reader: TypeReader[T], read: Callable[[str], str] = str) -> Callable[[str], T]:
    """Return the parser of a type's answers, whose validators may reject an output.

    Args:
        reader: The reader of the type.
        read: Returns the JSON text of the answer in an output.
    """
    gaps = ", ".join(map(str, reader.described.gaps))
    return _checked(
        lambda text: reader.read(read(text)),
        hint=f"Masks do not guarantee {gaps}. max_retries asks the model again." if gaps else "",
    )


def _refuse_extra_keys(fields: Mapping[str, Any], known: set[str]) -> None:
    extra = set(fields) - known
    if extra:
        kind = fields.get("type")
        what = "its 'json_schema'" if kind is None else f"a response format of type {kind!r}"
        raise InvalidResponseFormatError(
            f"{what} has no {', '.join(sorted(map(short_repr, extra)))}"
        )
