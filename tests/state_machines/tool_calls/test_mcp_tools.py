"""Tools of real MCP servers in the formats of model families."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from call_walks import calls_in
from data_files import NO_MCP_TOOLS, mcp_tool_definitions
from family_vocabularies import family_vocabulary
from judging import Judge

from state_machines.completion import Guard
from state_machines.errors import UnsupportedSchemaError
from state_machines.root import RootStateMachine
from state_machines.tool_calls import (
    FORMATS,
    CallNames,
    ToolFormat,
    ToolSignature,
    WrittenCall,
    split_calls,
)

# Formats that write JSON, tags, Gemma's notation and Python.
ACCEPTING = ("hermes", "qwen3_coder", "gemma4", "lfm2")
# Elements need properties that the schema lists, and FunctionGemma's arguments are scalars.
REFUSING = ("minimax_m3", "function_gemma")
DEFINITIONS = mcp_tool_definitions()
VOCABULARIES = cache(family_vocabulary)
MAX_TOKENS = 2_000
RANDOM_TOKENS = 60

pytestmark = [
    pytest.mark.skipif(not DEFINITIONS, reason=NO_MCP_TOOLS),
    pytest.mark.filterwarnings("ignore::state_machines.ToolSchemaWarning"),
]


def signature(definition: dict[str, Any]) -> ToolSignature:
    schema = {"additionalProperties": False, **definition["inputSchema"]}
    return ToolSignature(definition["name"], schema)


def walk(entry: ToolFormat, tool: ToolSignature, seed: int) -> None:
    """Write a random call, judge its arguments, and read it back."""
    vocabulary = VOCABULARIES(entry)
    random, machine = Random(seed), RootStateMachine(entry.calls([tool], 1, 1), vocabulary)
    guard, written = Guard(machine.matcher(vocabulary), MAX_TOKENS), []
    ends = set(vocabulary.end_token_ids)
    while not guard.matcher.is_accepting:
        token = guard.plan.tokens[0]
        if len(written) < RANDOM_TOKENS:
            mask = guard.mask(guard.matcher.allowed_tokens())
            allowed = [token for token in np.flatnonzero(mask).tolist() if token not in ends]
            token = random.choice(allowed)
        guard.advance(token)
        written.append(token)
    text = b"".join(vocabulary.token_bytes[token] or b"" for token in written)
    (meant,) = calls_in(machine.pieces(text))
    assert meant.name == tool.name
    assert Judge(tool.parameters).admits(meant.arguments), meant.arguments
    plain = text.replace(b"\xff", b"").decode()
    (call,) = [piece for piece in split_calls(plain, entry) if isinstance(piece, WrittenCall)]
    assert CallNames(entry, [tool]).read(call.name) == tool.name
    assert call.format.notation.compile(tool.parameters).read(call.arguments) == meant.arguments


@pytest.mark.parametrize("name", ACCEPTING)
def test_calls_of_a_sample_of_tools_are_read_back(name: str) -> None:
    for seed, definition in enumerate(DEFINITIONS[::7]):
        walk(FORMATS[name], signature(definition), seed)


def test_tools_have_names_that_every_format_writes() -> None:
    tools = [signature(definition) for definition in DEFINITIONS]
    for entry in FORMATS.values():
        names = CallNames(entry, tools)
        written = {tool.name: names.write(tool.name) for tool in tools}
        assert len(set(written.values())) == len(written)
        for name, each in written.items():
            assert re.fullmatch(entry.names, each)
            assert names.read(each) == name
            assert each == name or not entry.can_write_name(name)


@pytest.mark.soak
@pytest.mark.parametrize("name", FORMATS)
def test_calls_of_all_tools_are_read_back(name: str) -> None:
    refused = 0
    for seed, definition in enumerate(DEFINITIONS):
        try:
            walk(FORMATS[name], signature(definition), seed)
        except UnsupportedSchemaError as error:
            assert name in REFUSING, error
            assert error.pointer
            refused += 1
    assert refused < len(DEFINITIONS) / 5, refused
