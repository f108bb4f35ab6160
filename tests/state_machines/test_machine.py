"""Matching texts and prefixes without a vocabulary."""

from __future__ import annotations

import pytest

from state_machines import JsonSchemaStateMachine, RegexStateMachine


@pytest.mark.parametrize("text", ['{"é": 12}', '{"é": -1200}'])
def test_begins_accepts_every_prefix_of_a_text(text: str) -> None:
    machine = JsonSchemaStateMachine(
        {"type": "object", "properties": {"é": {"type": "integer"}}, "required": ["é"]}
    )
    content = text.encode()
    # A cut may be inside a character.
    assert all(machine.begins(content[:size]) for size in range(len(content) + 1))
    assert machine.matches(text)
    assert not machine.begins(text + "x")
    assert not machine.begins(text.replace("1", "x"))


def test_begins_rejects_what_cannot_be_completed() -> None:
    machine = RegexStateMachine("(ab){2}")
    assert [machine.begins(text) for text in ("", "a", "aba", "abab", "abb", "ababa")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
