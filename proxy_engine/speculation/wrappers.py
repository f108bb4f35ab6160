"""What delimits the values of a key in the source, learned from the values copied before.

Kushmerick, Weld & Doorenbos, "Wrapper induction for information extraction", 1997: the values of a
field are found by the text to the left and to the right of earlier ones. An answer with a list of
records gives the earlier ones itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .source_text import MAX_VALUE_BYTES, Delimiter, SourceText

_MAX_GAP = 300
_MAX_LABEL = 40
_MAX_RIGHT = 4
_SEPARATOR = re.compile(rb"[^0-9A-Za-z\x80-\xf7]+\Z")


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The text around a value.

    Attributes:
        gap: The text between the end of the value before and this value; empty if that is far.
        label: The text to the left, back to the beginning of the line.
        right: The shortest text to the right that is not within the value.
        level: The delimiter to the right.
    """

    gap: bytes
    label: bytes
    right: bytes
    level: Delimiter | None

    @classmethod
    def around(cls, source: SourceText, start: int, end: int, cursor: int) -> Wrapper:
        """Return the text around a value in the source; the value before it ends at ``cursor``."""
        text = source.text
        gap = text[cursor:start] if 0 < start - cursor <= _MAX_GAP else b""
        left = text[max(0, start - _MAX_LABEL) : start]
        line = left.rfind(b"\n", 0, len(left) - 1)
        label = left[max(line, 0) :]
        value = text[start:end]
        right = b""
        for length in range(1, _MAX_RIGHT + 1):
            if text[end : end + length] not in value:
                right = text[end : end + length]
                break
        return cls(gap, label, right, source.delimiter(end))

    def next_start(self, source: SourceText, cursor: int) -> int | None:
        """Return where the next value of the key begins behind a position; ``None`` if unknown."""
        text = source.text
        if not cursor:
            return None
        if self.gap and text.startswith(self.gap, cursor):
            return cursor + len(self.gap)
        if any(byte > 32 and chr(byte).isalnum() for byte in self.label):
            found = text.find(self.label, cursor, cursor + MAX_VALUE_BYTES * 4)
            if found >= 0:
                return found + len(self.label)
        return self._next_field(text, cursor)

    def _next_field(self, text: bytes, cursor: int) -> int | None:
        """Skip as many separators as the gap has: the fields between that are not extracted."""
        match = _SEPARATOR.search(self.gap)
        if match is None:
            return None
        separator = match[0]
        position = cursor
        for _ in range(self.gap.count(separator)):
            found = text.find(separator, position, position + MAX_VALUE_BYTES)
            if found < 0:
                return None
            position = found + len(separator)
        return position

    def end(self, source: SourceText, start: int, written: int) -> int:
        """Return where a value ends that begins at ``start``; see :meth:`SourceText.value_end`."""
        text = source.text
        if self.right:
            stop = start + MAX_VALUE_BYTES
            line = text.find(b"\n", start + written, stop)
            found = text.find(self.right, start + written, stop if line < 0 else line + 1)
            if found >= 0 and source.is_whole(start, found):
                return found
        return source.value_end(start, written, self.level)
