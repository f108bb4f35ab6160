"""The JSON of arguments in pieces, in every notation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state_machines.argument_notations import JSON, Notation
from state_machines.tool_calls import CALL, FORMATS, ArgumentStream, CallArguments, ToolSignature

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "content": {"type": "string"},
        "line": {"type": "integer"},
        "options": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        },
        "mode": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    },
    "additionalProperties": False,
}
NOTATIONS = {name: form.notation for name, form in FORMATS.items() if form.notation is not JSON}
CODE = "".join(f"    if a[{n}] < b.c and d != 'e':\n        return \"{n}\\n\"\n" for n in range(40))


def arguments_of(notation: Notation) -> CallArguments:
    """The arguments of a tool; without an object if the notation writes none."""
    schema = SCHEMA
    if notation.name == "function-gemma":
        properties = {
            name: each for name, each in SCHEMA["properties"].items() if name != "options"
        }
        schema = {**SCHEMA, "properties": properties}
    return CallArguments(
        CALL, tool=ToolSignature("write_file", schema), schema=schema, notation=notation
    )


def pieces_of(arguments: CallArguments, text: str, step: int) -> list[str]:
    """The pieces of the JSON, without empty ones, of a text that comes by ``step`` characters."""
    stream = ArgumentStream(arguments)
    pieces = [stream.add(text[at : at + step]) for at in range(0, len(text), step)]
    return [*filter(None, [*pieces, stream.end(arguments.parse(text))])]


@pytest.mark.parametrize("name", NOTATIONS)
def test_long_string_comes_in_many_pieces(name: str) -> None:
    notation = NOTATIONS[name]
    arguments = arguments_of(notation)
    text = notation.write({"path": "a.py", "content": CODE, "line": 3})
    pieces = pieces_of(arguments, text, 3)
    assert "".join(pieces) == json.dumps(arguments.parse(text), ensure_ascii=False)
    assert len(pieces) > 8


TEXTS = st.text(st.sampled_from("ab<>/\"'\\\n {}[],:=|é1")) | st.sampled_from(["x" * 150, CODE])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "path": TEXTS,
        "content": TEXTS,
        "line": st.integers(),
        "options": st.fixed_dictionaries({}, optional={"tags": st.lists(TEXTS, max_size=3)}),
        "mode": st.none() | TEXTS,
        "either": st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    },
)


@pytest.mark.parametrize("name", NOTATIONS)
@given(values=VALUES, step=st.integers(1, 40))
def test_pieces_are_the_json_of_the_arguments(name: str, values: dict[str, Any], step: int) -> None:
    arguments = arguments_of(NOTATIONS[name])
    try:
        text = NOTATIONS[name].write(values)
        read = arguments.parse(text)
    except ValueError:
        # The notation cannot write a value.
        return
    assert "".join(pieces_of(arguments, text, step)) == json.dumps(read, ensure_ascii=False)
