r"""Arguments as nested elements: each member and each item between two tags.

A closing tag repeats the name of its member, so only names that the schema lists are written. The
text of an element has no type. Its value is read by the types that the schema admits at its place;
texts that would be read as another value are excluded, and so are values without a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

from state_machines.argument_notations.argument_compiler import ArgumentCompiler
from state_machines.argument_notations.notation import (
    CompiledArguments,
    Notation,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.property_names import PropertyNames, property_pointer
from state_machines.argument_notations.raw_text import (
    NO_LITERAL,
    NOT_NULL,
    PlainMembers,
    texts_without,
)
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import concatenation, literal
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.array_shape import ArrayShape
from state_machines.json_schema.algebra.names import listed_names
from state_machines.json_schema.algebra.object_shape import NO_OTHER_NAMES, ObjectShape
from state_machines.json_schema.algebra.terms import FALSE, Evaluated, Term
from state_machines.json_schema.algebra.value_sets import ANY_TEXT, ANY_VALUE, ValueSet
from state_machines.json_schema.emptiness.evaluation import generated, is_empty
from state_machines.json_schema.grammar.value_syntax import (
    WHITESPACE_LAYOUTS,
    ItemSyntax,
    ValueSyntax,
    WhitespaceLayout,
)
from state_machines.regex import compile_pattern

Element: TypeAlias = "str | list[tuple[str, Element]]"
"""The text of an element, or its members by name."""

MAX_ELEMENT_DEPTH = 128
"""Nesting above which a text is refused; vLLM's parser has the same bound."""

_NO_LITERAL_NAME = compile_pattern(r"^(?!\s*(true|false|null)\s*$)[^]*$", search=True)
# Python reads digits of other alphabets as numbers.
_AMONG_OTHERS = intersection((NO_LITERAL, NOT_NULL, compile_pattern(r"^[\x21-\x7e]", search=True)))


@dataclass(frozen=True)
class NestedNotation(Notation):
    """Members as ``mark<NAME> VALUE mark</NAME>``, items of arrays as members of one name.

    Strings are raw, numbers and literal names as in JSON. An empty array or object is an empty
    element.

    Attributes:
        mark: The text before each tag, which no string contains. It may be a special token.
        item: The name of an array's items.
    """

    name: str
    mark: str
    item: str = "item"
    renames_nested: ClassVar[bool] = True

    def can_write_name(self, name: str) -> bool:
        """Return whether a name can be written as the name of a tag."""
        return bool(name) and name[0] != "/" and name == name.strip() and not set(name) & {"<", ">"}

    @property
    def writes_plain(self) -> bool:
        """``False``: a value is written only if its text determines its type."""
        return False

    def write(self, arguments: Mapping[str, Any]) -> str:
        """Return the members as elements."""
        return "".join(self._element(name, value) for name, value in arguments.items())

    def _element(self, name: str, value: Any) -> str:
        if isinstance(value, Mapping):
            content = self.write(value)
        elif isinstance(value, list):
            content = "".join(self._element(self.item, each) for each in value)
        else:
            content = value if isinstance(value, str) else json.dumps(value)
        return f"{self.opening(name)}{content}{self.closing(name)}"

    def opening(self, name: str) -> str:
        """Return the tag before a value."""
        return f"{self.mark}<{name}>"

    def closing(self, name: str) -> str:
        """Return the tag after a value."""
        return f"{self.mark}</{name}>"

    def end(self, text: str, start: int) -> int:
        """Return the position after the last element; see :meth:`Notation.end`."""
        return self.elements(text, start)[1]

    def elements(self, text: str, at: int, depth: int = 1) -> tuple[list[tuple[str, Element]], int]:
        """Return the elements from a position on, and the position after the last one.

        Raises:
            ValueError: An element does not end, or the elements are nested too deeply.
        """
        if depth > MAX_ELEMENT_DEPTH:
            raise ValueError("nested too deeply")
        found: list[tuple[str, Element]] = []
        begin = f"{self.mark}<"
        while text.startswith(begin, at) and not text.startswith("/", at + len(begin)):
            start = at + len(begin)
            end_of_name = text.find(">", start)
            if end_of_name < 0:
                raise ValueError("a tag does not end")
            name = text[start:end_of_name]
            element, at = self._read_element(text, end_of_name + 1, name, depth)
            found.append((name, element))
        return found, at

    def _read_element(self, text: str, at: int, name: str, depth: int) -> tuple[Element, int]:
        closing = self.closing(name)
        mark = text.find(self.mark, at)
        content: Element = text[at:mark]
        if mark >= 0 and not text.startswith(closing, mark):
            content, end = self.elements(text, mark, depth + 1)
            mark = -1 if text[at:mark].strip() or not content else end
        if mark < 0 or not text.startswith(closing, mark):
            raise ValueError(f"the element {name!r} does not end")
        return content, mark + len(closing)

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        compiler = _NestedCompiler(self, schema, options)
        return compiler.compiled(compiler.writable_term(), compiler.read)


class _NestedSyntax(ValueSyntax):
    """The content of elements."""

    quotes_strings = False

    def __init__(self, notation: NestedNotation, spell: Spell, names: PropertyNames) -> None:
        super().__init__(WHITESPACE_LAYOUTS["compact"])

        def spelled(text: str) -> Node:
            return literal(spell(notation.mark) + text.removeprefix(notation.mark).encode())

        self.members = PlainMembers(
            b">",
            before_name=spelled(f"{notation.mark}<"),
            after_value=lambda name: spelled(notation.closing(names.write(name or ""))),
            aliases=names,
        )
        opening = spelled(notation.opening(notation.item))
        closing = spelled(notation.closing(notation.item))
        between = concatenation(closing, opening)
        tags = WhitespaceLayout(comma=between, opening=opening, closing=closing)
        self.items = ItemSyntax(tags, EPSILON, EPSILON)

    def string(self, texts: Node) -> Node:
        """Return strings as they are."""
        return encoded(texts, RAW)


class _NestedCompiler(ArgumentCompiler):
    """Compiles and reads the arguments of one schema."""

    def __init__(self, notation: NestedNotation, schema: Schema, options: NotationOptions) -> None:
        names = notation.property_names(schema)
        super().__init__(schema, options, _NestedSyntax(notation, options.spell, names), names)
        self._notation = notation
        self._title = f"the notation {notation.name!r}"
        self._texts = texts_without((notation.mark, *options.avoid))
        self._written: dict[tuple[Term, Term], Evaluated] = {}
        self._refused: dict[tuple[str, ...], UnsupportedSchemaError] = {}

    def writable_term(self) -> Term:
        """Return the arguments that can be written."""
        with self.compilation.bounded(self.term):
            term = self._writable(self.term, self.term, ())
            values = generated(self.context, term)
            for name in self.property_values:
                terms = [shape.value_of(name, self.terms) for shape in values.objects]
                if all(is_empty(self.context, each) for each in terms):
                    self._refuse((name,), values)
            self.left_out += self._refused.values()
            if self.left_out and is_empty(self.context, term):
                raise self._cause(values)
            self.compilation.check(term, f"no arguments of the schema fit {self._title}")
            return term

    def _refuse(self, path: tuple[str, ...], found: ValueSet, keyword: str = "properties") -> None:
        """Record that a property cannot be written.

        Args:
            path: The names of the property and those above it; the arguments have none.
            found: Its values that can be written.
            keyword: The keyword that cannot be satisfied.
        """
        what = "some values" if found.has_scalar or found.arrays or found.objects else "any value"
        if keyword == "uniqueItems":
            what = "the arrays of different items"
        error = UnsupportedSchemaError(
            f"{self._title} cannot write {what} of the property {path[-1]!r}",
            pointer=property_pointer(self._schema, path[-1]),
            keyword=keyword,
            hint="Objects have the properties that their schema lists; a value has the types of "
            "its schema, and not both array and object",
        )
        self._refused.setdefault(path, error)

    def _cause(self, values: ValueSet) -> UnsupportedSchemaError:
        """Return the error of a property without which there are no arguments."""
        required = {name for shape in values.objects for name in shape.required}
        return next(
            (error for path, error in self._refused.items() if path[0] in required),
            self.left_out[0],
        )

    def _writable(self, term: Term, read_as: Term, path: tuple[str, ...]) -> Evaluated:
        """Return the values of a term that are read as themselves.

        Args:
            term: The values.
            read_as: All values that the schema admits at this place. They determine the reading.
            path: The names of the properties above.
        """
        known = self._written.get((term, read_as))
        if known is not None:
            return known
        found = self._written[term, read_as] = Evaluated(ANY_VALUE)
        values, readings = generated(self.context, term), generated(self.context, read_as)
        # Terms of recursive schemas contain themselves.
        object.__setattr__(found, "values", self._writable_values(values, readings, path))
        return found

    def _writable_values(
        self, values: ValueSet, readings: ValueSet, path: tuple[str, ...]
    ) -> ValueSet:
        if is_untyped(readings):
            return ValueSet(strings=intersection((values.strings, self._texts, _NO_LITERAL_NAME)))
        scalars = readings.booleans or not readings.numbers.is_empty
        has_containers = bool(readings.arrays or readings.objects)
        strings = [values.strings, self._texts]
        if scalars or has_containers:
            strings.append(_AMONG_OTHERS)
        elif readings.null:
            strings.append(NOT_NULL)
        found = replace(values, strings=intersection(strings), arrays=(), objects=())
        if readings.arrays and readings.objects:
            if path and not found.has_scalar:
                self._refuse(path, found)
            return found
        # An empty text is a string where strings are admitted.
        least = 0 if readings.strings.is_empty else 1
        unique = [shape for shape in values.arrays if _compares_items(shape)]
        is_open = [shape for shape in values.objects if path and _is_open(shape)]
        arrays = (shape for shape in values.arrays if shape not in unique)
        objects = (shape for shape in values.objects if shape not in is_open)
        found = replace(
            found,
            arrays=tuple(self._array(each, readings, least, path) for each in arrays),
            objects=tuple(self._object(each, readings, least, path) for each in objects),
        )
        if path and (unique or is_open):
            self._refuse(path, found, "uniqueItems" if unique else "properties")
        return found

    def _array(
        self, shape: ArrayShape, readings: ValueSet, least: int, path: tuple[str, ...]
    ) -> ArrayShape:
        table = self.terms

        def item(index: int) -> Evaluated:
            read_as = table.any_of(each.item(index) for each in readings.arrays)
            return self._writable(shape.item(index), read_as, path)

        width = max(len(each.prefix) for each in readings.arrays)
        return replace(
            shape,
            unique=False,
            prefix=tuple(map(item, range(width))),
            rest=item(width),
            min_items=max(shape.min_items, least),
        )

    def _object(
        self, shape: ObjectShape, readings: ValueSet, least: int, path: tuple[str, ...]
    ) -> ObjectShape:
        table, names = self.terms, listed_names(shape)

        def value(name: str) -> Evaluated:
            read_as = table.any_of(each.value_of(name, table) for each in readings.objects)
            return self._writable(shape.value_of(name, table), read_as, (*path, name))

        return replace(
            shape,
            properties={name: value(name) for name in names},
            name_rules=NO_OTHER_NAMES,
            min_members=max(shape.min_members, least),
        )

    def read(self, text: str) -> dict[str, Any]:
        """Return the arguments of a text; raise ``ValueError`` for any other text."""
        members, end = self._notation.elements(text, 0)
        if end != len(text):
            raise ValueError(f"no element: {text[end : end + 40]!r}")
        with self.compilation.bounded(self.term):
            return self._read_object(members, generated(self.context, self.term))

    def _read_object(
        self, members: Iterable[tuple[str, Element]], values: ValueSet
    ) -> dict[str, Any]:
        table, found = self.terms, {}
        for written, element in members:
            name = self.names.read(written)
            if name in found:
                raise ValueError(f"{name!r} is written twice")
            term = table.any_of(shape.value_of(name, table) for shape in values.objects)
            found[name] = self._read_value(element, term)
        return found

    def _read_value(self, element: Element, term: Term) -> Any:
        values = generated(self.context, term)
        if isinstance(element, str):
            return element if is_untyped(values) else _read_text(element, values)
        items = all(name == self._notation.item for name, _ in element)
        if values.arrays and (items or not values.objects):
            if not items:
                raise ValueError("an array has an element that is no item")
            table = self.terms
            terms = (
                table.any_of(shape.item(index) for shape in values.arrays)
                for index in range(len(element))
            )
            return [self._read_value(each, t) for (_, each), t in zip(element, terms, strict=True)]
        if not values.objects:
            raise ValueError("elements in a value that is no array or object")
        return self._read_object(element, values)


def is_untyped(values: ValueSet) -> bool:
    """Whether a schema says nothing about the type. Such values are strings for parsers."""
    return (
        values.null
        and values.booleans == ANY_VALUE.booleans
        and not values.numbers.is_empty
        and not values.strings.is_empty
        and bool(values.arrays)
        and bool(values.objects)
    )


def _compares_items(shape: ArrayShape) -> bool:
    """Whether an array may have two items, which must differ."""
    return shape.unique and (shape.max_items is None or shape.max_items > 1)


def _is_open(shape: ObjectShape) -> bool:
    """Whether an object has members, and the schema lists none of them."""
    is_closed = any(rule.names is ANY_TEXT and rule.term is FALSE for rule in shape.name_rules)
    return not (listed_names(shape) or shape.max_members == 0 or is_closed)


def _read_text(text: str, values: ValueSet) -> Any:
    if values.null and text.lower() == "null":
        return None
    if values.booleans and text in ("true", "false"):
        return text == "true"
    if not values.numbers.is_empty and text[:1] in "-0123456789" and text:
        try:
            return json.loads(text)
        except ValueError:
            if values.strings.is_empty:
                raise
    if not values.strings.is_empty:
        return text
    if text:
        raise ValueError(f"no value of the schema: {text[:40]!r}")
    if values.arrays:
        return []
    if values.objects:
        return {}
    raise ValueError("an empty element")


MINIMAX_M3_XML = NestedNotation("minimax-m3", mark="]<]minimax[>[")
"""MiniMax M3."""
