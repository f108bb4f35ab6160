"""The values of a complete answer: of its parts, of its tool calls, and captured texts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jsonschema

from state_machines import GrammarBudgetError, InvalidArgumentError
from state_machines.budgets import step_budget
from state_machines.limits import LIMITS
from state_machines.root import Part, Structured, SubState, repeated_part_names

from ..conversation.content import ToolCall
from ..errors import OutputValidationError
from ..tools import Tool
from ..validation import JsonValidator

_log = logging.getLogger(__name__)


def composed_value(composition: Part, values: Iterable[tuple[SubState, str]]) -> Any:
    """Return the value of a composition of parts.

    Args:
        composition: The composition.
        values: The parts of the answer that have values, each with its text.

    Returns:
        A value, or a ``dict`` by the names of the parts if there are several; ``None`` if there
        are none.

    Raises:
        OutputValidationError: A text cannot be parsed.
    """
    parsed: dict[str, Any] = {}
    repeated = repeated_part_names(composition)
    for part, text in values:
        try:
            value = part.parse(text)
        except Exception as error:
            # The caller's own parser may raise errors of any type.
            raise OutputValidationError(
                f"the text of {part.name!r} cannot be parsed: {error}", text=text
            ) from error
        if part.name in repeated:
            parsed.setdefault(part.name, []).append(value)
        else:
            parsed[part.name] = value
    return next(iter(parsed.values())) if len(parsed) == 1 else parsed or None


def captured_texts(values: Iterable[tuple[SubState, str]]) -> dict[str, str | list[str]]:
    """Return the texts that grammars captured in the values of an answer, by name."""
    found: dict[str, list[str]] = {}
    for part, text in values:
        machine = part.grammar if isinstance(part, Structured) else None
        captured = getattr(machine, "captures", None)
        if captured is None:
            # No grammar with rules.
            continue
        try:
            with step_budget(LIMITS.mask_steps):
                captures = captured(text)
        except (GrammarBudgetError, InvalidArgumentError) as error:
            _log.warning("the captures of %r are missing: %s", part.name, error)
            continue
        for name, texts in captures.items():
            found.setdefault(name, []).extend([texts] if isinstance(texts, str) else texts)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}


def checked_calls(calls: Iterable[ToolCall], tools: Mapping[str, Tool]) -> Iterator[ToolCall]:
    """Validate tool calls, and add their arguments as Python values.

    Raises:
        OutputValidationError: A call does not match the schema of its tool.
    """
    for call in calls:
        tool = tools[call.name]
        try:
            JsonValidator(tool.arguments_schema).validate(call.arguments)
        except jsonschema.ValidationError as error:
            raise OutputValidationError(
                f"the call of {call.name!r} does not match its schema: {error.message}",
                text=call.raw,
            ) from error
        yield replace(call, parsed=tool.parse(call.arguments))
