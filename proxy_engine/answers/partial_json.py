"""A JSON value while it is being written: the best value that what there is so far stands for.

Strings are shown as far as they are written, without escapes that are not whole yet; numbers,
``true``, ``false`` and ``null`` once they are valid; keys once they have a value. What was shown
only grows: a number may get more digits, but it does not disappear.

Pydantic's parser does the work. It reads a text from its beginning each time, at some 180 MB/s,
which is no slower than to copy a value that grows in place; and a reader needs a copy. So that a
long text costs no more than its length times a constant, looks are rationed: up to ``_FREE``
characters every piece is looked at, beyond that as often as all looks together have read no more
than ``_PASSES`` times the text.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import from_json

__all__ = ["PartialJson"]

_FREE = 4096
_PASSES = 512

_STRINGS = re.compile(r'["\\]')
_UNFINISHED_NUMBER = re.compile(r"(?<=[0-9])(?:\.|[eE][+-]?)$")


class PartialJson:
    """One JSON text, fed piece by piece.

    ``value`` is the newest value, ``has_value`` whether there is one at all (a text ``[`` has
    one, ``tr`` has none). Values are new objects each time, so a reader may keep or change them.
    """

    def __init__(self) -> None:
        # Joined when they are looked at: to append to a text each time would copy all of it.
        self._pieces: list[str] = []
        self._length = 0
        self._read = 0
        self._in_string = False
        self._escaped = False
        self.has_value = False
        self.value: Any = None

    @property
    def text(self) -> str:
        """All pieces, joined."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, piece: str, *, last: bool = False) -> bool:
        """Take ``piece``; say whether ``value`` is another one now.

        ``last`` looks whatever has been read before, so that the value of a whole text is whole.
        Text that is not JSON, or that Python's ``str`` cannot hold (half a surrogate pair as an
        escape), leaves the value as it is.
        """
        self._follow(piece)
        self._pieces.append(piece)
        self._length += len(piece)
        length = self._length
        if not (last or length <= _FREE or self._read + length <= _PASSES * length):
            return False
        self._read += length
        text = self.text
        if not self._in_string:
            # Without this, `1` would be shown, hidden at `1.`, and shown again at `1.5`.
            text = _UNFINISHED_NUMBER.sub("", text)
        try:
            value = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return False
        if self.has_value and _same(value, self.value):
            return False
        self.has_value = True
        self.value = value
        return True

    def _follow(self, piece: str) -> None:
        """Keep up with whether the text's end is inside a string."""
        position = 0
        if self._escaped and piece:
            self._escaped = False
            position = 1
        while found := _STRINGS.search(piece, position):
            position = found.end()
            if found[0] == '"':
                self._in_string = not self._in_string
            elif position == len(piece):
                self._escaped = True
            else:
                position += 1


def _same(value: Any, other: Any) -> bool:
    # Python's 1 equals 1.0; to a reader they are the same number, too.
    return bool(value == other)
