"""Where a value that a JSON Pointer names begins in a JSON text."""

from __future__ import annotations

import json
import re

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


def value_offset(text: str, start: int, pointer: str) -> int:
    """Return the offset of the value, or of its closest ancestor that is there.

    Args:
        text: A text with valid JSON.
        start: Where the JSON begins.
        pointer: A JSON Pointer into it (RFC 6901), as a URI fragment without ``#``.
    """
    offset = start
    for name in pointer.split("/")[1:]:
        found = _child(text, offset, name.replace("~1", "/").replace("~0", "~"))
        if found is None:
            break
        offset = found
    return offset


def _child(text: str, start: int, name: str) -> int | None:
    """Return the offset of the member or item ``name`` of the value at ``start``."""
    if text[start] not in "{[":
        return None
    position = _after_space(text, start + 1)
    index = 0
    while text[position] not in "]}":
        key = str(index)
        if text[start] == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _after_space(text, _after_space(text, position) + 1)
        if key == name:
            return position
        _, position = _DECODER.raw_decode(text, position)
        position = _after_space(text, position)
        if text[position] == ",":
            position = _after_space(text, position + 1)
        index += 1
    return None


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None, "the pattern matches the empty text"
    return found.end()
