"""The rows of the table of tool formats: their length, and the call that stands below each."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

import pytest
from object_schemas import closed_object

from state_machines.root import RootStateMachine
from state_machines.tool_calls import (
    FORMATS,
    ToolFormat,
    ToolSignature,
    families,
    json_families,
    json_list_families,
    pair_families,
    tag_families,
)

WEATHER = ToolSignature(
    "get_weather",
    closed_object(city={"type": "string"}),
)
MODULES = (json_families, json_list_families, tag_families, pair_families, families)
MOST_LINES = 12


def rows() -> Iterator[tuple[ToolFormat, int, str]]:
    """Yield the rows that have an example, their numbers of lines, and the examples."""
    for module in MODULES:
        body = ast.parse(inspect.getsource(module)).body
        for row, example in pairwise(body):
            match row, example:
                case (
                    ast.Assign(targets=[ast.Name(name)]),
                    ast.Expr(ast.Constant(str() as text)),
                ) if isinstance(entry := vars(module)[name], ToolFormat):
                    yield entry, (row.end_lineno or 0) - row.lineno + 1, text


ROWS = {entry.name: (entry, lines, example) for entry, lines, example in rows()}


def call_of(entry: ToolFormat) -> str:
    head, foot = (
        text.replace("{name}", "get_weather").replace("{id}", FIRST_IDS.get(entry.name, ""))
        for text in (entry.head, entry.foot[0])
    )
    call = f"{head}{entry.notation.write({'city': 'Oslo'})}{foot}"
    return f"{entry.start}{entry.opening[0]}{call}{entry.closing}{entry.end}"


FIRST_IDS = {"kimi_k2": "0", "kimi_k3": "1", "cohere": "0", "cohere_text": "0", "cohere_cofl": "0"}


def test_each_format_is_a_row_with_an_example() -> None:
    assert {name: entry for name, (entry, *_) in ROWS.items()} == dict(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_row_has_at_most_twelve_lines_and_writes_its_example(name: str) -> None:
    entry, lines, example = ROWS[name]
    assert lines <= MOST_LINES
    assert example == call_of(entry)
    assert RootStateMachine(entry.calls([WEATHER])).matches(example)
