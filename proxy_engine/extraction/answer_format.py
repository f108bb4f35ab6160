"""Answers as values of the caller's type, as JSON, and as columns of a table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import jsonschema
import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from state_machines import JsonSchemaStateMachine, StateMachine
from state_machines.quotes import source_names

from ..errors import InvalidOptionError, InvalidResponseFormatError
from ..text_formats import TextFormat
from ..type_reader import TypeReader, type_reader
from ..validation import JsonValidator
from .details import NO_DETAILS, RESULT, DetailColumns, Details
from .field_quotes import FieldQuotes
from .json_values import encode, join_members, jsonable, pointer_of, split_members
from .schemas import INPUT, closed_schema, known_properties, written_form

if TYPE_CHECKING:
    from ..results.generation import GenerationResult
    from ..results.parts import Quotation

ERROR = "error"
"""The column of errors."""
OTHERS = "additional_properties"
"""The column of properties that the schema allows and does not name."""
_NO_OBJECT = "a serializer has written no object, and the columns are properties"


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """A response format, and the columns of its answers.

    Attributes:
        response_format: As the engine takes it.
        reader: The reader of a type; ``None`` for a JSON Schema or a state machine.
        schema: The JSON Schema; ``None`` for answers that are no JSON.
        column_schema: The schema of the columns: in generated answers, objects that list properties
            have no others.
        properties: The properties of the answers, each with the form of its dates and times as
            prompts name it; empty if the answers are not all objects with known properties.
        is_open: Whether answers can have other properties.
        prefix: The text before the names of columns.
        details: The columns about the generation of answers.
        field_quotes: The quotes of properties, which outputs have in addition to the answers.
    """

    response_format: Any
    reader: TypeReader[Any] | None
    schema: Any
    column_schema: Any
    properties: Mapping[str, str]
    is_open: bool
    prefix: str = ""
    details: Details = NO_DETAILS
    field_quotes: FieldQuotes | None = None

    @classmethod
    def of(
        cls,
        response_format: Any,
        prefix: str = "",
        options: Mapping[str, Any] | None = None,
        columns: Sequence[DetailColumns] = (),
        *,
        quotes: bool = False,
    ) -> AnswerFormat:
        """Read a response format.

        Args:
            response_format: The response format.
            prefix: The text before the names of columns.
            options: The options of the requests.
            columns: The groups of columns about the generation of answers.
            quotes: Whether a quote from the text of the record follows each property.

        Raises:
            InvalidResponseFormatError: It is free text, or of no kind that ``generate`` accepts.
            InvalidOptionError: There are no such columns, or the properties cannot have quotes.
        """
        write_defaults = (options or {}).get("write_defaults", True)
        reader, schema = _reader_and_schema(response_format, write_defaults=write_defaults)
        is_open = (options or {}).get("additional_properties") == "schema"
        closes = not (is_open or isinstance(response_format, JsonSchemaStateMachine))
        column_schema = closed_schema(schema) if closes else schema
        found = None if schema is None else known_properties(column_schema, column_schema)
        names, is_open = found or ({}, False)
        pointers = {prefix + name: pointer_of(name) for name in names}
        field_quotes = None
        if quotes:
            if INPUT in ((options or {}).get("sources") or {}):
                raise InvalidOptionError(
                    f"the quotes of fields are from the text of the record, and sources gives "
                    f"another {INPUT!r}",
                    option="quotes",
                )
            field_quotes = FieldQuotes.of(response_format, reader, schema)
            response_format = field_quotes
        details = Details.of(columns, pointers or {prefix + RESULT: ""}, prefix, field_quotes)
        return cls(
            response_format,
            reader,
            schema,
            column_schema,
            {name: written_form(part, column_schema) for name, part in names.items()},
            is_open,
            prefix,
            details,
            field_quotes,
        )

    @property
    def has_quotes(self) -> bool:
        """Whether answers are quoted from sources."""
        return self.field_quotes is not None or bool(source_names(self.schema))

    @property
    def quotes_input(self) -> bool:
        """Whether answers are quoted from the text of their record."""
        return self.field_quotes is not None or INPUT in source_names(self.schema)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of answers: a column for each property, or a single column."""
        if not self.properties:
            return (self.prefix + RESULT,)
        names = (*self.properties, *((OTHERS,) if self.is_open else ()))
        return tuple(self.prefix + name for name in names)

    @property
    def added_columns(self) -> tuple[str, ...]:
        """All columns that an extraction adds to the fields of records."""
        return (*self.columns, *self.details.types, self.prefix + ERROR)

    def check_columns(self, names: Iterable[str], *, has_error: bool = True) -> None:
        """Raise ``InvalidOptionError`` if fields of the records have names of columns.

        Args:
            names: The names of the fields.
            has_error: Whether there is a column of errors.
        """
        added = self.added_columns if has_error else self.added_columns[:-1]
        twice = {name for name in added if added.count(name) > 1}
        collisions = sorted(twice | (set(added) & set(names)))
        if collisions:
            shown = ", ".join(map(repr, collisions))
            raise InvalidOptionError(
                f"the output would have two columns of the name {shown}",
                option="prefix",
                hint="Give the result's columns other names, such as those of prefix='result_'.",
            )

    def answer_text(self, result: GenerationResult[Any]) -> str:
        """Return the answer of the model as JSON in one line, without quotes of properties."""
        if self.schema is None:
            return encode(result.text)
        quotes = self.field_quotes
        text = result.text if quotes is None else quotes.answer_text(result.text)
        # Line breaks occur only between JSON tokens, where a space is equivalent.
        return text.replace("\n", " ")

    def json_text(self, result: GenerationResult[Any]) -> str:
        """Return an answer as JSON in one line.

        The answer to a JSON Schema is the model's text. A value of a type is written by its
        library, since validators may have changed it.
        """
        return self.answer_text(result) if self.reader is None else self.written(result.parsed)

    def written(self, value: Any) -> str:
        """Return a parsed answer as JSON in one line.

        A validator may return NaN or an infinity, which pydantic writes as null, and objects that
        pydantic cannot write; they are written as ``str`` does.

        Raises:
            ValueError: A serializer of the type raised an exception.
        """
        if self.reader is None:
            return encode(value)
        try:
            named = self._named(value, mode="json")
        except PydanticSerializationError:
            named = self._named(value, mode="python")
        return encode(jsonable(named))

    def quotations(
        self, text: str, sources: Mapping[str, str], details: Mapping[str, Any]
    ) -> tuple[Quotation, ...]:
        """Return where the quotes of an answer first occur in their sources.

        None of the quotes in the answer itself if the sources have changed.

        Args:
            text: The answer that :meth:`answer_text` has returned.
            sources: The texts that strings are quoted from, by name.
            details: The columns about its generation, with the quotes of properties.
        """
        found: tuple[Quotation, ...] = ()
        if source_names(self.schema):
            validator = JsonValidator(self.schema, sources=sources)
            with contextlib.suppress(ValueError, RecursionError, jsonschema.ValidationError):
                found = validator.quotes_in(text)
        if self.field_quotes is None:
            return found
        quoted = self.field_quotes.located(details, self.details.quoted, sources[INPUT])
        return (*quoted, *found)

    def plain(self, value: Any) -> Any:
        """Return a parsed answer as dicts, lists and scalars, among them dates and decimals.

        Raises:
            ValueError: As :meth:`written`.
        """
        return _plain(value if self.reader is None else self._named(value, mode="python"))

    def split(self, text: str) -> dict[str, str]:
        """Return the columns of an answer that is a JSON text, as JSON texts.

        Raises:
            ValueError: A serializer has written no object, and the schema is that of objects.
        """
        if not self.properties:
            return {self.prefix + RESULT: text}
        if not text.lstrip().startswith("{"):
            raise ValueError(_NO_OBJECT)
        members = split_members(text)
        known = self._known
        columns = {self.prefix + name: text for name, text in members.items() if name in known}
        others = {name: text for name, text in members.items() if name not in known}
        return {**columns, self.prefix + OTHERS: join_members(others)} if others else columns

    def cells(self, value: Any) -> dict[str, Any]:
        """Return the columns of an answer that :meth:`plain` has returned.

        Raises:
            ValueError: As :meth:`split`.
        """
        if not self.properties:
            return {self.prefix + RESULT: value}
        if not isinstance(value, Mapping):
            raise ValueError(_NO_OBJECT)
        others = {name: value[name] for name in value if name not in self._known}
        cells = {self.prefix + name: value[name] for name in self.properties if name in value}
        return {**cells, self.prefix + OTHERS: others} if others else cells

    def join(self, columns: Mapping[str, Any]) -> Any:
        """Return the JSON value whose columns :meth:`split` has returned, parsed."""
        if not self.properties:
            return columns[self.prefix + RESULT]
        named = {
            name: columns[self.prefix + name]
            for name in self.properties
            if self.prefix + name in columns
        }
        return {**named, **columns.get(self.prefix + OTHERS, {})}

    def parse(self, text: str) -> Any:
        """Return the parsed answer of a text that :meth:`answer_text` has returned.

        Raises:
            ValueError: A validator of the type rejects it.
        """
        return json.loads(text) if self.reader is None else self.reader.read(text)

    def output_value(self, text: str) -> Any:
        """Return the parsed answer of an output, which may have quotes; raise as :meth:`parse`."""
        quotes = self.field_quotes
        return self.parse(text if quotes is None else quotes.answer_text(text))

    @property
    def _known(self) -> frozenset[str]:
        return frozenset(self.properties)

    def _named(self, value: Any, *, mode: Any) -> Any:
        """Return a value of the type as its library writes it, with the schema's names."""
        assert self.reader is not None
        try:
            written = self.reader.dump(value, mode)
        except ValueError:
            raise
        except Exception as error:
            # The caller's code may raise anything.
            raise ValueError(f"a serializer raised {type(error).__name__}: {error}") from error
        if not self.properties or not isinstance(written, dict):
            return written
        names = _names_of_fields(value)
        renamed = {names.get(name, name): member for name, member in written.items()}
        # Computed fields are no properties.
        return {
            name: member for name, member in renamed.items() if self.is_open or name in self._known
        }


def _reader_and_schema(given: Any, *, write_defaults: bool) -> tuple[TypeReader[Any] | None, Any]:
    match given:
        case JsonSchemaStateMachine():
            return None, given.schema
        case None | {"type": "text"}:
            raise InvalidResponseFormatError(
                "an extraction needs a response format",
                hint="Give a pydantic model, another type, a JSON Schema, or a Choice, Regex, Lark "
                "or GBNF.",
            )
        case StateMachine() | TextFormat() | {"type": "grammar" | "structural_tag"}:
            return None, None
        case {"type": "json_object"}:
            return None, {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return None, schema
        case bool() | Mapping():
            return None, given
    reader = type_reader(given, write_defaults=write_defaults)
    return reader, reader.schema


def _names_of_fields(value: Any) -> dict[str, str]:
    """Return the names in the schema by the names that pydantic writes, where they differ."""
    names = {}
    # Models and dataclasses of pydantic have this attribute.
    fields: Mapping[str, FieldInfo] = getattr(type(value), "__pydantic_fields__", {})
    for name, field in fields.items():
        alias = field.validation_alias
        if isinstance(alias, pydantic.AliasChoices):
            alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
        written = field.serialization_alias or field.alias or name
        names[written] = alias if isinstance(alias, str) else field.alias or name
    return names


_KEPT: tuple[type, ...] = (bool, int, float, str, bytes)
_KEPT_MODULES = ("datetime", "decimal")


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or type(value) in _KEPT or type(value).__module__ in _KEPT_MODULES:
        return value
    if isinstance(value, Mapping):
        return {str(_plain(name)): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(member) for member in value]
    return jsonable(value)
