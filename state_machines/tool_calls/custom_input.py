"""Custom tools: tools whose only argument is a text.

A call of a custom tool is a call of a function with the string ``input``. Every notation can write
it, and a chat template that knows functions alone can describe the tool. :class:`InputDecoder`
finds the text of the input in arguments that are still being written.
"""

from __future__ import annotations

import json
import re
from typing import Any

from state_machines.argument_notations.notation import INPUT, Notation
from state_machines.grammar.encoding import RAW, encoded
from state_machines.json_schema.value_sets import ANY_TEXT
from state_machines.machine import StateMachine

_ESCAPE = re.compile(
    r"\\(?:u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[0-9a-fA-F]{4})|[^u])"
)


def any_text() -> StateMachine:
    """Return a machine that admits every text."""
    return StateMachine(encoded(ANY_TEXT, RAW))


def input_schema(description: str = "") -> dict[str, Any]:
    """Return the JSON Schema of the arguments of a custom tool.

    Args:
        description: Describes the input to the model.
    """
    text = {"type": "string", "description": description} if description else {"type": "string"}
    return {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }


class InputDecoder:
    """Returns the input of a custom tool while its arguments are written.

    The texts around the input, and whether it is escaped, are those of :meth:`Notation.write`.
    Text that may belong to the end of the arguments, and incomplete escapes, are held back.

    Args:
        notation: The notation of the arguments.
    """

    def __init__(self, notation: Notation) -> None:
        before, _, self._after = notation.write({INPUT: "MARK"}).partition("MARK")
        self._is_escaped = "\\" in notation.write({INPUT: '"'})
        # White space between the tokens of JSON is optional.
        pieces = before.split() if self._is_escaped else [before]
        pieces = [piece for word in pieces for piece in re.split(r"([{:=])", word) if piece]
        space = r"\s*" if self._is_escaped else ""
        self._before = re.compile(space + space.join(map(re.escape, pieces)))
        self._held = ""
        self._has_begun = False
        self._has_ended = False
        self.decoded = ""
        """The input so far."""

    def add(self, text: str) -> str:
        """Take more text of the arguments, and return more of the input."""
        if self._has_ended:
            return ""
        self._held += text
        if not self._has_begun:
            found = self._before.match(self._held)
            if found is None:
                return ""
            self._has_begun = True
            self._held = self._held[found.end() :]
        more = self._unescaped() if self._is_escaped else self._raw()
        self.decoded += more
        return more

    def _raw(self) -> str:
        text, after = self._held, self._after
        if after and (end := text.find(after)) >= 0:
            self._has_ended = True
            return text[:end]
        held = next((n for n in range(len(after) - 1, 0, -1) if text.endswith(after[:n])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def _unescaped(self) -> str:
        text, written, at = self._held, [], 0
        while at < len(text):
            if text[at] == '"':
                self._has_ended = True
                break
            if text[at] != "\\":
                stop = next((i for i in range(at, len(text)) if text[i] in '"\\'), len(text))
                written.append(text[at:stop])
                at = stop
                continue
            escape = _ESCAPE.match(text, at)
            is_half = escape is not None and _is_high_surrogate(escape[0])
            if escape is None or (is_half and len(text) < at + 12):
                break
            written.append(json.loads(f'"{escape[0]}"'))
            at = escape.end()
        self._held = text[at:]
        return "".join(written)


def _is_high_surrogate(escape: str) -> bool:
    return re.fullmatch(r"\\u[dD][89abAB]..", escape) is not None
