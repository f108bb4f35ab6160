"""Commands of the protocol of mlx-lm bridges, as commands of protocol 1.

Values have mlx-lm's meaning: a filter is off where mlx-lm turns it off. Unknown fields are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..options.values import MAX_COUNT
from .commands import COMMANDS, Command, GenerationCommand, parse_command
from .errors import InvalidFieldError

_log = logging.getLogger(__name__)

_MAX_LOGGED_NAMES = 100
_DEFAULT_MAX_TOKENS = 256
_PENALTY_WINDOW = 20
# Fields of protocol 1 without a meaning here: replies have no ids, tokens are the only events.
_OTHER_FIELDS = {"id", "events", "raw", "continue_final_message", "target", "wait"}
_MESSAGE_KEYS = {
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning",
    "reasoning_content",
}
_IS_OFF: dict[str, Callable[[float], bool]] = {
    "temperature": lambda value: value <= 0,
    "top_p": lambda value: value <= 0 or value >= 1,
    "top_k": lambda value: value <= 0,
    "repeat_penalty": lambda value: value <= 1,
}


class CommandReader:
    """Reads the commands of a client. Logs each ignored field once."""

    def __init__(self) -> None:
        self._ignored: set[str] = set()

    def read(self, given: Mapping[str, Any]) -> Command:
        """Return the command of protocol 1 that equals a command of this protocol.

        Raises:
            UnknownCommandError: There is no such command.
            InvalidFieldError: A known field is missing, of a wrong type, or out of range.
        """
        name = str(given.get("cmd"))
        if name not in COMMANDS:
            return parse_command(dict(given))
        model = COMMANDS[name]
        is_generation = issubclass(model, GenerationCommand)
        known = model.model_fields.keys() - _OTHER_FIELDS
        if is_generation:
            known |= {"repeat_penalty"}
        fields = {key: _integral(given[key]) for key in given if key in known}
        self._report_ignored(key for key in given if key not in known)
        fields = {key: value for key, value in fields.items() if value is not None}
        if is_generation:
            fields = _sampling(fields)
        match name:
            case "load" if not fields.get("path"):
                raise InvalidFieldError("path is missing", field="/path")
            case "load":
                # A struct of a typed language has an empty text where a field is not set.
                fields = {key: value for key, value in fields.items() if value != ""}
            case "generate":
                fields = {"prompt": ""} | fields | {"raw": True}
            case "chat":
                if isinstance(messages := fields.get("messages"), list):
                    fields["messages"] = [self._message(message) for message in messages]
                fields["continue_final_message"] = False
        return parse_command(fields)

    def _message(self, given: Any) -> Any:
        """Return a message without unknown fields, and without zero values of optional ones.

        A struct of a typed language has all of its fields in every message.
        """
        if not isinstance(given, dict):
            return given
        self._report_ignored(f"messages[].{key}" for key in given if key not in _MESSAGE_KEYS)
        return {
            key: value
            for key, value in given.items()
            if key in ("role", "content") or (value and key in _MESSAGE_KEYS)
        }

    def _report_ignored(self, names: Iterable[str]) -> None:
        for name in names:
            # A client can invent names without bound.
            if name not in self._ignored and len(self._ignored) < _MAX_LOGGED_NAMES:
                self._ignored.add(name)
                _log.warning("the field %.80r is ignored", name)


def _sampling(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a generation with mlx-lm's defaults, without filters that are off."""
    given = {"max_tokens": _DEFAULT_MAX_TOKENS} | fields
    for name, is_off in _IS_OFF.items():
        if _is_number(given.get(name)) and is_off(given[name]):
            del given[name]
    if _is_number(given["max_tokens"]) and given["max_tokens"] < 0:
        given["max_tokens"] = MAX_COUNT
    if "repeat_penalty" in given:
        penalty = given.pop("repeat_penalty")
        given = {"repetition_penalty": penalty, "repetition_context_size": _PENALTY_WINDOW} | given
    return {"temperature": 0} | given


def _integral(value: Any) -> Any:
    """Return ``256`` for ``256.0``, which some encoders write for integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
