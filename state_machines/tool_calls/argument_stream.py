"""The JSON of arguments while a model writes them, whatever the notation.

A notation other than JSON is read as a whole. To read unfinished arguments, the texts that end a
member and the arguments are added: ``<parameter=a>b`` is read as ``<parameter=a>b</parameter>``.
All members but the last one are then complete. A string in the last one is written as far as it is
certain, another value not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from state_machines.tool_calls.call import CallArguments

_HELD_CHARS = 48
"""Characters at the end of an unfinished string that are held back: they may belong to the text
that ends it, to an escape, or to white space that the notation does not count."""

_MIN_STEP = 48
"""Characters after which arguments are read again. The step grows with their length, so that the
time is proportional to the length."""

_STEP_SHARE = 8
_RETRY_SHARE = 64
_VALUE = "zqvalue"


class ArgumentStream:
    """Returns the JSON of a call's arguments in pieces.

    The concatenated pieces are the JSON of the arguments, as ``json.dumps`` writes it.

    Args:
        arguments: The arguments of the call.
    """

    def __init__(self, arguments: CallArguments) -> None:
        self._arguments = arguments
        schema = arguments.schema if isinstance(arguments.schema, Mapping) else {}
        properties = schema.get("properties")
        self._properties = properties if isinstance(properties, Mapping) else {}
        # By the text that ends a string and the arguments: texts that begin such a string.
        self._closings: dict[str, list[str]] = {}
        for name in filter(self._is_string, self._properties):
            before, _, closing = arguments.notation.write({name: _VALUE}).partition(_VALUE)
            self._closings.setdefault(closing, []).append(before)
        self._text = ""
        self._sent = ""
        self._next = _MIN_STEP

    def add(self, text: str) -> str:
        """Take more text of the arguments, and return more of the JSON."""
        self._text += text
        if len(self._text) < self._next or not self._closings:
            return ""
        # A text that ends within an escape or a name is read again soon.
        self._next = len(self._text) + 1 + len(self._text) // _RETRY_SHARE
        try:
            values = self._arguments.parse(self._text + self._closing())
        except (ValueError, RecursionError):
            return ""
        self._next += max(_MIN_STEP, len(self._text) // _STEP_SHARE)
        return self._more(self._partial(values))

    def end(self, values: dict[str, Any]) -> str:
        """Return the rest of the JSON of complete arguments."""
        return self._more(json.dumps(values, ensure_ascii=False))

    def _closing(self) -> str:
        """Return the text that ends the last string, and the arguments behind it."""
        if len(self._closings) == 1:
            return next(iter(self._closings))
        # The closing that names the same property as the text that begins the string.
        return max(
            self._closings, key=lambda each: max(map(self._text.rfind, self._closings[each]))
        )

    def _more(self, text: str) -> str:
        assert text.startswith(self._sent[: len(text)]), "a piece of the arguments was wrong"
        more = text[len(self._sent) :]
        self._sent += more
        return more

    def _partial(self, values: dict[str, Any]) -> str:
        """Return the certain beginning of an object's JSON; its last member may be incomplete."""
        *complete, last = values.items() if values else [("", None)]
        pieces = [f"{_json(name)}: {_json(value)}" for name, value in complete]
        name, value = last
        if isinstance(value, str) and len(value) > _HELD_CHARS and self._is_string(name):
            # Without the closing quote.
            pieces.append(f"{_json(name)}: {_json(value[:-_HELD_CHARS])[:-1]}")
        return "{" + ", ".join(pieces) if pieces else ""

    def _is_string(self, name: str) -> bool:
        """Return whether a property is a string, whatever follows in its text."""
        schema = self._properties.get(name)
        kinds = schema.get("type") if isinstance(schema, Mapping) else None
        return kinds == "string" or (isinstance(kinds, list) and {*kinds} <= {"string", "null"})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
