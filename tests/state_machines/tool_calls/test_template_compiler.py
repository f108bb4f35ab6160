"""Response templates as tool formats: transformers reads what the grammar writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from response_templates import DOCUMENTED, ENDS, SPECIAL, read_calls, templates
from small_vocabulary import small_vocabulary

from state_machines import StateMachine
from state_machines.completion import Guard
from state_machines.errors import SchemaError
from state_machines.root import Part, Repeat, RootStateMachine, Series
from state_machines.tool_calls import (
    FORMATS,
    CallArguments,
    ToolFormat,
    ToolSignature,
    compile_response_template,
)

VOCABULARY = small_vocabulary()
HERMES = FORMATS["hermes"]


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TOOLS = [
    ToolSignature("text", schema(s={"type": "string"})),
    ToolSignature("numbers", schema(n={"type": "number"}, i={"type": "integer"})),
    ToolSignature("union", schema(u={"type": ["string", "integer", "null"]})),
    ToolSignature("choice", schema(b={"anyOf": [{"type": "boolean"}, {"type": "number"}]})),
    ToolSignature("array", schema(a={"type": "array", "items": {"type": ["string", "null"]}})),
    ToolSignature("map", {"type": "object", "additionalProperties": {"type": "string"}}),
]


def compiled(fields: Mapping[str, Any], example: str = "") -> ToolFormat:
    template = {"start_anchor": "<assistant>", "fields": fields}
    return compile_response_template(template, HERMES, example=example, special=SPECIAL, ends=ENDS)


def arguments_in(part: Part | None) -> list[CallArguments]:
    match part:
        case CallArguments():
            return [part]
        case Series():
            return [found for each in part.parts for found in arguments_in(each)]
        case Repeat():
            return arguments_in(part.part)
    return []


def a_word(machine: StateMachine, random: Random) -> str:
    guard = Guard(machine.matcher(VOCABULARY), 28)
    written = b""
    while True:
        allowed = np.flatnonzero(guard.mask(guard.matcher.allowed_tokens(), exact=True)).tolist()
        token_id = random.choice(allowed)
        if token_id in VOCABULARY.end_token_ids:
            break
        written += VOCABULARY.token_bytes[token_id] or b""
        guard.advance(token_id)
    return written.decode()


def walks(tool_format: ToolFormat, seed: int) -> Iterator[tuple[str, ToolSignature, Any]]:
    """Yield random arguments of each tool, their text and their value."""
    random = Random(seed)
    for tool in TOOLS:
        try:
            (part,) = arguments_in(tool_format.calls([tool], 1, 1))
        except SchemaError:
            # The notation cannot write the property.
            continue
        text = a_word(part.machine(), random)
        yield text, tool, part.parse(text)


def answer(tool_format: ToolFormat, tool: ToolSignature, arguments: str) -> str:
    f = tool_format
    head, foot = f.head.replace("{name}", tool.name).replace("{id}", "1"), f.foot[0]
    return f"{f.start}{f.opening[0]}{head}{arguments}{foot}{f.closing}{f.end}"


def check(fields: dict[str, Any], seed: int) -> None:
    tool_format = compiled(fields)
    random = Random(seed)
    for arguments, tool, value in walks(tool_format, seed):
        text = answer(tool_format, tool, arguments)
        assert RootStateMachine(tool_format.calls([tool])).matches(text)
        jsonschema.validate(value, tool.parameters)
        for pieces in (None, random):
            ((name, read),) = read_calls(fields, text, TOOLS, pieces)
            assert (name, read) == (tool.name, value), text


@pytest.mark.parametrize("name", DOCUMENTED)
def test_transformers_reads_the_arguments_of_documented_templates(name: str) -> None:
    for seed in range(2):
        check(DOCUMENTED[name], seed)


@given(templates(), st.integers(0, 1_000))
@settings(
    deadline=None,
    max_examples=10,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
def test_transformers_reads_the_arguments_of_random_templates(
    fields: dict[str, Any], seed: int
) -> None:
    check(fields, seed)
