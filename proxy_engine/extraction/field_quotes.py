"""Quotes of fields: in the output, each property follows a quote of the record's text.

The schema of the output is that of the caller, composed with a string in front of each property.
Pointers to values, references and the order of properties are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from state_machines import JsonSchemaStateMachine
from state_machines.grammar.substring import find_quote
from state_machines.quotes import SUBSTRING_OF, source_names

from ..answers.response_format import Cached, OuterFormat, ResponseFormat, type_parser
from ..errors import InvalidOptionError
from ..results.parts import Quotation
from .json_values import join_members, pointer_of, split_members
from .schemas import ANNOTATIONS, INPUT, definition, with_definitions

if TYPE_CHECKING:
    import pydantic

SUFFIX = "_quote"
"""The name of a quote is that of its property with this suffix."""

_MAX_CHARACTERS = 200
"""Length of a quote. Small models would copy whole texts."""

_OBJECT_KEYWORDS = ANNOTATIONS | {
    *("type", "properties", "required", "additionalProperties", "unevaluatedProperties"),
    *("$schema", "$id", "$comment", "$defs", "definitions"),
}
_REFERRING_KEYWORDS = ANNOTATIONS | {"$ref", "$schema", "$id", "$comment", "$defs", "definitions"}


@dataclass(frozen=True, slots=True)
class FieldQuotes(OuterFormat):
    """A response format in whose output each property follows a quote.

    Attributes:
        response_format: The composed format, in the form of the caller's.
        adapter: The pydantic type of the answer; ``None`` for a JSON Schema.
        properties: The properties that have a quote. One that is quoted from the text itself, or
            has such parts, needs no other.
    """

    response_format: Any
    adapter: pydantic.TypeAdapter[Any] | None
    properties: tuple[str, ...]

    @classmethod
    def of(
        cls, response_format: Any, adapter: pydantic.TypeAdapter[Any] | None, schema: Any
    ) -> FieldQuotes:
        """Compose a response format.

        Args:
            response_format: The format of the caller.
            adapter: Its pydantic type.
            schema: Its JSON Schema.

        Raises:
            InvalidOptionError: It is no object with listed properties, it has keywords about
                other properties, or a property has the name of a quote.
        """
        if isinstance(response_format, JsonSchemaStateMachine):
            raise _refusal("a compiled state machine cannot be composed")
        listed = _listed_properties(schema)
        names = tuple(
            name
            for name, member in listed.items()
            if INPUT not in source_names(with_definitions(member, schema))
        )
        for name in names:
            if name + SUFFIX in listed:
                raise _refusal(f"it has the properties {name!r} and {name + SUFFIX!r}")
        composed: Any = _composed(schema, names)
        match response_format:
            case {"type": "json_schema", "json_schema": Mapping() as wrapped}:
                composed = {**response_format, "json_schema": {**wrapped, "schema": composed}}
        return cls(composed, adapter, names)

    def around(self, inner: ResponseFormat, cached: Cached) -> ResponseFormat:
        """Return the format of the output, whose ``parsed`` is that of the caller's format."""

        def value_in(text: str) -> Any:
            value = inner.parse(text)
            return {name: value[name] for name in value if name not in added}

        def quotes_in(text: str) -> tuple[Quotation, ...]:
            found = () if inner.quotes is None else inner.quotes(text)
            return tuple(
                replace(one, pointer=pointers.get(one.pointer, one.pointer)) for one in found
            )

        added = {name + SUFFIX for name in self.properties}
        pointers = {pointer_of(name + SUFFIX): pointer_of(name) for name in self.properties}
        parse = None if self.adapter is None else type_parser(self.adapter, self.answer_text)
        return replace(inner, parse=parse or value_in, quotes=quotes_in)

    def answer_text(self, text: str) -> str:
        """Return an output without its quotes, as JSON."""
        members = split_members(text)
        for name in self.properties:
            members.pop(name + SUFFIX, None)
        return join_members(members)

    def located(self, quotes: Mapping[str, str], source: str) -> Sequence[Quotation]:
        """Return quotes at their first occurrences in their source.

        Args:
            quotes: The quoted texts by property.
            source: The text of the record.
        """
        places = {name: find_quote(source, text, "words") for name, text in quotes.items() if text}
        return [
            Quotation(pointer_of(name), INPUT, place[0], place[0] + len(quotes[name]), place[1])
            for name, place in places.items()
            if place is not None
        ]


def _listed_properties(schema: Any) -> Mapping[str, Any]:
    """Return the properties of a schema.

    Raises:
        InvalidOptionError: Quotes cannot be added to its values.
    """
    target = definition(schema, schema)
    is_object = isinstance(target, Mapping) and target.get("type") == "object"
    properties = target.get("properties") if is_object else None
    if not isinstance(properties, Mapping) or not properties:
        raise _refusal("it is no object with properties")
    unknown = target.keys() - _OBJECT_KEYWORDS
    if target is not schema:
        unknown |= schema.keys() - _REFERRING_KEYWORDS
    for keyword in sorted(unknown):
        if not keyword.startswith("x-"):
            raise _refusal(f"{keyword!r} could hold for the quotes, too")
    return cast("Mapping[str, Any]", properties)


def _composed(schema: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a schema with a quote in front of each of the named properties."""
    target = definition(schema, schema)
    required = list(target.get("required", []))
    properties: dict[str, Any] = {}
    pairs: dict[str, list[str]] = {}
    for name, member in target["properties"].items():
        if name in names:
            quote = name + SUFFIX
            properties[quote] = {
                "anyOf": [
                    {"type": "string", SUBSTRING_OF: INPUT, "maxLength": _MAX_CHARACTERS},
                    {"const": ""},
                ],
            }
            if name in required:
                required.append(quote)
            else:
                pairs |= {name: [quote], quote: [name]}
        properties[name] = member
    # Drafts before 2019-09 have one keyword for both kinds of dependencies.
    is_old = "/draft-0" in str(schema.get("$schema", ""))
    paired = {"dependencies" if is_old else "dependentRequired": pairs} if pairs else {}
    outer = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    return {**target, **outer, "properties": properties, "required": required, **paired}


def _refusal(reason: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"quotes cannot be added to answers of this schema: {reason}",
        option="quotes",
        hint="Give a pydantic model, or a JSON Schema of an object with properties; or mark single "
        "strings with QuoteFrom('input').",
    )
