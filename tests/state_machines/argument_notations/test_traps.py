"""What families' parsers read as something else, text by text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mlx_lm.tool_parsers import gemma4
from notation_families import FAMILIES, is_same

from state_machines import UnsatisfiableSchemaError, UnsupportedSchemaError, Vocabulary
from state_machines.argument_notations import (
    JSON,
    PYTHONIC,
    PYTHONIC_JSON,
    Notation,
    TaggedNotation,
    tag_styles,
)
from state_machines.argument_notations.gemma import FUNCTION_GEMMA, GEMMA4
from state_machines.argument_notations.tag_styles import (
    DSML,
    DSML_V4,
    DSML_V4_1,
    QWEN_CODER,
    SEED,
    XTML,
)
from state_machines.matcher import Matcher

# mlx-lm's parsers strip the values of these.
GLM, GLM_COMPACT, LONGCAT, MINICPM, MINIMAX = (
    getattr(tag_styles, name).trimmed
    for name in ("GLM", "GLM_COMPACT", "LONGCAT", "MINICPM", "MINIMAX")
)
BY_NOTATION = {family.notation: family for family in FAMILIES}
TAGGED = [QWEN_CODER, MINIMAX, GLM, GLM_COMPACT, LONGCAT]
WITH_KINDS = [DSML, DSML_V4, DSML_V4_1, XTML]

TEXT = {"type": "string"}
TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ANYTHING: dict[str, Any] = {}


def of_a(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "additionalProperties": False, **more}


def tagged(notation: TaggedNotation, value: str, name: str = "a") -> str:
    return f"{notation.before_name}{name}{notation.after_name}{value}{notation.after_value}"


def assert_reads(notation: Notation, schema: Any, text: str, value: dict[str, Any]) -> None:
    """The text is written, and read as the value, by the notation and by mlx-lm."""
    family = BY_NOTATION[notation]
    arguments = notation.compile(schema)
    assert arguments.node.matches(text.encode()), text
    assert is_same(arguments.read(text), value), arguments.read(text)
    if family.parser is not None and (value or family.parses_no_arguments):
        pytest.importorskip("mlx_lm.tool_parsers", reason="the parsers are mlx-lm's")
        written = notation.property_names(schema).write_members(value)
        assert is_same(family.parsed(text, arguments.parser_schema), written)


def assert_not_written(notation: Notation, schema: Any, *texts: str) -> None:
    node = notation.compile(schema).node
    for text in texts:
        assert not node.matches(text.encode()), text


NAMED = {"ids": lambda notation: notation.name}


@pytest.mark.parametrize("notation", TAGGED, **NAMED)
@pytest.mark.parametrize(
    "text",
    [
        *("5", "true", "", "{}", '"quoted"', "a\n\nb", "<parameter=b>"),
        *("</arg_key><arg_value>", "</parameter", "</arg_value</longcat_arg_value", "x <"),
        *("</function>", "a'b\"c\\d", "nullable", "é€😀", "\x00\x7f", "NaN"),
    ],
)
def test_string_properties_are_raw(notation: TaggedNotation, text: str) -> None:
    assert_reads(notation, of_a(TEXT), tagged(notation, text), {"a": text})


@pytest.mark.parametrize("notation", [*TAGGED, *WITH_KINDS], **NAMED)
@pytest.mark.parametrize("schema", [TEXT, TEXT_OR_NULL, ANYTHING, {"type": "object"}])
def test_value_cannot_contain_its_end(notation: TaggedNotation, schema: Any) -> None:
    for end in (notation.closing, *notation.avoid):
        values = (f"a{end}b", {end: 1})
        hidden = [f"a{end}b", *(json.dumps(value, ensure_ascii=False) for value in values)]
        kinds = set(notation.kinds.values())
        texts = [f"{kind}{text}" for kind in kinds for text in hidden] if kinds else hidden
        assert_not_written(notation, of_a(schema), *(tagged(notation, text) for text in texts))


@pytest.mark.parametrize("notation", [QWEN_CODER, MINIMAX], **NAMED)
def test_null_is_read_in_any_case(notation: TaggedNotation) -> None:
    for text in ("null", "NULL", "Null"):
        assert_not_written(notation, of_a(TEXT), tagged(notation, text))
    assert_reads(notation, of_a(TEXT_OR_NULL), tagged(notation, "null"), {"a": None})
    for word in ("None", "nil"):
        text = tagged(notation, word)
        assert_reads(notation, of_a(TEXT), text, {"a": word})
        if notation.raw_unions:
            assert_not_written(notation, of_a(TEXT_OR_NULL), text)
        else:
            assert_reads(notation, of_a(TEXT_OR_NULL), text, {"a": word})
            assert_reads(notation, of_a(ANYTHING), tagged(notation, '"null"'), {"a": "null"})


@pytest.mark.parametrize("notation", [GLM, GLM_COMPACT, LONGCAT], **NAMED)
def test_string_null_stays_a_string_for_typed_parsers(notation: TaggedNotation) -> None:
    assert_reads(notation, of_a(TEXT), tagged(notation, "null"), {"a": "null"})


@pytest.mark.parametrize("notation", [MINIMAX, GLM, GLM_COMPACT, LONGCAT], **NAMED)
def test_stripped_whitespace_is_not_generated(notation: TaggedNotation) -> None:
    padded = (" a", "a ", "\n", "a\n", "\x1ca", "a\x85", "\u3000")
    assert_not_written(notation, of_a(TEXT), *(tagged(notation, text) for text in padded))
    if not notation.raw_unions:
        assert_reads(notation, of_a(ANYTHING), tagged(notation, '" a "'), {"a": " a "})


def test_whitespace_is_kept_if_only_a_line_feed_is_stripped() -> None:
    for text in ("\n", " a ", "\n\n", "a\n"):
        assert_reads(QWEN_CODER, of_a(TEXT), tagged(QWEN_CODER, text), {"a": text})


@pytest.mark.parametrize("notation", [GLM, GLM_COMPACT, LONGCAT], **NAMED)
def test_text_that_is_no_literal_needs_no_quotes(notation: TaggedNotation) -> None:
    for text in ("Hello, world (again)", "nullable", "é", "setting (a)", "/tmp/x", "Nonesuch", "a"):
        assert_reads(notation, of_a(TEXT_OR_NULL), tagged(notation, text), {"a": text})
    literals = ["5", "-1", ".5", "(1, 2)", "[1]", "'a'", "None", "True", "NaN", "b'a'", "Rb'a'"]
    for text in (*literals, "set()", "set ( )", "# a\n5", "true", '"a', "None, None", "\\\n5"):
        assert_not_written(notation, of_a(TEXT_OR_NULL), tagged(notation, text))


def test_python_literals_for_whole_values() -> None:
    for text, value in (("True", True), ("False", False), ("None", None)):
        assert_reads(QWEN_CODER, of_a(ANYTHING), tagged(QWEN_CODER, text), {"a": value})
    assert_not_written(QWEN_CODER, of_a(ANYTHING), tagged(QWEN_CODER, "[True]"))


@pytest.mark.parametrize("notation", [QWEN_CODER, MINIMAX], **NAMED)
def test_unlisted_properties_are_strings_to_the_parser(notation: TaggedNotation) -> None:
    assert_reads(notation, {"type": "object"}, tagged(notation, "5", "b"), {"b": "5"})
    assert_reads(notation, {"type": "object"}, tagged(notation, "null", "b"), {"b": None})
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert_not_written(notation, numbers, tagged(notation, "5", "b"))
    with pytest.raises(UnsatisfiableSchemaError, match="can be written"):
        notation.compile({**numbers, "minProperties": 1})


@pytest.mark.parametrize("notation", [MINIMAX, MINICPM], **NAMED)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "integer"]},
        {"anyOf": [{"type": "number"}, {"type": "string"}]},
        {"type": ["boolean", "string", "null"]},
        {"type": ["string", "null"]},
        {"type": ["array", "string", "object"]},
        {"enum": ["abc", 5, True, None, [1], "inf", "7"]},
    ],
)
def test_unions_with_strings_come_back_from_the_schema_as_it_is(
    notation: TaggedNotation, schema: Any
) -> None:
    """mlx-lm's parsers take no quotes off a string, and read it as another type if they can."""
    family, of_schema = BY_NOTATION[notation], of_a(schema, required=["a"])
    arguments = notation.compile(of_schema)
    words = [
        *("abc", '"abc"', "東京", "5", '"5"', "true", "yes", "None", "nan", "1_0", "inf", "7"),
        *("[1]", "[]", "(1,)", "0x1F", "null", "٣"),
    ]
    for value in [*words, "x 5", "a: [1]", '{"b": 1}', "5 m", ""]:
        text = tagged(notation, value)
        if arguments.node.matches(text.encode()):
            assert is_same(family.parsed(text, of_schema), arguments.read(text)), text
    assert arguments.read(tagged(notation, "abc")) == {"a": "abc"}
    assert arguments.node.matches(tagged(notation, "abc").encode())


@pytest.mark.parametrize("notation", TAGGED, **NAMED)
@pytest.mark.parametrize(("kind", "value"), [("integer", 5), ("boolean", True), ("array", [1])])
def test_optional_values_other_than_strings_are_written(
    notation: TaggedNotation, kind: str, value: Any
) -> None:
    schema = of_a({"anyOf": [{"type": kind}, {"type": "null"}]})
    for each in (value, None):
        assert_reads(notation, schema, notation.write({"a": each}), {"a": each})


@pytest.mark.parametrize("notation", [GLM, GLM_COMPACT, LONGCAT], **NAMED)
def test_unlisted_properties_are_literals_to_the_parser(notation: TaggedNotation) -> None:
    assert_reads(notation, {"type": "object"}, tagged(notation, "5", "b"), {"b": 5})
    assert_reads(notation, {"type": "object"}, tagged(notation, '"5"', "b"), {"b": "5"})
    assert_reads(notation, {"type": "object"}, tagged(notation, "five", "b"), {"b": "five"})


def test_property_is_raw_only_if_all_alternatives_are_strings() -> None:
    schema = {
        "anyOf": [
            {"properties": {"a": {"type": "integer"}, "k": {"const": "number"}}},
            {"properties": {"a": {"type": "string"}, "k": {"const": "text"}}},
        ],
        "type": "object",
        "required": ["a", "k"],
    }
    number = tagged(QWEN_CODER, "5") + tagged(QWEN_CODER, "number", "k")
    text = tagged(QWEN_CODER, '"5"') + tagged(QWEN_CODER, "text", "k")
    assert_reads(QWEN_CODER, schema, number, {"a": 5, "k": "number"})
    assert_reads(QWEN_CODER, schema, text, {"a": "5", "k": "text"})
    assert_not_written(
        QWEN_CODER, schema, tagged(QWEN_CODER, "5") + tagged(QWEN_CODER, "text", "k")
    )


@pytest.mark.parametrize("notation", [*TAGGED, *WITH_KINDS, PYTHONIC], **NAMED)
def test_names_are_unique_and_required_ones_present(notation: Notation) -> None:
    schema = {"type": "object", "additionalProperties": TEXT, "required": ["a"], "maxProperties": 2}
    mark = notation.kinds.get("string", "") if isinstance(notation, TaggedNotation) else ""

    def written(*names: str) -> str:
        if isinstance(notation, TaggedNotation):
            return notation.between.join(tagged(notation, f"{mark}x", name) for name in names)
        return ", ".join(f'{name}="x"' for name in names)

    assert_reads(notation, schema, written("a", "b"), {"a": "x", "b": "x"})
    assert_not_written(
        notation, schema, written("a", "a"), written("b"), written("a", "b", "b"),
        written("a", "b", "c"), written(),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"twice|repeated"):
        notation.compile(schema).read(written("a", "a"))


@pytest.mark.parametrize(
    "notation", [JSON, *TAGGED, DSML, PYTHONIC, GEMMA4, FUNCTION_GEMMA], **NAMED
)
def test_empty_arguments(notation: Notation) -> None:
    text = "{}" if notation in (JSON, GEMMA4, FUNCTION_GEMMA) else ""
    assert_reads(notation, {"type": "object", "properties": {}}, text, {})


def test_dsml_marks_strings() -> None:
    schema = of_a({"type": ["string", "integer", "null"]})
    for value, kind in (("5", "true"), (5, "false"), (None, "false"), ("null", "true")):
        text = value if isinstance(value, str) else json.dumps(value)
        assert_reads(DSML, schema, tagged(DSML, f'{kind}">{text}'), {"a": value})
    assert_not_written(DSML, schema, tagged(DSML, 'false">"5"'), tagged(DSML, 'true">'[:-1]))


@pytest.mark.parametrize("notation", [PYTHONIC, PYTHONIC_JSON], **NAMED)
def test_python_reads_strings_unchanged(notation: Notation) -> None:
    for text, value in (
        ('"\\u00e9\\n\\"\\\\"', 'é\n"\\'),
        ('"😀"', "😀"),
        ('"])"', "])"),
        ('"true, b=[1"', "true, b=[1"),
        ('"\\u0000\x7f\u2028"', "\0\x7f\u2028"),
    ):
        assert_reads(notation, of_a(TEXT), f"a={text}", {"a": value})
    assert_not_written(notation, of_a(TEXT), 'a="\\ud83d\\ude00"', 'a="\n"')
    nested = of_a({"type": "object", "properties": {"😀": {}}, "required": ["😀"]})
    assert_reads(notation, nested, 'a={"😀": 1}', {"a": {"😀": 1}})
    assert_not_written(notation, nested, 'a={"\\ud83d\\ude00": 1}')


def test_words_of_python_and_json_for_constants() -> None:
    value = {"a": [True, False, None, {"b": True}]}
    python, as_json = 'a=[True, False, None, {"b": True}]', 'a=[true, false, null, {"b": true}]'
    assert_reads(PYTHONIC, of_a(ANYTHING), python, value)
    assert_not_written(PYTHONIC, of_a(ANYTHING), as_json)
    for text in (python, as_json):
        assert_reads(PYTHONIC_JSON, of_a(ANYTHING), text, value)


def test_unique_items_compare_by_value() -> None:
    unique = of_a({"type": "array", "uniqueItems": True})
    assert_not_written(
        PYTHONIC_JSON, unique, "a=[True, true]", 'a=["x", "x"]', "a=[[None], [null]]"
    )
    assert_reads(PYTHONIC_JSON, unique, 'a=["True", True]', {"a": ["True", True]})
    assert_not_written(GEMMA4, unique, '{a:[<|"|>x<|"|>,<|"|>x<|"|>]}', "{a:[{b:1},{b:1.0}]}")
    assert_reads(
        GEMMA4, unique, '{a:[<|"|>1<|"|>,1,{b:1},{b:2}]}', {"a": ["1", 1, {"b": 1}, {"b": 2}]}
    )
    special = GEMMA4.compile(unique, spell=lambda marker: b"\xff" + marker.encode()).node
    mark = b'\xff<|"|>'
    assert special.matches(b"{a:[" + mark + b"x" + mark + b"," + mark + b"y" + mark + b"]}")
    assert not special.matches(b"{a:[" + mark + b"x" + mark + b"," + mark + b"x" + mark + b"]}")
    assert not special.matches(b"{a:[{b:" + mark + mark + b"},{b:" + mark + mark + b"}]}")


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("a-b", "a_b"), ("class", "class_"), ("None", "None_"), ("1a", "_1a"), ("c d", "c_d"),
        ("__debug__", "__debug___"), ("ﬁ", "_"), ("", "_"), ("$filter", "_filter"),
    ],
)  # fmt: skip
def test_names_that_are_no_keyword_arguments_have_aliases(name: str, alias: str) -> None:
    schema = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    assert_reads(PYTHONIC, schema, f'{alias}="x"', {name: "x"})
    assert_not_written(PYTHONIC, schema, f'{name}="x"')
    assert_not_written(PYTHONIC, {"type": "object"}, f'{name}="x"')


def test_aliases_differ_from_each_other_and_from_other_properties() -> None:
    names = ["a-b", "a_b", "a.b", "a b", "a_b_"]
    schema = {"type": "object", "properties": dict.fromkeys(names, TEXT)}
    value = {name: str(index) for index, name in enumerate(names)}
    aliases = PYTHONIC.property_names(schema)
    assert aliases.aliases.keys() == {"a-b", "a.b", "a b"}
    written = aliases.write_members(value)
    assert len(written) == len(names)
    assert_reads(PYTHONIC, schema, PYTHONIC.write(written), value)


def test_properties_that_no_schema_lists_have_no_aliases() -> None:
    schema = {"type": "object", "properties": {"a-b": TEXT}, "additionalProperties": TEXT}
    assert_reads(PYTHONIC, schema, 'a_b="x", c="y"', {"a-b": "x", "c": "y"})
    assert_not_written(PYTHONIC, schema, 'a_b="x", a_b="y"', 'a-b="x"')
    nested = of_a({"type": "object", "additionalProperties": TEXT})
    free = {**nested, "properties": {**nested["properties"], "x y": TEXT}}
    assert_reads(GEMMA4, free, '{a:{x_y:<|"|>1<|"|>}}', {"a": {"x y": "1"}})


@pytest.mark.parametrize("name", ["é", "match", "ünïcode", "変数"])
def test_keyword_argument_names_are_admitted(name: str) -> None:
    schema = {"type": "object", "properties": {name: TEXT}}
    assert_reads(PYTHONIC, schema, f'{name}="x"', {name: "x"})


def test_unwritable_names_have_aliases() -> None:
    for notation, name in (
        (QWEN_CODER, "a>b"), (QWEN_CODER, "a b"), (QWEN_CODER, ""), (MINIMAX, 'a"b'), (GLM, " a"),
        (GLM, "a<b"), (DSML, 'a"'), (GEMMA4, "a b"), (GEMMA4, ""), (FUNCTION_GEMMA, "a:b"),
        (GEMMA4, "$filter"), (GEMMA4, "If-Match"), (GEMMA4, "a.b"), (GEMMA4, "@type"),
    ):  # fmt: skip
        schema = {"type": "object", "properties": {name: TEXT}, "required": [name]}
        (alias,) = notation.property_names(schema).aliases.values()
        assert alias.isidentifier()
        written = notation.write({alias: "x"})
        assert_reads(notation, schema, written, {name: "x"})
        # A property whose schema is false needs no name.
        notation.compile({"type": "object", "properties": {name: False}})


def test_names_with_an_avoided_text_are_left_out() -> None:
    schema = {"type": "object", "properties": {"a<end>": TEXT, "b": TEXT}}
    compiled = PYTHONIC.compile(schema, avoid=["<end>"])
    assert compiled.node.matches(b'b="x"')
    assert [error.pointer for error in JSON.compile(schema, avoid=["<end>"]).left_out] == [
        "/properties/a<end>"
    ]
    with pytest.raises(UnsupportedSchemaError, match="cannot write a property") as refusal:
        JSON.compile({**schema, "required": ["b", "a<end>"]}, avoid=["<end>"])
    assert refusal.value.pointer == "/properties/a<end>"
    assert refusal.value.hint


@pytest.mark.parametrize("name", ["ключ", "é", "変数", "٣", "k1_"])
def test_gemma_writes_letters_of_every_alphabet(name: str) -> None:
    schema = {"type": "object", "properties": {name: TEXT}, "required": [name]}
    assert_reads(GEMMA4, schema, f'{{{name}:<|"|>x<|"|>}}', {name: "x"})
    assert gemma4.parse_tool_call(f'call:f{{{name}:<|"|>x<|"|>}}')["arguments"] == {name: "x"}


def test_nested_gemma_names_have_no_quotes() -> None:
    inner = {"type": "array", "items": {"$ref": "#/$defs/x"}}
    schema = {**of_a(inner), "$defs": {"x": {"properties": {"a b": TEXT}}}}
    assert_reads(GEMMA4, schema, '{a:[{a_b:<|"|>x<|"|>}]}', {"a": [{"a b": "x"}]})
    assert_reads(PYTHONIC, schema, 'a=[{"a b": "x"}]', {"a": [{"a b": "x"}]})
    assert_reads(GLM, schema, tagged(GLM, '[{"a b": "x"}]'), {"a": [{"a b": "x"}]})


def test_gemma_strings_are_raw() -> None:
    for text in ("a,b:{}", '"', "\n", "\x000\x00", "<|", '<|"', "|>", "call:x{}", "😀"):
        assert_reads(GEMMA4, of_a(TEXT), f'{{a:<|"|>{text}<|"|>}}', {"a": text})
    assert_not_written(GEMMA4, of_a(TEXT), '{a:<|"|>x<|"|>y<|"|>}', '{a:"x"}', '{"a":<|"|><|"|>}')
    nested = {"a": {"b": ["x", {"c": None}], "d": [[], {}, 1.5, True]}}
    text = '{a:{b:[<|"|>x<|"|>,{c:null}],d:[[],{},1.5,true]}}'
    assert_reads(GEMMA4, {"type": "object"}, text, nested)


def test_function_gemma_writes_scalars() -> None:
    schema = of_a({"type": ["string", "number", "boolean", "null"]})
    for text, value in (("<escape>a,b:c<escape>", "a,b:c"), ("5", 5), ("-0.5", -0.5),
                        ("null", None), ("true", True), ("<escape>5<escape>", "5"),
                        ("<escape><escap<escape>", "<escap")):  # fmt: skip
        assert_reads(FUNCTION_GEMMA, schema, f"{{a:{text}}}", {"a": value})
    assert_not_written(FUNCTION_GEMMA, schema, "{a:<escape>}<escape>}", "{a:[1]}", "{a:{}}")
    two = {"type": "object", "properties": {"a": TEXT, "b": {"type": "integer"}}}
    assert_reads(FUNCTION_GEMMA, two, "{a:<escape>x<escape>,b:5}", {"a": "x", "b": 5})
    mixed = of_a({"anyOf": [TEXT, {"type": "array", "items": TEXT}]})
    assert_reads(FUNCTION_GEMMA, mixed, "{a:<escape>x<escape>}", {"a": "x"})
    with pytest.raises(UnsupportedSchemaError, match="cannot write any value") as refusal:
        FUNCTION_GEMMA.compile(of_a({"type": "array", "items": TEXT}, required=["a"]))
    assert refusal.value.pointer == "/properties/a"
    assert refusal.value.hint
    optional = FUNCTION_GEMMA.compile(of_a({"type": "array", "items": TEXT}))
    assert [error.pointer for error in optional.left_out] == ["/properties/a"]
    assert_reads(FUNCTION_GEMMA, of_a({"type": "array", "items": TEXT}), "{}", {})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.notation.name)
def test_avoided_texts_are_excluded_from_strings_and_names(family: Any) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": TEXT}}
    values = [
        {"b": "x<end>y"},
        {"a": "<end>"},
        {"a": ["<end>"]},
        {"a": {"<end>": 1}},
        {"<end>": "x"},
    ]
    free = family.notation.compile(schema).node
    bound = family.notation.compile(schema, avoid=["<end>"]).node
    for value in values:
        for text in family.template(value):
            assert not bound.matches(text.encode()), text
    for text in family.template({"b": "x<end"}):
        assert free.matches(text.encode()) == bound.matches(text.encode())
    with pytest.raises(UnsupportedSchemaError) as refusal:
        family.notation.compile(of_a({"const": "<end>"}, required=["a"]), avoid=["<end>"])
    assert refusal.value.pointer == "/properties/a"


def test_markers_may_be_special_tokens() -> None:
    forms: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
    forms += [b"</s>", b"<arg_key>", b"</arg_key>", b"<arg_value>", b"</arg_value>"]
    special = {form.decode(): 257 + index for index, form in enumerate(filter(None, forms[257:]))}
    vocabulary = Vocabulary(forms, end_token_ids=[256], special_tokens=special)
    node = GLM.compile(of_a(TEXT), spell=lambda marker: b"\xff" + marker.encode()).node
    matcher = Matcher(node, vocabulary)
    for token in (257, ord("a"), 258, 10, 259, ord("<"), ord("x"), 260, 10):
        assert matcher.allowed_tokens()[token], token
        matcher.advance(token)
    assert matcher.is_accepting
    assert GLM.compile(of_a(TEXT)).read(tagged(GLM, "<x")) == {"a": "<x"}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.notation.name)
def test_reader_raises_for_other_texts(family: Any) -> None:
    for text in (
        "<parameter=a>\n1",
        "(" * 999,
        *["x", "<", "{a:", "a=", "f(", "[1]", "a=b", "{a:1}x"],
    ):
        with pytest.raises(ValueError, match=r"."):
            family.notation.compile(True).read(text)


def test_schema_errors_keep_their_pointers() -> None:
    broken = of_a({"type": "string", "pattern": "("})
    for family in FAMILIES:
        with pytest.raises(Exception, match=r"pattern|group|parenthes") as error:
            family.notation.compile(broken)
        assert getattr(error.value, "pointer", None) == "/properties/a/pattern"
    for family in FAMILIES:
        with pytest.raises(UnsatisfiableSchemaError, match="no JSON object"):
            family.notation.compile({"type": "array"})


def test_string_with_outer_line_feeds_is_written_between_two_more() -> None:
    schema = of_a(TEXT)
    for value in ("a", "", " a ", "a\nb"):
        assert_reads(SEED, schema, tagged(SEED, value), {"a": value})
    for value in ("a\n", "\na", "\n", "\n\n", "a", ""):
        assert_reads(SEED, schema, tagged(SEED, f"\n{value}\n"), {"a": value})
    assert_not_written(SEED, schema, tagged(SEED, "a\n"), tagged(SEED, "\na"), tagged(SEED, "\n"))


@pytest.mark.parametrize(
    ("value", "kind"),
    [(None, "null"), (True, "boolean"), (1.5, "number"), ([1], "array"), ({}, "object")],
)
def test_type_of_an_argument_is_that_of_its_value(value: Any, kind: str) -> None:
    text = XTML.write({"a": value})
    assert f'type="{kind}"' in text
    assert_reads(XTML, of_a(ANYTHING), text, {"a": value})
    for other in set(XTML.kinds) - {kind, "string"}:
        assert_not_written(XTML, of_a(ANYTHING), text.replace(kind, other))
