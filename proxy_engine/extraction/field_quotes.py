"""Quotes of fields: in the output, a quote of the record's text follows each property.

The schema of the output is the caller's schema, composed with a string behind each property.
``{"total": 12}`` becomes ``{"total": 12, "total_quote": "EUR 12"}``. Items of lists have quotes,
too: an object in a list has a quote for each property, and any other item is written as an object
of its value and its quote. References and the order of properties are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from state_machines import JsonSchemaStateMachine
from state_machines.grammar.quote_sources import find_quote
from state_machines.quotes import SUBSTRING_OF, source_names

from ..answers.response_format import Cached, OuterFormat, ResponseFormat, type_parser
from ..errors import InvalidOptionError
from ..results.parts import Quotation
from .json_values import encode, join_members, pointer_of, split_items, split_members
from .schemas import ANNOTATIONS, INPUT, definition, keywords_beside_references, with_definitions

if TYPE_CHECKING:
    from ..type_reader import TypeReader

SUFFIX = "_quote"
"""The name of a quote is its property's name with this suffix: ``total`` has ``total_quote``."""

_QUOTE, _VALUE = "quote", "value"
"""The members of the object that an item of a list is written as, with its quote."""

_MAX_CHARACTERS = 200
"""Length of a quote. Small models would copy whole texts."""

_MAX_NESTING = 3
"""Depth of objects in lists down to which they are composed. Definitions are copied to each place
that refers to them: without a bound, the size of the schema is exponential."""

_DEFINITIONS = {"$schema", "$id", "$comment", "$defs", "definitions"}
_OBJECT_KEYWORDS = (
    ANNOTATIONS
    | _DEFINITIONS
    | {"type", "properties", "required", "additionalProperties", "unevaluatedProperties"}
)
_LIST_KEYWORDS = ANNOTATIONS | _DEFINITIONS | {"type", "items", "minItems", "maxItems"}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_BESIDE_REFERENCES = ANNOTATIONS | _DEFINITIONS


@dataclass(frozen=True, slots=True)
class QuotedObject:
    """The quotes in an object.

    Attributes:
        names: The properties with a quote behind them.
        lists: The properties that are lists whose items have quotes.
    """

    names: tuple[str, ...]
    lists: Mapping[str, QuotedList]

    def answer_text(self, text: str) -> str:
        """Return an output without its quotes, as JSON."""
        members = split_members(text)
        for name in self.names:
            members.pop(name + SUFFIX, None)
        for name in self.lists.keys() & members.keys():
            members[name] = self.lists[name].answer_text(members[name])
        return join_members(members)

    def value(self, value: Any) -> Any:
        """Return a parsed output without its quotes."""
        added = {name + SUFFIX for name in self.names}
        return {
            name: self.lists[name].value(member) if name in self.lists else member
            for name, member in value.items()
            if name not in added
        }

    def quotes(self, value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
        """Yield the quotes of a parsed output, by the pointers of their values in the answer."""
        for name in self.names:
            if name + SUFFIX in value:
                yield pointer + pointer_of(name), value[name + SUFFIX]
        for name in self.lists.keys() & value.keys():
            yield from self.lists[name].quotes(value[name], pointer + pointer_of(name))

    def pointer(self, steps: Sequence[str]) -> str:
        """Return the pointer in the answer of a value in the output, or of the value of a quote."""
        if not steps:
            return ""
        for name in self.names:
            if steps[0] == pointer_of(name + SUFFIX)[1:]:
                return pointer_of(name)
        for name, items in self.lists.items():
            if steps[0] == pointer_of(name)[1:]:
                return pointer_of(name) + items.pointer(steps[1:])
        return "/" + "/".join(steps)


@dataclass(frozen=True, slots=True)
class QuotedList:
    """The quotes in a list.

    Attributes:
        items: The quotes in its items; ``None`` if each is in an object, with one quote.
    """

    items: QuotedObject | None

    def answer_text(self, text: str) -> str:
        """Return an output without its quotes, as JSON."""
        return f"[{', '.join(map(self.item_text, split_items(text)))}]"

    def item_text(self, text: str) -> str:
        """Return an item of an output without its quotes, as JSON."""
        return split_members(text)[_VALUE] if self.items is None else self.items.answer_text(text)

    def value(self, value: Any) -> Any:
        """Return a parsed output without its quotes."""
        return [item[_VALUE] if self.items is None else self.items.value(item) for item in value]

    def quotes(self, value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
        """Yield the quotes of a parsed output, by the pointers of their values in the answer."""
        for index, item in enumerate(value):
            if self.items is None:
                yield f"{pointer}/{index}", item[_QUOTE]
            else:
                yield from self.items.quotes(item, f"{pointer}/{index}")

    def pointer(self, steps: Sequence[str]) -> str:
        """Return the pointer in the answer of a value in the output, or of the value of a quote."""
        if not steps:
            return ""
        inner = steps[2:] if self.items is None else steps[1:]
        rest = "".join(f"/{step}" for step in inner)
        return f"/{steps[0]}{rest if self.items is None else self.items.pointer(inner)}"


QuoteLayout: TypeAlias = QuotedObject | QuotedList
"""Where the quotes of an output stand."""


@dataclass(frozen=True, slots=True)
class FieldQuotes(OuterFormat):
    """A response format in whose output a quote follows each property, or each item of a list.

    Attributes:
        response_format: The composed format, in the form of the caller's.
        reader: The reader of the answer's type; ``None`` for a JSON Schema.
        layout: Where the quotes stand. A value that is quoted from the text itself, or has such
            parts, needs no other quote.
    """

    response_format: Any
    reader: TypeReader[Any] | None
    layout: QuoteLayout

    @classmethod
    def of(cls, response_format: Any, reader: TypeReader[Any] | None, schema: Any) -> FieldQuotes:
        """Compose a response format.

        Args:
            response_format: The format of the caller.
            reader: The reader of its type.
            schema: Its JSON Schema.

        Raises:
            InvalidOptionError: It is neither an object with listed properties nor a list, it has
                keywords about other properties, refers to itself other than by a definition, or a
                property has the name of a quote.
        """
        if isinstance(response_format, JsonSchemaStateMachine):
            raise _refusal("a compiled state machine cannot be composed")
        if "#" in _references(schema):
            raise _refusal("a reference to the schema itself would lead to its quotes")
        found = _Composer(schema).list(schema) or _Composer(schema).object(schema)
        composed: Any = found[0]
        match response_format:
            case {"type": "json_schema", "json_schema": Mapping() as wrapped}:
                composed = {**response_format, "json_schema": {**wrapped, "schema": composed}}
        return cls(composed, reader, found[1])

    def around(self, inner: ResponseFormat, cached: Cached) -> ResponseFormat:
        """Return the format of the output; ``parsed`` is a value of the caller's format."""

        def value_in(text: str) -> Any:
            return self.layout.value(inner.parse(text))

        def quotes_in(text: str) -> tuple[Quotation, ...]:
            found = () if inner.quotes is None else inner.quotes(text)
            return tuple(
                replace(quote, pointer=self.answer_pointer(quote.pointer)) for quote in found
            )

        parse = None if self.reader is None else type_parser(self.reader, self.answer_text)
        return replace(inner, parse=parse or value_in, quotes=quotes_in)

    def answer_text(self, text: str) -> str:
        """Return an output without its quotes, as JSON."""
        return self.layout.answer_text(text)

    def answer_pointer(self, pointer: str) -> str:
        """Return the pointer in the answer of a value in the output, or of the value of a quote."""
        return self.layout.pointer(pointer.split("/")[1:])

    def columns(self, result: str) -> dict[str, str]:
        """Return the names of the columns with quotes, and the pointers of their values.

        Args:
            result: The column of answers that are lists.
        """
        if isinstance(self.layout, QuotedList):
            return {result + SUFFIX: ""}
        names = (*self.layout.names, *self.layout.lists)
        return {name + SUFFIX: pointer_of(name) for name in names}

    def cells(self, text: str, pointers: Mapping[str, str]) -> dict[str, str | None]:
        """Return the columns with the quotes of an output.

        The quotes of a list's items are a JSON object of them by pointer.

        Args:
            text: The output.
            pointers: The pointers of the columns' values, by the names of the columns.
        """
        quotes = dict(self.layout.quotes(json.loads(text)))
        return {
            column: quotes.get(pointer)
            if self._is_one(pointer)
            else encode({at: quote for at, quote in quotes.items() if at.startswith(f"{pointer}/")})
            for column, pointer in pointers.items()
        }

    def located(
        self, cells: Mapping[str, str | None], pointers: Mapping[str, str], source: str
    ) -> Sequence[Quotation]:
        """Return quotes at their first occurrences in their source.

        Args:
            cells: The columns that :meth:`cells` has returned.
            pointers: The pointers of the columns' values, by the names of the columns.
            source: The text of the record.
        """
        quotes: dict[str, str] = {}
        for column, pointer in pointers.items():
            cell = cells.get(column)
            if cell:
                quotes |= {pointer: cell} if self._is_one(pointer) else json.loads(cell)
        # A quote from a piece of the source may begin or end inside of a word.
        places = {
            at: find_quote(source, text, "words") or find_quote(source, text, "chars")
            for at, text in quotes.items()
            if text
        }
        return [
            Quotation(at, INPUT, place[0], place[0] + len(quotes[at]), place[1])
            for at, place in places.items()
            if place is not None
        ]

    def _is_one(self, pointer: str) -> bool:
        """Whether a column has one quote."""
        layout = self.layout
        return isinstance(layout, QuotedObject) and pointer in map(pointer_of, layout.names)


class _Composer:
    """Composes the parts of a schema with quotes.

    Args:
        root: The schema.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self._open: list[Any] = []
        """The objects that are being composed."""
        self._quoted: dict[int, bool] = {}
        """Whether parts of the schema have quotes, by identity. A part can stand in many places."""
        # The place of another reference may be composed.
        self._has_lists = all(
            reference.startswith(("#/$defs/", "#/definitions/")) for reference in _references(root)
        )

    def list(self, schema: Any) -> tuple[dict[str, Any], QuotedList] | None:
        """Return a list whose items have quotes; ``None`` if the schema is no such list."""
        target = definition(schema, self._root)
        is_list = isinstance(target, Mapping) and target.get("type") == "array"
        if not (self._has_lists and is_list and isinstance(target.get("items"), Mapping)):
            return None
        if target.keys() - _LIST_KEYWORDS or self._others(schema):
            return None
        try:
            items, layout = self.object(target["items"])
        except InvalidOptionError:
            if self._is_quoted(target["items"]):
                return None
            properties = {_VALUE: target["items"], _QUOTE: _quote()}
            required = [_VALUE, _QUOTE]
            items = {"type": "object", "properties": properties, "required": required}
            return {**target, **_siblings(schema), "items": items}, QuotedList(None)
        if not (layout.names or layout.lists):
            return None
        return {**target, **_siblings(schema), "items": items}, QuotedList(layout)

    def object(self, schema: Any) -> tuple[dict[str, Any], QuotedObject]:
        """Return an object with a quote behind each property.

        Raises:
            InvalidOptionError: Quotes cannot be added to its values.
        """
        target = definition(schema, self._root)
        is_object = isinstance(target, Mapping) and target.get("type") == "object"
        listed = target.get("properties") if is_object else None
        is_nested = len(self._open) > _MAX_NESTING or any(target is outer for outer in self._open)
        if not isinstance(listed, Mapping) or not listed or is_nested:
            raise _refusal("it is no object with properties, and no list")
        for keyword in sorted((target.keys() - _OBJECT_KEYWORDS) | self._others(schema)):
            if not keyword.startswith("x-"):
                raise _refusal(f"{keyword!r} could hold for the quotes, too")
        required = list(target.get("required", []))
        properties: dict[str, Any] = {}
        pairs: dict[str, list[str]] = {}
        names: list[str] = []
        lists: dict[str, QuotedList] = {}
        for name, member in listed.items():
            self._open.append(target)
            items = self.list(member)
            self._open.pop()
            if items is not None:
                properties[name], lists[name] = items
                continue
            properties[name] = member
            if not self._is_quoted(member):
                quote = name + SUFFIX
                if quote in listed:
                    raise _refusal(f"it has the properties {name!r} and {quote!r}")
                names.append(name)
                properties[quote] = _quote()
                if name in required:
                    required.append(quote)
                else:
                    pairs |= {name: [quote], quote: [name]}
        # Drafts before 2019-09 have one keyword for both kinds of dependencies.
        is_old = "/draft-0" in str(self._root.get("$schema", ""))
        paired = {"dependencies" if is_old else "dependentRequired": pairs} if pairs else {}
        composed = {**target, **_siblings(schema), "properties": properties, "required": required}
        return {**composed, **paired}, QuotedObject(tuple(names), lists)

    def _others(self, schema: Any) -> set[str]:
        """Return the constraints beside references."""
        return keywords_beside_references(schema, self._root) - _BESIDE_REFERENCES

    def _is_quoted(self, schema: Any) -> bool:
        """Whether a value is quoted from the text, or has such parts."""
        if id(schema) not in self._quoted:
            found = source_names(with_definitions(schema, self._root))
            self._quoted[id(schema)] = INPUT in found
        return self._quoted[id(schema)]


def _quote() -> dict[str, Any]:
    words = {"type": "string", SUBSTRING_OF: INPUT, "maxLength": _MAX_CHARACTERS}
    return {"anyOf": [words, {"const": ""}]}


def _siblings(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {keyword: value for keyword, value in schema.items() if keyword != "$ref"}


def _references(value: Any) -> Iterator[str]:
    """Yield the references of a schema, wherever they stand."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            # A property may have the name of a keyword.
            found = [value.get(keyword) for keyword in _REFERENCES]
            yield from (reference for reference in found if isinstance(reference, str))
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _refusal(reason: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"quotes cannot be added to answers of this schema: {reason}",
        option="quotes",
        hint="Give a pydantic model, a list, or a JSON Schema of an object with properties; or "
        "mark single strings with QuoteFrom('input').",
    )
