r"""The styles in which a structural tag writes the values of a JSON schema.

``json`` writes a JSON text. The other styles are those of model families: an object as tags, with
strings as they are, all other values in JSON, and white space between members and around values
other than strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from state_machines.argument_notations import Notation, NotationOptions, tag_styles
from state_machines.argument_notations.argument_compiler import (
    ArgumentCompiler,
    values_of,
)
from state_machines.argument_notations.cofl import CoflNotation
from state_machines.argument_notations.nested import MINIMAX_M3_XML
from state_machines.argument_notations.raw_text import PlainMembers, texts_without
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import concatenation, literal, union
from state_machines.grammar.text_languages import word_language
from state_machines.grammar.tokens import Spell
from state_machines.json_schema.algebra.terms import Term
from state_machines.json_schema.emptiness.evaluation import generated
from state_machines.json_schema.grammar.value_syntax import (
    JSON_SYNTAXES,
    ValueSyntax,
    WhitespaceLayout,
    white_space,
)
from state_machines.json_schema.machine import Compilation, PropertyOrder
from state_machines.json_schema.reader.dialects import SchemaOptions
from state_machines.machine import StateMachine
from state_machines.regex import compile_pattern

_TAGGED_STYLES = {
    "qwen_xml": tag_styles.QWEN_CODER,
    "minimax_xml": tag_styles.MINIMAX,
    "deepseek_xml": tag_styles.DSML,
    "deepseek_v4_1_xml": tag_styles.DSML_V4_1,
    "glm_xml": tag_styles.GLM,
    "kimi_k3_xml": tag_styles.XTML,
}
"""The styles with the tags of a notation, and any white space where the notation has some."""

STYLE_NAMES = (*_TAGGED_STYLES, "cohere_xml", "minimax_m3_xml")

# Kimi K3 escapes names, and calls an integer that no property describes an integer.
_ESCAPES = {"kimi_k3_xml": (("&", "&amp;"), ('"', "&quot;"))}
_MORE_KINDS = {"kimi_k3_xml": {"integer": 'integer"<|sep|>'}}

_NAMES = compile_pattern(r"^[^<>\"&\s]+$", search=True)


def _json_syntax(max_whitespace: int | None) -> ValueSyntax:
    """Return the syntax of JSON with a bound on consecutive white space."""
    if max_whitespace is None:
        return JSON_SYNTAXES["json"]
    if max_whitespace == 0:
        return JSON_SYNTAXES["compact"]
    run = white_space(max_whitespace)
    colon, comma = (concatenation(run, literal(mark), run) for mark in (b":", b","))
    return ValueSyntax(WhitespaceLayout(colon, comma, run, run), plain_integers=False)


def json_machine(
    schema: Any,
    order: PropertyOrder = "schema",
    max_whitespace: int | None = None,
    excludes: Iterable[str] = (),
) -> StateMachine:
    """Return the machine of the JSON texts of a schema.

    Args:
        schema: The schema. Objects that list properties, and arrays that list items, have no others
            unless the schema says so.
        order: The order of properties.
        max_whitespace: The greatest number of consecutive white space characters; ``None`` for
            an optional space after ``,`` and ``:``.
        excludes: Texts that no string and no name contains.

    Raises:
        SchemaError: As for :class:`~state_machines.json_schema.JsonSchemaStateMachine`.
    """
    compilation = Compilation(
        schema, SchemaOptions(additional_properties="closed", closes_arrays=True)
    )
    translator = compilation.translator(_json_syntax(max_whitespace), order)
    term = compilation.term
    if excludes:
        texts = texts_without(excludes)
        term = compilation.context.terms.all_of((term, values_of(texts, texts)))
    with compilation.bounded(term):
        compilation.check(term, "no JSON value satisfies the schema")
        return StateMachine(translator.value(term), translator.forget)


def style_language(
    schema: Any,
    style: str,
    order: PropertyOrder,
    max_whitespace: int | None,
    excludes: Iterable[str],
) -> Callable[[Spell], Node]:
    """Return the function from the spelling of markers to the language of a schema's objects.

    The arguments are those of :func:`json_machine`; ``style`` is one of :data:`STYLE_NAMES`.

    Raises:
        SchemaError: The schema is refused, or its values cannot be written.
    """
    avoid = tuple(excludes)
    if style in _TAGGED_STYLES:
        return _tagged_style(schema, style, order, max_whitespace, avoid)
    cofl: Notation = CoflNotation(max_whitespace=max_whitespace)
    notation = cofl if style == "cohere_xml" else MINIMAX_M3_XML

    def compiled(spell: Spell) -> Node:
        arguments = notation.compile(
            schema,
            avoid=avoid,
            spell=spell,
            property_order=order,
            additional_properties="closed",
            closes_arrays=True,
        )
        return arguments.node

    compiled(str.encode)
    return compiled


def _tagged_style(
    schema: Any, style: str, order: PropertyOrder, max_whitespace: int | None, avoid: Iterable[str]
) -> Callable[[Spell], Node]:
    """Return the language of a schema's objects in the tags of a notation."""
    notation, escapes = _TAGGED_STYLES[style], _ESCAPES.get(style, ())
    options = NotationOptions(
        property_order=order, additional_properties="closed", closes_arrays=True
    )
    compiler = ArgumentCompiler(schema, options, _json_syntax(max_whitespace))
    space, closing = white_space(max_whitespace), notation.after_value.strip()
    texts = texts_without((closing, *avoid))
    values = values_of(texts, texts)
    names = _NAMES
    if escapes:
        # Only listed names are escaped.
        names = union((names, word_language(filter(_has_no_tag, compiler.property_values))))
    names = intersection((names, texts))
    restricted = compiler.restrict(lambda _: values, names, values, f"the style {style!r}")

    def others(term: Term) -> Node:
        found = compiler.translator.others_without(term, (), 1)
        return found if found is EMPTY else concatenation(space, found, space)

    def node(spell: Spell) -> Node:
        first, *rest = map(spell, notation.after_name.strip().split("\n"))
        between = (part for text in rest for part in (space, literal(text)))
        # No name contains the first byte of the text after it, so a name ends there.
        members = PlainMembers(
            first[:1],
            before_name=concatenation(space, literal(spell(notation.before_name))),
            after_name=concatenation(literal(first[1:]), *between),
            after_value=lambda _: literal(spell(closing)),
            escapes=escapes,
        )

        def value(term: Term, name: str | None) -> Node:
            if notation.kinds:
                more = _MORE_KINDS.get(style, {}) if name is None else {}
                return compiler.values_by_kind(term, {**notation.kinds, **more}, spell, others)
            strings = encoded(generated(compiler.context, term).strings, RAW)
            return union((strings, others(term)))

        return concatenation(compiler.object_node(restricted, members, value), space)

    return node


def _has_no_tag(name: str) -> bool:
    return bool(name) and not set(name) & {"<", ">"}
