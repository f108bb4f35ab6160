"""Inputs of custom tools in the formats of all families."""

import json
from typing import Any

import pytest

from state_machines import GrammarStateMachine, StateMachine
from state_machines.argument_notations import JSON, Notation
from state_machines.argument_notations.raw_text import RAW_INPUT
from state_machines.errors import SchemaError
from state_machines.grammar.encoding import decoded
from state_machines.root import RootStateMachine
from state_machines.tool_calls import (
    CALL,
    FORMATS,
    CallArguments,
    InputDecoder,
    ToolFormat,
    ToolSignature,
    any_text,
    input_schema,
    split_calls,
)

PRINTS = GrammarStateMachine('root ::= "print(\\"" [^"]* "\\")\\n" root | ""')
PROGRAM = 'print("null")\nprint("a\\\n\u00e9😀</x>\t")\n'
NOTATIONS = {
    entry.notation.name: entry.notation
    for each in FORMATS.values()
    for entry in (each.custom or each,)
}


def arguments(entry: ToolFormat, machine: StateMachine, **options: Any) -> CallArguments:
    tool = ToolSignature("run", input_schema(), machine)
    own = entry.custom or entry
    return CallArguments(
        CALL,
        tool=tool,
        schema=tool.parameters,
        notation=own.notation,
        avoid=own.avoid,
        options=options,
    )


@pytest.mark.parametrize("entry", FORMATS.values(), ids=FORMATS)
def test_families_write_and_read_inputs_of_a_grammar(entry: ToolFormat) -> None:
    own = entry.custom or entry
    part = arguments(entry, PRINTS)
    node = part.machine().start
    written = own.notation.write({"input": PROGRAM})
    assert node.matches(written.encode())
    assert part.parse(written) == {"input": PROGRAM}
    assert not node.matches(own.notation.write({"input": PROGRAM + "exit"}).encode())
    whole = f"{entry.start}{own.head.replace('{name}', 'run')}{written}"
    (call,) = split_calls(_with_ends(entry, own, whole), entry)
    assert not isinstance(call, str)
    assert getattr(call, "arguments", call) == written


def _with_ends(entry: ToolFormat, own: ToolFormat, text: str) -> str:
    opening = entry.start + own.opening[0]
    text = text.replace(entry.start, opening, 1).replace("{id}", "1")
    return f"{text}{own.foot[0]}{own.closing}{own.end}"


@pytest.mark.parametrize("entry", FORMATS.values(), ids=FORMATS)
def test_free_text_is_written_as_it_is(entry: ToolFormat) -> None:
    own = entry.custom or entry
    part = arguments(entry, any_text())
    start = part.machine().start
    for text in ("", " null\n", "null", "<", 'a "b" \\n', "{}"):
        written = own.notation.write({"input": text})
        assert start.matches(written.encode()), text
        assert part.parse(written) == {"input": text}


@pytest.mark.parametrize("notation", NOTATIONS.values(), ids=NOTATIONS)
def test_decoder_finds_the_input_in_every_cut(notation: Notation) -> None:
    written = notation.write({"input": PROGRAM})
    for size in (1, 3, 1000):
        decoder = InputDecoder(notation)
        pieces = [decoder.add(written[at : at + size]) for at in range(0, len(written), size)]
        assert "".join(pieces) == decoder.decoded == PROGRAM


@pytest.mark.parametrize("separators", [(",", ":"), (" ,\n", " :\n ")])
def test_decoder_reads_json_with_any_white_space_and_escapes(separators: tuple[str, str]) -> None:
    decoder = InputDecoder(JSON)
    written = json.dumps({"input": PROGRAM}, separators=separators)
    assert "".join(map(decoder.add, written)) == PROGRAM


def test_input_cannot_contain_the_text_that_ends_it() -> None:
    own = FORMATS["qwen3_coder"]
    node = arguments(own, any_text()).machine().start
    assert node.matches(own.notation.write({"input": "</parameter"}).encode())
    assert not node.matches(own.notation.write({"input": "</parameter>"}).encode())


def test_grammar_whose_texts_all_contain_the_end_is_refused() -> None:
    machine = GrammarStateMachine('root ::= "x" root | "</parameter>" [a-z]*')
    with pytest.raises(SchemaError) as caught:
        arguments(FORMATS["minimax_m2"], machine).machine()
    assert caught.value.tool == "run"
    closing = GrammarStateMachine('root ::= "<|call|>"')
    with pytest.raises(SchemaError, match="every input contains"):
        RAW_INPUT.compile(input_schema(), input=decoded(closing.start))


def test_custom_tools_and_functions_share_an_answer() -> None:
    function = ToolSignature("add", {"type": "object", "additionalProperties": False})
    custom = ToolSignature("run", input_schema(), PRINTS)
    machine = RootStateMachine(FORMATS["hermes"].calls([function, custom]))
    call = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
    text = json.dumps({"input": PROGRAM})
    assert machine.matches(call % ("add", "{}") + "\n" + call % ("run", text))
    assert not machine.matches(call % ("run", '{"input": "exit"}'))
