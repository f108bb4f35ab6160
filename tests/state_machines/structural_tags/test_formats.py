"""The texts of each format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structural_tags import ANY, CITY, DIGITS, SEPARATED, TRIGGERED, const, machine, tag

from state_machines.root import RootStateMachine

TEXTS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    (const(""), [""], ["x"]),
    (ANY, ["", "a\n<é"], []),
    ({**ANY, "excludes": ["ab"], "max_chars": 3}, ["", "aéc"], ["cab", "aaaa"]),
    ({**ANY, "max_tokens": 0}, [""], ["x"]),
    (tag("<t>", ANY, "</t>"), ["<t></t>", "<t>a</</t>"], ["<t>", "<t></t>x", "<t></t></t>"]),
    (tag("<t>", ANY, ["</t>", "."]), ["<t>x.", "<t>x</t>"], ["<t>x..", "<t>a.b</t>"]),
    ({"type": "sequence", "elements": [const("a"), DIGITS]}, ["a1"], ["a", "1"]),
    ({"type": "or", "elements": [const("a"), DIGITS]}, ["a", "12"], ["a1", ""]),
    ({"type": "optional", "content": DIGITS}, ["", "1"], ["x"]),
    ({"type": "plus", "content": const("a")}, ["a", "aaa"], [""]),
    ({"type": "star", "content": const("ab")}, ["", "abab"], ["aba"]),
    ({"type": "repeat", "min": 1, "max": 2, "content": const("a")}, ["a", "aa"], ["", "aaa"]),
    ({"type": "repeat", "min": 2, "max": -1, "content": const("a")}, ["aa", "aaaaa"], ["a"]),
    ({"type": "grammar", "grammar": 'root ::= "(" root ")" | ""'}, ["", "(())"], ["(()"]),
    (TRIGGERED, ["", "hi <f", "a<f=a>1</f>b<f=b>x</f>"], ["<f=", "<f=c>", "<f=a>x</f>"]),
    ({**TRIGGERED, "at_least_one": True}, ["<f=a>1</f>", "<f=b>x</f> hi"], ["", "a<f=a>1</f>"]),
    ({**TRIGGERED, "stop_after_first": True}, ["a", "a<f=a>1</f>"], ["<f=a>1</f>b"]),
    (
        {**TRIGGERED, "at_least_one": True, "stop_after_first": True},
        ["<f=a>1</f>"],
        ["", "<f=a>1</f>b", "a<f=a>1</f>"],
    ),
    ({**TRIGGERED, "excludes": ["!"]}, ["a<f=a>1</f>"], ["a!"]),
    (tag("<", TRIGGERED, ">"), ["<a>", "<<f=a>1</f>b>"], ["<a>b>", "<<f=a>1</f>b"]),
    (SEPARATED, ["", "<f=a>1</f>", "<f=a>1</f>,<f=b>x</f>"], ["<f=a>1</f>,", "a"]),
    ({**SEPARATED, "at_least_one": True}, ["<f=a>1</f>"], [""]),
    ({**SEPARATED, "stop_after_first": True}, ["", "<f=a>1</f>"], ["<f=a>1</f>,<f=b>x</f>"]),
    (
        {"type": "dispatch", "rules": [["a", DIGITS], ["b", const("!")]], "excludes": ["c"]},
        ["", "x", "xa1b!x"],
        ["a", "ax", "c", "a1c"],
    ),
    ({"type": "dispatch", "rules": [["a", DIGITS]], "loop": False}, ["x", "xa12"], ["xa1x"]),
    ({"type": "dispatch", "rules": [["a", const("1")], ["ab", const("2")]]}, ["a1", "ab2"], ["a2"]),
    ({"type": "json_schema", "json_schema": CITY}, ['{"city":"x"}'], ['{"city":"x","b":1}', "{}"]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "accepted", "refused"), TEXTS)
def test_texts_of_a_format(
    content: dict[str, Any], accepted: list[str], refused: list[str]
) -> None:
    compiled = machine(content)
    assert [text for text in accepted if not compiled.matches(text)] == []
    assert [text for text in refused if compiled.matches(text)] == []


def test_text_and_its_json_are_the_same_tag() -> None:
    given = {"type": "structural_tag", "format": TRIGGERED}
    assert RootStateMachine.from_structural_tag(json.dumps(given)).matches("<f=a>1</f>")


def test_old_form_is_triggered_tags() -> None:
    structures = [
        {"begin": "<f>", "schema": CITY, "end": "</f>"},
        {"begin": "<g>", "schema": json.dumps({"type": "integer"}), "end": "</g>"},
    ]
    given = {"type": "structural_tag", "structures": structures, "triggers": ["<f", "<g"]}
    compiled = RootStateMachine.from_structural_tag(given)
    assert compiled.matches('Hi <f>{"city": "Oslo"}</f> and <g>1</g>.')
    assert not compiled.matches("<f>1</f>")


def test_callers_tag_is_not_changed() -> None:
    given = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": CITY}}
    before = json.dumps(given)
    RootStateMachine.from_structural_tag(given)
    assert json.dumps(given) == before


@pytest.mark.parametrize(
    ("options", "accepted", "refused"),
    [
        ({}, ['{"a": "x"}', '{"a":"x"}'], ['{ "a":"x"}', '{"a":"x", "b": 1}']),
        ({"max_whitespace_cnt": 0}, ['{"a":"x"}'], ['{"a": "x"}']),
        ({"max_whitespace_cnt": 2}, ['{\n "a" :\t"x"\n}'], ['{"a":   "x"}']),
        ({"excludes": ["</t>"]}, ['{"a":"<t>"}'], ['{"a":"</t>"}']),
    ],
)
def test_options_of_json(options: dict[str, Any], accepted: list[str], refused: list[str]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    compiled = machine({"type": "json_schema", "json_schema": schema, **options})
    assert [text for text in accepted if not compiled.matches(text)] == []
    assert [text for text in refused if compiled.matches(text)] == []


def test_any_order_keeps_names_unique_and_required() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
    }
    compiled = machine({"type": "json_schema", "json_schema": schema, "any_order": True})
    assert compiled.matches('{"b":1,"a":2}')
    assert not compiled.matches('{"b":1}')
    assert not compiled.matches('{"a":1,"a":2}')


@pytest.mark.parametrize(
    ("style", "text"),
    [
        ("qwen_xml", "<parameter=city>\nOslo\n</parameter>\n<parameter=days> 3 </parameter>\n"),
        ("minimax_xml", '<parameter name="city">A</parameter><parameter name="days">3</parameter>'),
        ("glm_xml", "<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>"),
        (
            "kimi_k3_xml",
            '<|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>\n'
            '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>',
        ),
        (
            "minimax_m3_xml",
            "]<]minimax[>[<city>Oslo]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>",
        ),
        (
            "cohere_xml",
            '<cofl:value name="city" type="raw">Oslo</cofl:value>\n'
            '<cofl:value name="days" type="json"> 3 </cofl:value>\n',
        ),
        (
            "deepseek_xml",
            '<｜DSML｜parameter name="city" string="true">Oslo</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>',
        ),
        (
            "deepseek_v4_1_xml",
            '<｜DSML｜ parameter name="city" string="true">Oslo</｜DSML｜ parameter>',
        ),
    ],
)
def test_styles_of_arguments(style: str, text: str) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    compiled = machine({"type": "json_schema", "json_schema": schema, "style": style})
    assert compiled.matches(text)
    assert not compiled.matches(text.replace("city", "town"))
    assert not compiled.matches('{"city": "Oslo"}')


def test_objects_that_several_schemas_describe_have_all_their_properties() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"properties": {"b": {"type": "integer"}}},
        ]
    }
    compiled = machine({"type": "json_schema", "json_schema": schema})
    assert compiled.matches('{"a":1,"b":2}')
