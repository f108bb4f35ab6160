"""What an answer's text has to be: OpenAI's ``response_format``, or one of the extensions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from state_machines import ChoiceStateMachine, GrammarStateMachine, RegexStateMachine

from ..answers.response_format import MachineSource
from .errors import ApiError
from .schemas.common import Constraints

__all__ = ["constraint"]


def constraint(
    body: Constraints, response_format: Any, format_name: str = "response_format"
) -> tuple[str, Any]:
    """Return the field that says what the answer has to be, and what the engine takes for it.

    Nothing is compiled here. ``format_name`` is what the endpoint calls ``response_format``. Raises
    ``ApiError`` where several say so, and for what is no constraint.
    """
    given = [(name, make) for name, make in _asked(body)]
    is_free = response_format is None or response_format == {"type": "text"}
    if len(given) + (not is_free) > 1:
        names = [name for name, _ in given] + ([] if is_free else [format_name])
        raise ApiError(
            400,
            f"{', '.join(names)} all say what the answer has to be; give one of them",
            code="conflicting_constraints",
            param=names[0],
        )
    if not given:
        return format_name, response_format
    name, make = given[0]
    return name, make()


def _asked(body: Constraints) -> list[tuple[str, Callable[[], Any]]]:
    fields: list[tuple[str, Any, Callable[[str, Any], Any]]] = [
        ("regex", body.regex, _regex),
        ("guided_regex", body.guided_regex, _regex),
        ("choice", body.choice, _choice),
        ("guided_choice", body.guided_choice, _choice),
        ("guided_json", body.guided_json, _schema),
        ("grammar", body.grammar, _grammar),
        ("guided_grammar", body.guided_grammar, _grammar),
    ]
    inner = body.structured_outputs
    if inner is not None:
        fields += [
            ("structured_outputs.json", inner.json_, _schema),
            ("structured_outputs.regex", inner.regex, _regex),
            ("structured_outputs.choice", inner.choice, _choice),
            ("structured_outputs.grammar", inner.grammar, _grammar),
            ("structured_outputs.json_object", inner.json_object or None, _object),
        ]
    return [(name, partial(make, name, value)) for name, value, make in fields if value is not None]


def _regex(name: str, pattern: str) -> MachineSource:
    return MachineSource(RegexStateMachine, pattern)


def _choice(name: str, texts: list[str]) -> MachineSource:
    if not texts:
        raise ApiError(400, "a choice needs a text to choose", code="invalid_value", param=name)
    return MachineSource(ChoiceStateMachine, tuple(texts))


def _schema(name: str, schema: Any) -> Any:
    if not isinstance(schema, str):
        return {"type": "json_schema", "json_schema": {"schema": schema}}
    try:
        return _schema(name, _json_object(schema))
    except (ValueError, RecursionError) as error:
        raise ApiError(
            400, f"the schema is not JSON: {error}", code="invalid_schema", param=name
        ) from error


def _json_object(text: str) -> Any:
    value = json.loads(text)
    if not isinstance(value, dict | bool):
        raise ValueError("a schema is an object or a boolean")
    return value


def _object(name: str, asked: bool) -> dict[str, str]:
    return {"type": "json_object"}


def _grammar(name: str, grammar: str) -> MachineSource:
    return MachineSource(GrammarStateMachine, grammar)
