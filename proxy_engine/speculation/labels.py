"""Labels in the source: where the value of a key begins, before any of it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .source_text import SourceText

_MAX_LABELS = 16
_MAX_HITS = 64
_MAX_ROWS = 8

_WORDS = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[\x80-\xf7]+")
_BEHIND_LABEL = re.compile(
    rb"[\"'*`]{0,3}[ ]?(?:\([^)\n]{0,20}\)[ ]?)?[*]{0,2}"
    rb"(?:[:=][*]{0,2}|[\t|]|(?:[ ][a-z ]{1,30})?[ ](?:is|was|are)(?=[ ])"
    rb"|</[a-z0-9]+>\s*(?:<[a-z0-9]+(?:[ ][^<>\n]{0,80})?>\s*)+)"
    rb"[ \t]*(?:[*]{2}|[\"'`])?"
)
_NO_VALUE = re.compile(
    rb"[{\[<\s,;|:\xff]|\Z|(?:string|integer|number|boolean|array|object|null|any value)\b"
)
_CELL_END = re.compile(rb"[ ]*[\"*]{0,2}[ ]*([|,;\t\r\n])")
_TABLE_RULE = re.compile(rb"[|\s:+=-]+$")


class Labels:
    """Finds labels by the words of a key: ``invoice_number`` is ``Invoice number: 1234``.

    Args:
        source: The source.
    """

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._labelled: dict[bytes, list[int]] = {}
        self._columns: dict[bytes, tuple[int, bytes, int] | None] = {}

    def value_start(self, key: bytes, cursor: int) -> int | None:
        """Return where the value of a key begins; ``None`` if no label is found.

        Args:
            key: The name of a property or argument.
            cursor: Where the value before it ends. A label behind it is preferred.
        """
        words = [word.lower() for word in _WORDS.findall(key)]
        if not words:
            return None
        cell = self._cell(key, words, cursor)
        if cell is not None:
            return cell
        starts = self._labelled.get(key)
        if starts is None:
            starts = self._labelled[key] = list(self._find_labelled(words))
        return next((start for start in starts if start >= cursor), starts[0] if starts else None)

    def _find_labelled(self, words: list[bytes]) -> Iterator[int]:
        """Yield where values begin behind the words, or else behind the first or last of them."""
        text = self._source.text
        phrases = [words]
        if len(words) > 1:
            phrases += [[words[0]], [words[-1]]]
        for phrase in phrases:
            found = 0
            for end in self._phrase_ends(phrase):
                behind = _BEHIND_LABEL.match(self._source.lower, end)
                if behind is not None and not _NO_VALUE.match(text, behind.end()):
                    found += 1
                    yield behind.end()
                if found == _MAX_LABELS:
                    return
            if found:
                return

    def _phrase_ends(self, words: list[bytes]) -> Iterator[int]:
        """Yield the ends of the occurrences of adjacent words, ignoring case."""
        lower = self._source.lower
        position = -1
        for _ in range(_MAX_HITS):
            position = lower.find(words[0], position + 1)
            if position < 0:
                return
            if position and lower[position - 1 : position].isalnum():
                continue
            end = position + len(words[0])
            for word in words[1:]:
                end += lower[end : end + 1] in (b" ", b"_", b"-")
                if not lower.startswith(word, end):
                    break
                end += len(word)
            else:
                if not lower[end : end + 1].isalnum():
                    yield end

    def _cell(self, key: bytes, words: list[bytes], cursor: int) -> int | None:
        """Return where the cell of the key's column begins, in the row of the cursor or the next.

        The first row of a table names the columns.
        """
        if key not in self._columns:
            self._columns[key] = next(self._find_columns(words), None)
        column = self._columns[key]
        if column is None:
            return None
        row, separator, number = column
        text = self._source.text
        row = max(row, text.rfind(b"\n", 0, cursor) + 1)
        for _ in range(_MAX_ROWS):
            line_end = text.find(b"\n", row)
            line_end = len(text) if line_end < 0 else line_end
            line = text[row:line_end]
            if line.count(separator) < number:
                return None
            start = row + sum(len(cell) + len(separator) for cell in line.split(separator)[:number])
            while text[start : start + 1] in (b" ", b'"', b"*", b"`"):
                start += 1
            if start >= cursor and not _NO_VALUE.match(text, start):
                return start
            row = line_end + 1
            if row >= len(text):
                return None
        return None

    def _find_columns(self, words: list[bytes]) -> Iterator[tuple[int, bytes, int]]:
        """Yield the first row, the separator and the number of columns that the words head."""
        text = self._source.text
        for end in self._phrase_ends(words):
            border = _CELL_END.match(text, end)
            if border is None:
                continue
            line_start = text.rfind(b"\n", 0, end) + 1
            line_end = text.find(b"\n", end)
            if line_end < 0:
                return
            line = text[line_start:line_end]
            separator = border[1] if border[1] not in b"\r\n" else _separator(line)
            if separator is None or line.strip().startswith((b"{", b"[", b"<")):
                continue
            row = line_end + 1
            following = text[row : max(row, text.find(b"\n", row))]
            if separator == b"|" and _TABLE_RULE.match(following):
                row += len(following) + 1
                following = text[row : max(row, text.find(b"\n", row))] or text[row:]
            if following.count(separator) != line.count(separator):
                continue
            yield row, separator, line[: end - line_start].count(separator)


def _separator(line: bytes) -> bytes | None:
    """Return what separates the cells of a row."""
    return next((one for one in (b"|", b"\t", b";", b",") if one in line), None)
