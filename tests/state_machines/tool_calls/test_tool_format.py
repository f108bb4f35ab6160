"""Tool formats: ids, bounds, options and errors."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from call_walks import Call, a_walk, are_distinct, calls_in
from object_schemas import closed_object

from state_machines.argument_notations import JsonNotation
from state_machines.errors import (
    CompositionError,
    InvalidSchemaError,
    ToolSchemaWarning,
    UnsatisfiableSchemaError,
    UnsupportedSchemaError,
)
from state_machines.root import Optional, RootStateMachine, Series, Text
from state_machines.tool_calls import (
    FORMATS,
    CallNames,
    ToolFormat,
    ToolSignature,
    WrittenCall,
    format_named,
    in_compact_json,
    split_calls,
)

ROOT = Path(__file__).parents[3]
CITY: dict[str, Any] = closed_object(city={"enum": ["Oslo"]})
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
WEATHER = ToolSignature("get_weather", CITY)
CLOCK = ToolSignature("clock", NOTHING)

_FILE = Path(__file__).parents[2] / "data" / "tool_calls.json"
WRITTEN: dict[str, str] = json.loads(_FILE.read_text(encoding="utf-8"))
"""A call of the weather, and where there can be two then one of the clock, as templates write it."""


@pytest.mark.parametrize("name", FORMATS)
def test_template_output_is_admitted_and_read(name: str) -> None:
    entry = FORMATS[name]
    machine = RootStateMachine(entry.calls([WEATHER, CLOCK], 1, None if entry.parallel else 1))
    text = WRITTEN[name]
    assert machine.matches(text)
    calls = calls_in(machine.pieces(text))
    assert calls[0].name == "get_weather"
    assert calls[0].arguments == {"city": "Oslo"}
    if entry.parallel:
        assert [(call.name, call.arguments) for call in calls[1:]] == [("clock", {})]
    else:
        assert len(calls) == 1
    assert not machine.matches(text.replace("Oslo", "Rome"))
    assert not machine.matches(text.replace("get_weather", "clock"))


@pytest.mark.parametrize("kind", ["json", "<|constrain|>json"])
def test_recipient_of_gpt_oss_may_stand_in_the_header_of_the_role(kind: str) -> None:
    entry = FORMATS["gpt_oss"]
    machine = RootStateMachine(entry.calls([WEATHER, CLOCK]))
    text = f' to=functions.get_weather<|channel|>commentary {kind}<|message|>{{"city": "Oslo"}}<|call|>'
    (call,) = calls_in(machine.pieces(text))
    assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo"})
    assert not machine.matches(text.replace("Oslo", "Rome"))
    (written,) = split_calls(text, entry)
    assert isinstance(written, WrittenCall)
    assert (written.name, written.arguments) == ("get_weather", '{"city": "Oslo"}')


def test_calls_of_granite_begin_with_either_marker() -> None:
    entry = format_named("granite")
    call = '[{"name": "get_weather", "arguments": {"city": "Oslo"}}]'
    machine = RootStateMachine(Series(Text("text"), entry.calls([WEATHER], 0)))
    for text in (f"<|tool_call|>{call}", f"Sure. <tool_call> {call}"):
        assert [each.arguments for each in calls_in(machine.pieces(text))] == [{"city": "Oslo"}]
        assert any(isinstance(each, WrittenCall) for each in split_calls(text, entry))
    assert not machine.matches("Sure. <tool_call> It is called.")


def test_docs_list_every_format() -> None:
    page = (ROOT / "docs" / "tool-formats.md").read_text(encoding="utf-8")
    rows = page.partition("\n## ")[0].splitlines()
    named = {match[1]: row for row in rows if (match := re.match(r"\| `(\w+)` ", row))}
    assert set(named) == set(FORMATS)
    for name, row in named.items():
        cells = re.split(r"(?<!\\)\|", row)
        parser = FORMATS[name].parser
        assert cells[5].strip() == ("yes" if FORMATS[name].parallel else "no")
        readers = cells[6].strip().split(", ")
        assert (f"M `{parser}`" in readers) is (parser is not None)
        assert ("T" in readers) is has_response_template(FORMATS[name])


def has_response_template(entry: ToolFormat) -> bool:
    try:
        return bool(entry.to_response_template(start_anchor="assistant"))
    except CompositionError:
        return False


@pytest.mark.parametrize("name", FORMATS)
def test_ids_are_read_or_generated_in_the_same_form(name: str) -> None:
    entry = FORMATS[name]
    machine = RootStateMachine(entry.calls([WEATHER, CLOCK]))
    ids = [call.id for call in calls_in(machine.pieces(WRITTEN[name]))]
    match name:
        case "kimi_k2":
            assert ids == ["functions.get_weather:0", "functions.clock:1"]
            assert entry.new_id("clock", 1) == ids[1]
        case "mistral":
            assert ids == ["abcDEF123", None]
        case _:
            assert set(ids) == {None}
    one, other = entry.new_id("f", 0), entry.new_id("f", 1)
    assert one != other
    if name.startswith("mistral"):
        assert re.fullmatch("[A-Za-z0-9]{9}", one)


def count(entry: ToolFormat, least: int, most: int | None) -> set[int]:
    part = entry.calls([CLOCK, WEATHER, ToolSignature("place", CITY)], least, most)
    machine = RootStateMachine(part)
    found = set()
    for seed in range(40):
        pieces = a_walk(part, Random(seed))
        calls = calls_in(pieces)
        assert machine.matches(b"".join(piece.text for piece in pieces)) == are_distinct(calls)
        if are_distinct(calls):
            found.add(len(calls))
    return found


@pytest.mark.parametrize("name", ["hermes", "minimax_m2"])
def test_number_of_calls_is_within_bounds(name: str) -> None:
    entry = FORMATS[name]
    assert count(entry, 0, 2) == {0, 1, 2}
    assert count(entry, 2, 3) == {2, 3}
    assert count(entry, 1, None) == {1, 2, 3}


SPACED = [
    name
    for name, entry in FORMATS.items()
    if entry.wraps == "each" and any(entry.between) and not entry.interleaved
]


@pytest.mark.parametrize("name", SPACED)
def test_answer_may_end_with_the_white_space_that_separates_calls(name: str) -> None:
    entry = FORMATS[name]
    text = WRITTEN[name].rstrip("\n")
    for least, part in ((1, []), (0, [Text("text")])):
        machine = RootStateMachine(Series(*part, entry.calls([WEATHER, CLOCK], least)))
        assert machine.matches(text)
        assert machine.matches(f"{text}\n")
        assert calls_in(machine.pieces(f"{text}\n")) == calls_in(machine.pieces(text))
        assert not machine.matches(f"{text}\n\n")
    single = RootStateMachine(entry.calls([CLOCK], 0, 1))
    assert single.matches("")
    assert not single.matches("\n")


def test_calls_with_equal_arguments_in_another_spelling_are_equal() -> None:
    number = {"type": "object", "properties": {"n": {"type": "number"}, "s": {"type": "string"}}}
    machine = RootStateMachine(FORMATS["hermes"].calls([ToolSignature("f", number)]))
    call = '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'
    first = call.format('{"n": 1, "s": "é"}')
    for arguments in ('{"n":1,"s":"é"}', '{"n": 1, "s": "\\u00e9"}', '{"n": 1.0, "s": "é"}'):
        assert machine.matches(call.format(arguments))
        assert not machine.matches(f"{first}\n{call.format(arguments)}")
    assert machine.matches("\n".join((first, call.format('{"n": 2, "s": "é"}'))))


def test_family_without_parallel_calls_makes_at_most_one() -> None:
    assert count(FORMATS["llama3"], 0, None) == {0, 1}
    with pytest.raises(CompositionError, match="one tool at a time"):
        FORMATS["llama3"].calls([CLOCK], 2)


@pytest.mark.parametrize(
    ("tools", "bounds", "message"),
    [
        ([], (1, None), "no tool"),
        ([CLOCK], (3, 2), "3 calls are required, and 2 are possible"),
        ([CLOCK, WEATHER], (3, None), "fewer than 3 different"),
        ([CLOCK, WEATHER, CLOCK], (1, None), "two tools are called 'clock'"),
    ],
)
def test_calls_that_cannot_be_made_raise(
    tools: list[ToolSignature], bounds: tuple[int, int | None], message: str
) -> None:
    with pytest.raises(CompositionError, match=message):
        RootStateMachine(FORMATS["hermes"].calls(tools, *bounds))


def a_call(tool_format: ToolFormat, name: str, arguments: dict[str, Any]) -> str:
    f = tool_format
    head, foot = (text.replace("{name}", name) for text in (f.head, f.foot[0]))
    call = f"{head}{f.notation.write(arguments)}{foot}"
    if f.wraps == "each":
        return f"{f.start}{call}{f.end}"
    return f"{f.start}{f.opening[0]}{call}{f.closing}{f.end}"


@pytest.mark.parametrize(
    ("name", "tool", "written"),
    [
        ("hermes", 'a"b', "a_b"),
        ("lfm2", "get-weather", "get_weather"),
        ("gemma3", "import", "import_"),
        ("gemma3", "module.class", "module_class"),
        ("mistral_args", "a.b", "a_b"),
        ("function_gemma", "a-b", "a_b"),
        ("olmo3", "_a", "a"),
        ("glm4_5", "", "_"),
    ],
)
def test_unwritable_tool_name_has_an_alias(name: str, tool: str, written: str) -> None:
    tool_format = FORMATS[name]
    signature = ToolSignature(tool, NOTHING)
    names = CallNames(tool_format, [signature])
    assert (names.write(tool), names.read(written)) == (written, tool)
    root = RootStateMachine(tool_format.calls([signature]))
    text = a_call(tool_format, *names.call(tool, {}))
    assert root.matches(text)
    (call,) = split_calls(text, tool_format)
    assert isinstance(call, WrittenCall)
    assert call.name == written


def test_aliases_of_tools_differ() -> None:
    tools = [ToolSignature(name, NOTHING) for name in ("a-b", "a_b", "a b", "a_b_")]
    names = CallNames(FORMATS["lfm2"], tools)
    written = [names.write(tool.name) for tool in tools]
    assert len(set(written)) == len(tools)
    assert written[1] == "a_b"
    assert [names.read(each) for each in written] == [tool.name for tool in tools]
    # The prompt describes all tools, and one of them is called.
    (signature,) = names.signatures(tools[:1])
    root = RootStateMachine(FORMATS["lfm2"].calls([signature]))
    assert root.matches(f"<|tool_call_start|>[{written[0]}()]<|tool_call_end|>")


def test_history_and_definitions_have_written_names() -> None:
    parameters = {
        "type": "object",
        "properties": {"$filter": {"type": "string"}, "in": {"$ref": "#/properties/$filter"}},
        "required": ["$filter"],
    }
    tool = ToolSignature("get-weather", parameters)
    names = CallNames(FORMATS["gemma4"], [tool])
    arguments = {"$filter": "x"}
    function = {"name": "get-weather", "arguments": arguments}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "function": function}]},
        {"role": "tool", "content": "", "name": "get-weather", "tool_call_id": "1"},
    ]
    call, result = names.messages(messages)
    assert call["tool_calls"][0]["function"] == {
        "name": "get-weather",
        "arguments": {"_filter": "x"},
    }
    assert result["name"] == "get-weather"
    pythonic = CallNames(FORMATS["lfm2"], [tool])
    call, result = pythonic.messages(messages)
    assert call["tool_calls"][0]["function"]["name"] == result["name"] == "get_weather"
    assert function["arguments"] is arguments == {"$filter": "x"}
    definition = pythonic.definition(
        {"type": "function", "function": {"name": "get-weather", "parameters": parameters}}
    )
    assert definition["function"] == {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"_filter": {"type": "string"}, "in_": {"$ref": "#/properties/_filter"}},
            "required": ["_filter"],
        },
    }
    # A tool that is no longer there has the same written name.
    assert CallNames(FORMATS["lfm2"]).call("get-weather", arguments) == (
        "get_weather",
        {"_filter": "x"},
    )


def test_optional_properties_that_cannot_be_written_warn_with_their_pointer() -> None:
    schema = {
        "type": "object",
        "properties": {"headers": {"type": "object"}, "url": {"type": "string"}},
        "required": ["url"],
    }
    part = FORMATS["minimax_m3"].calls([ToolSignature("get", schema)])
    with pytest.warns(ToolSchemaWarning, match=r"'get'.*#/properties/headers"):
        RootStateMachine(part)
    required = FORMATS["minimax_m3"].calls(
        [ToolSignature("get", {**schema, "required": ["headers"]})]
    )
    with pytest.raises(UnsupportedSchemaError, match="the tool 'get'") as caught:
        RootStateMachine(required)
    assert caught.value.pointer == "/properties/headers"


@pytest.mark.parametrize("name", FORMATS)
def test_refused_schema_error_names_tool_and_pointer(name: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": "no"}}}
    part = FORMATS[name].calls([CLOCK, ToolSignature("count", schema)])
    with pytest.raises(InvalidSchemaError, match="the tool 'count'") as caught:
        RootStateMachine(part)
    assert caught.value.pointer.startswith("/properties/n")


def test_unsatisfiable_arguments_raise() -> None:
    for name in ("hermes", "longcat"):
        part = FORMATS[name].calls([ToolSignature("never", False)])
        with pytest.raises(UnsatisfiableSchemaError, match="the tool 'never'"):
            RootStateMachine(part)


def test_longcat_writes_calls_without_arguments_as_json() -> None:
    optional = ToolSignature("f", {"type": "object", "properties": {"a": {"type": "integer"}}})
    machine = RootStateMachine(FORMATS["longcat"].calls([optional, CLOCK, WEATHER]))
    tags = "<longcat_arg_key>a</longcat_arg_key>\n<longcat_arg_value>1</longcat_arg_value>\n"
    empty = '<longcat_tool_call>\n{"name": "f", "arguments": {}}\n</longcat_tool_call>'
    full = f"<longcat_tool_call>f\n{tags}</longcat_tool_call>"
    assert calls_in(machine.pieces(full)) == [Call("f", {"a": 1}, raw=tags)]
    assert calls_in(machine.pieces(empty)) == [Call("f", {}, raw="{}")]
    assert not machine.matches("<longcat_tool_call>f\n</longcat_tool_call>")
    assert not machine.matches(empty.replace("{}", '{"a": 1}'))


def test_format_names_are_case_insensitive() -> None:
    assert format_named("Kimi-K2") is FORMATS["kimi_k2"]
    with pytest.raises(CompositionError, match="Perhaps hermes"):
        format_named("hermis")
    with pytest.raises(CompositionError, match=r"Known are minimax_m3, .*hermes, "):
        format_named("???")


def test_custom_format() -> None:
    own = replace(FORMATS["hermes"], name="own", start="CALL ", head="{name} ", foot=("",), end=";")
    machine = RootStateMachine(own.calls([WEATHER, CLOCK], 0))
    assert machine.matches('CALL get_weather {"city": "Oslo"};\nCALL clock {};')
    assert machine.matches("")
    assert not machine.matches("CALL clock {}")


@pytest.mark.parametrize(
    "name", [name for name, entry in FORMATS.items() if isinstance(entry.notation, JsonNotation)]
)
def test_arguments_are_spaced_or_compact_as_a_whole(name: str) -> None:
    names = ("a", "b")
    schema = {
        "type": "object",
        "properties": {each: {"const": 1} for each in names},
        "required": [*names],
        "additionalProperties": False,
    }
    entry, tool = FORMATS[name], ToolSignature("clock", schema)
    spaced = '{"a": 1, "b": 1}'
    text = tool_text_of_clock(entry, spaced)
    machine = RootStateMachine(entry.calls([tool], 1, 1))
    assert machine.matches(text)
    assert machine.matches(text.replace(spaced, '{"a":1,"b":1}'))
    assert not machine.matches(text.replace(spaced, '{"a":1, "b": 1}'))
    assert not machine.matches(text.replace(spaced, '{"a": 1,"b": 1}'))
    own = in_compact_json(entry)
    compact = RootStateMachine(own.calls([tool], 1, 1))
    assert compact.matches(tool_text_of_clock(own, '{"a":1,"b":1}'))
    assert not compact.matches(text)


def tool_text_of_clock(entry: ToolFormat, arguments: str) -> str:
    head, foot = (text.replace("{id}", "1") for text in (entry.head, entry.foot[0]))
    call = f"{head.replace('{name}', 'clock')}{arguments}{foot}"
    return f"{entry.start}{entry.opening[0]}{call}{entry.closing}{entry.end}"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, entry in FORMATS.items()
        if isinstance(entry.notation, JsonNotation) and len(entry.end) > 1
    ],
)
@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")])
def test_strings_in_json_contain_no_end_delimiter(name: str, separators: tuple[str, str]) -> None:
    entry = FORMATS[name]
    node = RootStateMachine(entry.calls([ToolSignature("clock", {"type": "object"})], 1, 1))
    end = entry.end

    def is_written(arguments: Any) -> bool:
        text = json.dumps(arguments, separators=separators, ensure_ascii=False)
        return node.matches(tool_text_of_clock(entry, text))

    assert is_written({"a": end[:-1], "b": [{"c": end[1:]}]})
    # JSON escapes a line feed, so no parser finds such a delimiter in a string.
    is_escaped = not end.isprintable()
    for arguments in ({"a": end}, {"a": 1, "b": [{"c": f"x{end}x"}]}, {end: 1}):
        assert is_written(arguments) == is_escaped


def test_formats_without_json_have_no_compact_layout() -> None:
    with pytest.raises(CompositionError, match="does not write its arguments as JSON"):
        in_compact_json(FORMATS["lfm2"])


@pytest.mark.parametrize("name", FORMATS)
def test_whitespace_option_of_arguments(name: str) -> None:
    """It is an option where a format writes JSON, and refused where it does not."""
    entry = FORMATS[name]
    schema = {
        **CITY,
        "properties": {
            "city": {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3}
        },
    }
    calls = entry.calls([ToolSignature("f", schema)], options={"whitespace": "indented"})
    if not entry.notation.has_json:
        with pytest.raises(CompositionError, match="white space"):
            RootStateMachine(calls)
        return
    texts = [calls_in(a_walk(calls, Random(seed))) for seed in range(3)]
    assert all(call.arguments["city"][:2] == [1, 1] for found in texts for call in found)


@pytest.mark.parametrize(
    "options",
    [
        {"whitespace": "wide"},
        {"property_order": "none"},
        {"layout": "json"},
        {"whitespace": ["json"]},
    ],
    ids=str,
)
def test_invalid_options_of_arguments_raise(options: dict[str, Any]) -> None:
    for entry in FORMATS.values():
        with pytest.raises(CompositionError):
            RootStateMachine(entry.calls([WEATHER], options=options))


@pytest.mark.parametrize("name", FORMATS)
def test_own_delimiters_stand_around_calls(name: str) -> None:
    own = FORMATS[name].with_delimiters("```tool\n", "\n```")
    part = own.calls([WEATHER, CLOCK], 1, 1)
    pieces = a_walk(part, Random(name))
    text = b"".join(piece.text for piece in pieces).decode()
    assert text.startswith("```tool\n")
    assert text.endswith("\n```")
    machine = RootStateMachine(part)
    assert calls_in(machine.pieces(text)) == calls_in(pieces)
    before = RootStateMachine(Series(Text(), Optional(part)))
    assert before.pieces(f"So: {text}")[0].text == b"So: "
    assert not before.matches("So: ```tool\nnothing")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("hermes", '\n{"name": "clock", "arguments": {}}\n'),
        ("llama3", '{"name": "clock", "parameters": {}}'),
        ("mistral", '[{"name": "clock", "arguments": {}}]'),
        ("longcat", '\n{"name": "clock", "arguments": {}}\n'),
        ("minicpm5", '<function name="clock"></function>'),
        ("gemma3", "\nclock()\n"),
    ],
)
def test_own_delimiters_keep_the_white_space_unless_they_have_their_own(
    name: str, call: str
) -> None:
    own = FORMATS[name].with_delimiters("<c>", "</c>")
    assert RootStateMachine(own.calls([CLOCK])).matches(f"<c>{call}</c>")
    fenced = FORMATS[name].with_delimiters("```\n", "\n```")
    assert RootStateMachine(fenced.calls([CLOCK])).matches(f"```\n{call.strip()}\n```")
    assert own.parser is None
    assert own != FORMATS[name]
    assert own.with_delimiters("<c>", "</c>") == own


def test_own_delimiters_need_no_token_of_the_replaced_ones() -> None:
    own = FORMATS["kimi_k2"].with_delimiters("<calls>", "</calls>")
    assert "<|tool_calls_section_begin|>" not in own.tokens
    assert "<|tool_call_begin|>" in own.tokens
    assert FORMATS["mistral"].with_delimiters("<calls>", "</calls>").tokens == ()


@pytest.mark.parametrize(("begin", "end"), [("", "x"), (3, "x"), ("x", None), ("\ud800", "x")])
def test_invalid_delimiters_raise(begin: Any, end: Any) -> None:
    with pytest.raises(CompositionError) as caught:
        FORMATS["hermes"].with_delimiters(begin, end)
    assert "tool_delimiters" in (caught.value.part or "")
