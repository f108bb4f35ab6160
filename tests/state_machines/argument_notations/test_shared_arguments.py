"""Arguments that requests share, and that are compiled when a call needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from small_vocabulary import brute_force_mask

from state_machines import Vocabulary
from state_machines.argument_notations import JsonNotation
from state_machines.argument_notations.notation import (
    CompiledArguments,
    NotationOptions,
    Schema,
)
from state_machines.argument_notations.shared_arguments import shared_arguments
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import SchemaError
from state_machines.root import RootStateMachine
from state_machines.tool_calls import ToolSignature, format_named

PLAIN: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    "required": ["a"],
}


@dataclass(frozen=True)
class CountingNotation(JsonNotation):
    """JSON that lists the schemas that are compiled."""

    compiled: list[Schema] = field(default_factory=list, compare=False)

    def _compile(self, schema: Schema, options: NotationOptions) -> CompiledArguments:
        self.compiled.append(schema)
        return super()._compile(schema, options)


@pytest.fixture
def notation(request: pytest.FixtureRequest) -> CountingNotation:
    return CountingNotation(f"counting {request.node.name}")


def test_plain_arguments_are_compiled_when_they_begin(notation: CountingNotation) -> None:
    shared = shared_arguments(notation, PLAIN, {})
    machine = shared.machine()
    assert not notation.compiled
    assert machine.matches('{"a": "x", "b": [1]}')
    assert not machine.matches('{"b": [1]}')
    assert shared_arguments(notation, dict(PLAIN), {}).machine() is machine
    assert notation.compiled == [PLAIN]


def test_compilation_is_not_charged_to_the_budget_of_a_mask(notation: CountingNotation) -> None:
    machine = shared_arguments(notation, PLAIN, {}).machine()
    with step_budget(200):
        assert machine.matches('{"a": "x"}')


def test_schemas_that_differ_share_nothing(notation: CountingNotation) -> None:
    def machine(schema: Any, **options: Any) -> object:
        return shared_arguments(notation, schema, options).machine()

    swapped = dict(reversed(PLAIN["properties"].items()))
    found = [
        machine(PLAIN),
        machine({**PLAIN, "properties": swapped}),
        machine({**PLAIN, "properties": {"a": {"const": 1}}}),
        machine({**PLAIN, "properties": {"a": {"const": True}}}),
        machine({**PLAIN, "properties": {"a": {"const": 1.0}}}),
        machine(PLAIN, additional_properties="closed"),
        machine(PLAIN, avoid=("</x>",)),
    ]
    assert len(set(map(id, found))) == len(found)


def test_later_changes_of_a_schema_have_no_effect(notation: CountingNotation) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    shared = shared_arguments(notation, schema, {})
    schema["required"].clear()  # type: ignore[attr-defined]
    assert not shared.machine().matches("{}")


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({**PLAIN, "properties": {"a": False}}, ""),
        (
            {**PLAIN, "properties": {"a": {"type": "string", "pattern": "("}}},
            "/properties/a/pattern",
        ),
    ],
)
@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "gemma4", "lfm2"])
def test_refused_schema_among_many_tools_is_found_at_once(
    name: str, schema: Any, pointer: str
) -> None:
    tools = [ToolSignature(f"tool_{number}", PLAIN) for number in range(100)]
    tools.insert(50, ToolSignature("broken", schema))
    with pytest.raises(SchemaError) as caught:
        RootStateMachine(format_named(name).calls(tools))
    assert caught.value.tool == "broken"
    assert pointer in str(caught.value)


def walks(texts: list[str]) -> Iterator[tuple[RootStateMachine, Vocabulary, str]]:
    tools = [ToolSignature("f", PLAIN), ToolSignature("g", {"type": "object", "properties": {}})]
    for name in ("qwen3_coder", "glm4_5", "hermes"):
        machine = RootStateMachine(format_named(name).calls(tools, max_calls=2))
        pieces = {
            text[at : at + size]
            for text in texts
            for at in range(len(text))
            for size in (1, 3, 9, 24)
        }
        forms = [*sorted(piece.encode() for piece in pieces), b"</s>"]
        for text in texts:
            if machine.begins(text):
                yield machine, Vocabulary(forms, end_token_ids=[len(forms) - 1]), text


def test_masks_of_tokens_across_the_end_of_arguments_are_exact() -> None:
    arguments = "<function=f>\n<parameter=a>\nx\n<\n</parameter>\n</function>\n"
    texts = [
        f"<tool_call>\n{arguments}</tool_call>\n<tool_call>\n{arguments[:-40]}",
        '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "f", "arguments": {"a": "x',
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x\n</arg_value>\n</tool_call>\n<tool_call>f",
    ]
    seen = set()
    for machine, vocabulary, text in walks(texts):
        seen.add(text)
        for at in range(0, len(text), 3):
            matcher = machine.matcher(vocabulary)
            matcher.state = matcher.state.compute_word_derivative(text[:at].encode())
            mask = matcher.allowed_tokens()
            assert np.array_equal(mask, brute_force_mask(matcher.state, vocabulary)), text[:at]
    assert seen == set(texts)


def test_plan_is_found_where_each_tool_is_called_once_at_most() -> None:
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = [
        ToolSignature(f"tool_{number}", nothing if number % 3 else PLAIN) for number in range(300)
    ]
    vocabulary = Vocabulary(
        [*(bytes((byte,)) for byte in range(256)), b"</s>"], end_token_ids=[256]
    )
    for name in ("hermes", "lfm2", "qwen3_coder"):
        machine = RootStateMachine(format_named(name).calls(tools, min_calls=1), vocabulary)
        guard = Guard(machine.matcher(vocabulary), 1000)
        assert 0 < guard.needed < 200
