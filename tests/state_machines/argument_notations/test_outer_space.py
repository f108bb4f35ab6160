"""White space at the ends of strings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation_families import VERBATIM
from schema_strategies import examples

from state_machines.argument_notations import TaggedNotation

NOTATION = pytest.mark.parametrize("notation", VERBATIM, ids=lambda notation: notation.name)
EDIT = "    def f(self):\n        return 1\n"


def of_a(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


@NOTATION
@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": [",", "\n"]}, [",", "\n"]),
        ({"const": "\n"}, ["\n"]),
        ({"type": "string"}, [EDIT, "\tx", " ", "\n", "", " x ", "\n\nx"]),
        ({"type": "string", "pattern": "^ +$"}, [" ", "   "]),
    ],
)
def test_strings_keep_white_space_at_their_ends(
    notation: TaggedNotation, schema: Any, values: list[str]
) -> None:
    compiled = notation.compile(of_a(schema))
    for value in values:
        text = notation.write({"a": value})
        assert compiled.node.matches(text.encode()), value
        assert compiled.read(text) == {"a": value}


@NOTATION
@examples(40)
@given(st.text(" \n\tx0n", max_size=6), st.sampled_from(["string", ["string", "integer"]]))
def test_written_strings_are_read_back(notation: TaggedNotation, value: str, kind: Any) -> None:
    compiled = notation.compile(of_a({"type": kind}))
    text = notation.write({"a": value})
    if compiled.node.matches(text.encode()):
        # The text of an integer is the integer.
        assert compiled.read(text)["a"] in (value, int(value) if value.isdigit() else value)
    else:
        assert kind != "string"


@NOTATION
def test_notations_for_stripping_parsers_write_no_outer_space(notation: TaggedNotation) -> None:
    compiled = notation.trimmed.compile(of_a({"type": "string"}))
    for value in (" x", "x\n", " "):
        assert not compiled.node.matches(notation.write({"a": value}).encode())
    assert compiled.node.matches(notation.write({"a": "x y"}).encode())
    kept = notation.trimmed.compile(of_a({"enum": [",", "\n"]}))
    assert kept.node.matches(notation.write({"a": ","}).encode())
