r"""The styles of a JSON schema other than ``json``: an object as tags of a model family.

Strings are raw, all other values JSON. Each style writes a member as
``before_name NAME after_name VALUE after_value``, with white space between members and around
values other than strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from state_machines.argument_notations.argument_compiler import (
    ArgumentCompiler,
    values_of,
    values_of_types,
)
from state_machines.argument_notations.cofl import CoflNotation
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.argument_notations.notation import NotationOptions, Schema
from state_machines.argument_notations.plain_members import PlainMembers
from state_machines.argument_notations.raw_text import texts_without
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.tokens import Spell
from state_machines.grammar.words import word_language
from state_machines.json_schema.closed_schema import closed_schema
from state_machines.json_schema.compiler import PropertyOrder
from state_machines.json_schema.terms import Term
from state_machines.json_schema.value_syntax import white_space
from state_machines.regex import compile_pattern
from state_machines.structural_tags.json_values import json_syntax


@dataclass(frozen=True)
class ArgumentStyle:
    """How one style writes the members of an object.

    Attributes:
        before_name: The text before a name.
        after_name: The text after a name; white space may follow each of its parts but the last.
        after_value: The text after a value, which no string contains.
        kinds: The text before a value by its JSON type, if it names the type. ``number`` is for
            integers, too.
        free_kinds: The same for further types of properties that the schema does not list.
        escapes: How the characters are written in names that are not written as they are.
    """

    before_name: str
    after_name: tuple[str, ...]
    after_value: str
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    free_kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    escapes: Mapping[str, str] = field(default_factory=dict, hash=False)


_NOT_STRINGS = ("null", "boolean", "number", "array", "object")


def _deepseek(space: str) -> ArgumentStyle:
    return ArgumentStyle(
        f'<｜DSML｜{space}parameter name="',
        ('" string="',),
        f"</｜DSML｜{space}parameter>",
        kinds={"string": 'true">', **dict.fromkeys(_NOT_STRINGS, 'false">')},
    )


STYLES = {
    "qwen_xml": ArgumentStyle("<parameter=", (">",), "</parameter>"),
    "minimax_xml": ArgumentStyle('<parameter name="', ('">',), "</parameter>"),
    "deepseek_xml": _deepseek(""),
    "deepseek_v4_1_xml": _deepseek(" "),
    "glm_xml": ArgumentStyle("<arg_key>", ("</arg_key>", "<arg_value>"), "</arg_value>"),
    "kimi_k3_xml": ArgumentStyle(
        '<|open|>argument key="',
        ('" type="',),
        "<|close|>argument<|sep|>",
        kinds={kind: f'{kind}"<|sep|>' for kind in ("string", *_NOT_STRINGS)},
        free_kinds={"integer": 'integer"<|sep|>'},
        escapes={"&": "&amp;", '"': "&quot;"},
    ),
}
"""The styles that write each member between two tags, with values in JSON."""

NESTED_STYLES = ("cohere_xml", "minimax_m3_xml")
"""The styles that write a tag for each member and item, at any depth."""

_NAMES = compile_pattern(r"^[^<>\"&\s]+$", search=True)


def argument_language(
    schema: Schema,
    style: str,
    *,
    any_order: bool,
    max_whitespace: int | None,
    excludes: Iterable[str],
) -> Callable[[Spell], Node]:
    """Return the function from the spelling of markers to the language of a schema's objects.

    Args:
        schema: The schema. Objects that list properties have no others, unless it says so.
        style: The style.
        any_order: Whether properties may come in any order.
        max_whitespace: The greatest number of consecutive white space characters.
        excludes: Texts that no string and no name contains.

    Raises:
        SchemaError: The schema is refused, or its values cannot be written.
    """
    if style not in NESTED_STYLES:
        return ArgumentLanguage(
            schema, style, any_order=any_order, max_whitespace=max_whitespace, excludes=excludes
        ).node
    order: PropertyOrder = "any" if any_order else "schema"
    closed, avoid = closed_schema(schema), tuple(excludes)
    cofl = CoflNotation(max_whitespace=max_whitespace)
    notation = cofl if style == "cohere_xml" else MINIMAX_M3_XML

    def compiled(spell: Spell) -> Node:
        return notation.compile(closed, avoid=avoid, spell=spell, property_order=order).node

    compiled(str.encode)
    return compiled


class ArgumentLanguage(ArgumentCompiler):
    """The language of one schema's objects in one of :data:`STYLES`.

    The arguments are those of :func:`argument_language`.
    """

    def __init__(
        self,
        schema: Schema,
        style: str,
        *,
        any_order: bool,
        max_whitespace: int | None,
        excludes: Iterable[str],
    ) -> None:
        options = NotationOptions(property_order="any" if any_order else "schema")
        super().__init__(closed_schema(schema), options, json_syntax(max_whitespace))
        self._style = STYLES[style]
        self._space = white_space(max_whitespace)
        texts = texts_without((self._style.after_value, *excludes))
        values = values_of(texts, texts)
        names = _NAMES
        if self._style.escapes:
            # Only listed names are escaped.
            names = union((names, word_language(filter(_has_no_tag, self.property_values))))
        self._restricted = self.restrict(
            lambda _: values, intersection((names, texts)), values, f"the style {style!r}"
        )

    def node(self, spell: Spell) -> Node:
        """Return the language, with markers as ``spell`` writes them."""
        members = _Members(self._style, self._space, spell)
        node = self.object_node(
            self._restricted, members, lambda term, name: self._value_node(term, name, spell)
        )
        return concatenation(node, self._space)

    def _value_node(self, term: Term, name: str | None, spell: Spell) -> Node:
        kinds = dict(self._style.kinds)
        if name is None:
            kinds.update(self._style.free_kinds)
        if not kinds:
            return union((self._strings(term), self._others(term)))
        table, nodes = self.compilation.table, []
        for text in dict.fromkeys(kinds.values()):
            types = [each for each, before in kinds.items() if before == text]
            some = table.all_of((term, table.evaluated(values_of_types(types))))
            node = self._strings(some) if types == ["string"] else self._others(some)
            if node is not EMPTY:
                nodes.append(concatenation(literal(spell(text)), node))
        return union(nodes)

    def _strings(self, term: Term) -> Node:
        return encoded(self.evaluator.values(term).strings, RAW)

    def _others(self, term: Term) -> Node:
        others = self.translator.others_without(term, (), 1)
        return others if others is EMPTY else concatenation(self._space, others, self._space)


def _has_no_tag(name: str) -> bool:
    return bool(name) and not set(name) & {"<", ">"}


class _Members(PlainMembers):
    def __init__(self, style: ArgumentStyle, space: Node, spell: Spell) -> None:
        self._escapes = str.maketrans(dict(style.escapes))
        self._characters = {text: letter for letter, text in style.escapes.items()}
        first, *others = (spell(text) for text in style.after_name)
        between = (part for text in others for part in (space, literal(text)))
        # No name contains the first byte of the text after it, so a name ends there.
        super().__init__(
            first[:1],
            before_name=concatenation(space, literal(spell(style.before_name))),
            after_name=concatenation(literal(first[1:]), *between),
            after_value=literal(spell(style.after_value)),
        )

    def spellings(self, name: str) -> Iterable[bytes]:
        """Return the name and the byte that ends it."""
        return super().spellings(name.translate(self._escapes))

    def read_name(self, text: bytes) -> str:
        """Return the name of a spelling."""
        name = super().read_name(text)
        for written, letter in reversed(self._characters.items()):
            name = name.replace(written, letter)
        return name
