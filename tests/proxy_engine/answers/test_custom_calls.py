"""Calls of custom tools in the formats of all families, byte by byte: masks, events, calls."""

from __future__ import annotations

import pytest

from proxy_engine.answers.reader import AnswerReader
from proxy_engine.results.events import Event, ToolCallFinished, ToolCallStarted, ToolInputDelta
from state_machines import GrammarStateMachine, Vocabulary
from state_machines.root import RootStateMachine
from state_machines.tool_calls import FORMATS, ToolFormat, ToolSignature, input_schema

END = 256
BYTES = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), b"<end>"],
    end_token_ids=[END],
    special_tokens={"<end>": END},
)
PATCH = """
start: "*** Begin Patch" LF line+ "*** End Patch" LF?
line: ("+" | "-" | " ") /(.*)/ LF
%import common.LF
"""
TOOL = ToolSignature("patch", input_schema(), GrammarStateMachine.from_lark(PATCH))
INPUT = '*** Begin Patch\n+"é\\\n-</x>\t😀\n*** End Patch\n'


@pytest.mark.parametrize("entry", FORMATS.values(), ids=FORMATS)
def test_custom_call_of_a_family(entry: ToolFormat) -> None:
    own = entry.custom or entry
    head = own.head.replace("{name}", "patch").replace("{id}", "1")
    foot = own.foot[0].replace("{name}", "patch").replace("{id}", "1")
    call = f"{own.opening[0]}{head}{own.notation.write({'input': INPUT})}{foot}"
    text = f"{own.start}{call}{own.closing}{own.end}".encode()
    matcher = RootStateMachine(entry.calls([TOOL], max_calls=1), BYTES).matcher(BYTES)
    reader = AnswerReader(new_id=entry.new_id)
    events: list[Event] = []
    for index, byte in enumerate(text):
        assert index % 16 or matcher.allowed_tokens()[byte]
        matcher.advance(byte)
        events += reader.read(matcher.take_pieces())
    assert matcher.is_accepting
    events += reader.read(matcher.take_pieces(is_last=True), is_last=True)
    started, *deltas, finished = events
    assert isinstance(started, ToolCallStarted)
    assert started.is_custom
    inputs = [delta.input for delta in deltas if isinstance(delta, ToolInputDelta)]
    assert "".join(inputs) == INPUT
    assert len(inputs) == len(deltas) > len(INPUT) // 2
    assert isinstance(finished, ToolCallFinished)
    (read,) = reader.calls
    assert read.input == INPUT == finished.arguments["input"]
