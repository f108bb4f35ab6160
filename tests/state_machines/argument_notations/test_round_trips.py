"""Generated arguments are read back by the notation and by mlx-lm's parser, and are valid."""

from __future__ import annotations

from random import Random
from typing import Any, get_args

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from judging import Judge
from notation_families import FAMILIES, Family, is_same, names_in
from schema_strategies import (
    crowded_objects,
    examples,
    json_values,
    object_schemas,
    schemas,
    values_near,
)
from small_vocabulary import a_text

from state_machines import UnsatisfiableSchemaError, UnsupportedSchemaError
from state_machines.argument_notations import CompiledArguments
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.errors import InvalidSchemaError
from state_machines.grammar.exclusion import exclusion
from state_machines.grammar.text_languages import contains_word
from state_machines.json_schema.grammar.value_syntax import Whitespace

pytest.importorskip("mlx_lm.tool_parsers", reason="the parsers are mlx-lm's")

SCHEMAS = st.one_of(
    object_schemas(),
    crowded_objects(),
    schemas().map(lambda schema: {**schema, "type": "object"}),
)
FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.notation.name)


def compiled(family: Family, schema: Any, **options: Any) -> CompiledArguments:
    """Compile, or pass over a schema that is refused by name."""
    try:
        return family.notation.compile(schema, **options)
    except UnsatisfiableSchemaError:
        event("unsatisfiable")
    except UnsupportedSchemaError as error:
        event(f"refused: {error.what[:60]}")
    except InvalidSchemaError:
        event("an empty loop")
    assume(False)
    raise AssertionError


def walked(arguments: CompiledArguments, seed: int) -> str | None:
    """Write a text at random; ``None`` where no end is near."""
    random = Random(seed)
    text = a_text(arguments.node, random, random.choice((5, 40, 120)), stops=0.1)
    return None if text is None else text.decode()


def admits(judge: Judge, value: Any) -> bool:
    """Ask the judge, who does not come back from an empty loop of references."""
    try:
        return judge.admits(value)
    except RecursionError:
        assume(False)
        raise


@FAMILY
@examples(6)
@given(
    SCHEMAS,
    st.sampled_from(("schema", "any")),
    st.sampled_from((None, *get_args(Whitespace))),
    st.integers(0, 2**32),
)
def test_generated_arguments_are_read_back(
    family: Family, schema: Any, order: Any, whitespace: Any, seed: int
) -> None:
    options = {"whitespace": whitespace} if family.notation.has_json else {}
    arguments = compiled(family, schema, property_order=order, **options)
    text = walked(arguments, seed)
    if text is None:
        event("too far from the end")
        return
    value = arguments.read(text)
    other = walked(arguments, seed + 1)
    for known in filter(None, (text, other)):
        if "\\" in known:  # A name that no schema lists may be spelled with any escapes.
            continue
        remaining = exclusion(arguments.node, [arguments.spellings(arguments.read(known))])
        assert remaining.matches(text.encode()) != is_same(arguments.read(known), value)
    assert admits(Judge(schema), value), (text, value)
    if family.parser and (value or family.parses_no_arguments):
        written = family.notation.property_names(schema).write_members(value)
        assert is_same(family.parsed(text, arguments.parser_schema), written), text


def with_plain_integers(value: Any) -> Any:
    """Return a value in which whole numbers are integers, which are written without a point."""
    if isinstance(value, dict):
        return {name: with_plain_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [with_plain_integers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


WRITTEN: dict[str, Any] = {
    "text": 'x )] "y" \'z',
    "count": 3,
    "null": None,
    "items": [1.5, True, {"k": ["v}"]}],
}


@FAMILY
def test_written_arguments_are_read_back_and_end_where_they_end(family: Family) -> None:
    notation = family.notation
    written = dict(WRITTEN)
    if notation is FUNCTION_GEMMA:
        del written["items"]
    elif notation is GEMMA4:
        written["items"] = [1.5, True, {"k": ["v"]}]
    # Tags are read by the types of their properties.
    types = ("string", "integer", "null", "array")
    properties = {name: {"type": kind} for name, kind in zip(written, types, strict=False)}
    text = notation.write(written)
    assert notation.compile({"properties": properties}).read(text) == written
    for after in (")", ")]", ")\n```", ") (", ')"'):
        assert notation.end(f"({text}{after}", 1) == len(text) + 1
    with pytest.raises(ValueError, match=r"end|closed|Unterminated|delimiter"):
        notation.end(text[: text.index("x )") + 2], 0)


@FAMILY
@examples(6)
@given(st.data())
def test_template_arguments_are_admitted(family: Family, data: st.DataObject) -> None:
    schema = data.draw(SCHEMAS)
    arguments = compiled(family, schema, property_order="any")
    judge = Judge(schema)
    notation = family.notation
    names = getattr(notation, "name_language", None)
    for _ in range(3):
        value = data.draw(
            st.one_of(
                values_near(schema), st.dictionaries(st.sampled_from("ab"), json_values, max_size=2)
            )
        )
        if not isinstance(value, dict) or not admits(judge, value):
            continue
        value = with_plain_integers(value)
        aliases = notation.property_names(schema)
        renamed = aliases.write_members(value)
        written = names_in(renamed) if notation is GEMMA4 else renamed
        if names is not None and not all(contains_word(names, name) for name in written):
            continue
        if any(name in aliases.aliases.values() for name in names_in(value)):
            continue
        if notation is FUNCTION_GEMMA and any(isinstance(v, list | dict) for v in value.values()):
            continue
        # Integers are written without a point, even where a model would write "1.0".
        texts = [
            text
            for text in family.template(renamed)
            if _is_read(family, arguments, text, value, renamed)
        ]
        event(f"can be written: {bool(texts)}")
        assert not texts or any(arguments.node.matches(text.encode()) for text in texts), texts


def _is_read(
    family: Family, arguments: CompiledArguments, text: str, value: Any, renamed: Any = None
) -> bool:
    try:
        if not is_same(arguments.read(text), value):
            return False
    except ValueError:
        return False
    if family.parser is None or not (value or family.parses_no_arguments):
        return True
    return is_same(family.parsed(text, arguments.parser_schema), renamed or value)


PIECES = (
    *["null", "Null", "None", "True", "true", "NaN", "set", "()", "5", "-", ".", "e", "b'", "'", '"'],
    *" \n\x1c\u3000\ufeff\x000\x7f\u2028\\aé",
    "\\u0041",
    *("😀", ",", ":", "{", "}", "[", "]", "(", ")", "=", "<", "</", ">", "#", "f", "x"),
    *("<escape>", "<esc", "ape>", '<|"|>', '<|"', "|>", "</parameter>", "</param", "eter>"),
    *("<parameter=", "</arg_value>", "</arg_", "value>", "<arg_key>", "</longcat_arg_value>"),
    *("</invoke>", "</function>", "</｜DSML｜parameter>", "｜DSML｜", "parameter>", 'true">'),
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
OF_TEXTS: list[dict[str, Any]] = [
    {"type": "string"},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {},
    {"type": ["string", "integer"]},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object"},
]


@FAMILY
@examples(25)
@given(TEXTS, st.sampled_from(OF_TEXTS), st.sampled_from("ab"))
def test_texts_made_of_marker_fragments_are_read_back(
    family: Family, text: str, schema: Any, name: str
) -> None:
    if family.notation is FUNCTION_GEMMA and schema.get("type") in ("array", "object"):
        return
    # Only the property "a" is listed in the schema.
    arguments = family.notation.compile({"type": "object", "properties": {"a": schema}})
    judge = Judge({"type": "object", "properties": {"a": schema}})
    value: Any = {"array": [text, text], "object": {"b": text}}.get(str(schema.get("type")), text)
    is_written = False
    may_be_written = False
    for written in family.template({name: value}):
        may_be_written |= _is_read(family, arguments, written, {name: value})
        if not arguments.node.matches(written.encode()):
            continue
        is_written = True
        found = arguments.read(written)
        assert judge.admits(found)
        if family.parser is not None:
            assert is_same(family.parsed(written, arguments.parser_schema), found), written
    closing = getattr(family.notation, "closing", None)
    avoid = (*getattr(family.notation, "avoid", ()), *([closing] if closing else []))
    if getattr(family.notation, "raw_unions", False) and schema != {"type": "string"}:
        may_be_written = False  # Texts that only begin like other values are left out, too.
    event(f"written: {is_written}")
    assert is_written or not may_be_written or any(end in text for end in avoid)


@FAMILY
def test_closed_arguments_have_listed_properties_alone(family: Family) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    closed = family.notation.compile(schema, additional_properties="closed").node
    listed, longer = (
        family.notation.write(arguments).encode() for arguments in ({"a": 1}, {"a": 1, "b": "x"})
    )
    assert closed.matches(listed)
    assert not closed.matches(longer)
    assert family.notation.compile(schema).node.matches(longer)
