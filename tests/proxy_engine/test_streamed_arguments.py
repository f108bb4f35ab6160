"""Arguments of calls in the stream of an engine."""

from __future__ import annotations

import json

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object
from scripted_answers import ScriptedModel

from proxy_engine import InferenceEngine, Tool, ToolCallDelta, ToolCallFinished
from proxy_engine.conversation.tool_text import write_calls
from state_machines.tool_calls import FORMATS

TOOL = Tool(
    "write_file",
    parameters=closed_object(path={"type": "string"}, content={"type": "string"}),
)
TEXT = "".join(f"def f{number}(a):\n    return a + {number}\n" for number in range(12))
ARGUMENTS = {"path": "a.py", "content": f"{TEXT}end"}


ANSWERS = {name: write_calls(form, [(TOOL.name, ARGUMENTS)]) for name, form in FORMATS.items()}
# Those that the tiny tokenizer can write.
NAMES = [name for name, text in ANSWERS.items() if text.isascii() and not FORMATS[name].tokens]


@pytest.mark.parametrize("name", NAMES)
def test_long_arguments_come_in_pieces(name: str, tiny_tokenizer: TokenizerWrapper) -> None:
    # The tools are described in a system message.
    model = ScriptedModel(tiny_tokenizer, {2: ANSWERS[name]})
    with InferenceEngine(model, tiny_tokenizer, tool_format=name) as engine:
        events = list(
            engine.stream(
                "Write.", tools=[TOOL], tool_choice="required", max_tokens=2000, temperature=0
            )
        )
    pieces = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    (call,) = [event for event in events if isinstance(event, ToolCallFinished)]
    assert call.arguments == ARGUMENTS
    assert json.loads("".join(pieces)) == ARGUMENTS
    assert len(pieces) > 3
