"""The prompt as bytes: where a value occurs in it, and where a value ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

MAX_VALUE_BYTES = 600
"""Longest value whose end is looked for. A longer one is proposed in pieces."""

_MAX_OCCURRENCES = 12
_WORD = re.compile(rb"[0-9A-Za-z_]|[\xc3-\xdf]")
# The last character, whose first byte is that of a letter. Scripts of three bytes a letter may have
# no spaces between words, and punctuation has three bytes as well.
_WORD_BEFORE = re.compile(rb"(?:[0-9A-Za-z_]|[\xc3-\xdf][\x80-\xbf])\Z")

_CLOSERS = {
    b'"': b'"',
    b"`": b"`",
    b"*": b"*",
    b"[": b"]",
    b"(": b")",
    "“".encode(): "”".encode(),
    "„".encode(): "“".encode(),
    "«".encode(): "»".encode(),
    "‘".encode(): "’".encode(),
}
"""Opening delimiters of values, and the closing ones."""


class Delimiter(IntEnum):
    """How strongly something separates a value from the text behind it."""

    WORD = 1
    """A word in lower case behind a name or a number, which ends in running text only."""
    CONJUNCTION = 2
    """"And" or "or", which separate the last items of a list."""
    COMMA = 3
    """A comma, a bracket or a dash within a sentence."""
    SENTENCE = 4
    """The end of a sentence, or a semicolon."""
    FIELD = 5
    """A line break, the border of a table's cell, a tag or a special token."""


_PARTICLES = rb"(?:of|the|de|del|della|la|le|du|da|di|van|von|der|den|ten|y|e|et)\b"
_DELIMITERS = re.compile(
    rb"(?P<field>[\r\n\t|<>\xff]|[ ]{2}|,(?=[^\s\d])|,(?<=[^\d],)(?=\d))"
    rb"|(?P<sentence>[.!?]+(?=[\s\"\')*\xff]|\Z)|;)"
    rb"|(?P<comma>,(?=\s)|[ ][(\[]|[)\]]|[ ](?:-|\xe2\x80[\x93\x94])[ ]|:(?=\s))"
    rb"|(?P<conjunction>[ ](?:and|or)[ ])"
    rb"|(?P<word>[ ](?!" + _PARTICLES + rb")(?=[a-z]))"
)
_LEVELS = {
    "field": Delimiter.FIELD,
    "sentence": Delimiter.SENTENCE,
    "comma": Delimiter.COMMA,
    "conjunction": Delimiter.CONJUNCTION,
    "word": Delimiter.WORD,
}
_ABBREVIATION = re.compile(rb"(?:^|[^0-9A-Za-z])[A-Z][a-z]{0,2}$")
_MAX_WRAPPED_BYTES = 300_000
_WRAPPED_BYTES = 50
_WRAPPED_WORDS = 4
_ROW = re.compile(rb"[|\t<{]|,\S.*,\S|[\r:]$|^[ ]*(?:[-*+#]|\d+[.)])[ ]")
"""A line of a table or a list, or one that announces the next."""
_PROSE = re.compile(rb"(?![A-Za-z][\w .-]{0,30}[:=])[A-Za-z(\x80-\xf7][^|\t<{]*\Z")
_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"')
_LABELLED = re.compile(rb"(?:[:=|\t>#]|^|\n[ \t]*[-*+]|\n)[ \t]*[\"'*`$]{0,2}$")


class SourceText:
    """The text that values are copied from.

    Args:
        text: The bytes of the prompt. Special tokens have the form of the vocabulary.

    Attributes:
        text: The same with spaces for the line breaks within paragraphs: a value that goes beyond
            such a line break has a space there.
    """

    def __init__(self, text: bytes) -> None:
        self.text = _with_whole_paragraphs(text)

    @cached_property
    def lower(self) -> bytes:
        """The text with ASCII letters in lower case."""
        return self.text.lower()

    def occurrences(self, part: bytes, cursor: int, *, ignore_case: bool = False) -> Iterator[int]:
        """Yield where a text occurs at the beginning of a word: behind the cursor, then before it.

        Args:
            part: The text; not empty.
            cursor: A position in the source.
            ignore_case: Whether ``part``, in lower case, is compared with the source in lower case.
        """
        text = self.lower if ignore_case else self.text
        # The next word would not begin at the beginning of the source's word.
        is_word = bool(_WORD.match(part))
        left = _MAX_OCCURRENCES
        for start, stop in ((cursor, len(text)), (0, min(cursor + len(part) - 1, len(text)))):
            position = text.find(part, start, stop)
            while position >= 0 and left:
                left -= 1
                if not (is_word and self._ends_word(position)):
                    yield position
                position = text.find(part, position + 1, stop)

    def is_whole(self, start: int, stop: int) -> bool:
        """Whether a part does not end within a word."""
        return not (_WORD.match(self.text, stop) and self._ends_word(stop))

    def _ends_word(self, position: int) -> bool:
        return _WORD_BEFORE.search(self.text, max(0, position - 2), position) is not None

    def is_labelled(self, start: int) -> bool:
        """Whether a colon, a cell's border, a tag or a line break precedes a position."""
        return _LABELLED.search(self.text, max(0, start - 12), start) is not None

    def quoted_end(self, start: int) -> int | None:
        """Return the end of a value that begins behind a quote or bracket; ``None`` without one."""
        text = self.text
        for opening, closing in _CLOSERS.items():
            if text.startswith(opening, max(0, start - len(opening))) and start:
                if opening == b'"':
                    whole = _QUOTED.match(text, start - 1)
                    return whole.end() - 1 if whole else None
                end = text.find(closing, start, start + MAX_VALUE_BYTES)
                return end if end >= 0 and b"\n" not in text[start:end] else None
        return None

    def value_end(self, start: int, written: int, level: Delimiter | None = None) -> int:
        """Return where a value most likely ends.

        A delimiter that is within the part that is written already does not end the value, and
        neither does a weaker one.

        Args:
            start: Where the value begins.
            written: Length of the part that is certain, in bytes.
            level: The weakest delimiter that ends the value; ``None``: a word in running text, a
                comma behind a label.
        """
        quoted = self.quoted_end(start)
        if quoted is not None and quoted >= start + written:
            return quoted
        text, stop = self.text, min(len(self.text), start + MAX_VALUE_BYTES)
        is_labelled = self.is_labelled(start)
        if level is None:
            is_name = text[start : start + 1].isupper() or text[start : start + 1].isdigit()
            level = Delimiter.WORD if is_name and not is_labelled else Delimiter.COMMA
        for match in _DELIMITERS.finditer(text, start, stop):
            found = _LEVELS[match.lastgroup or "field"]
            if match.start() < start + written:
                level = max(level, Delimiter(min(found + 1, Delimiter.FIELD)))
            elif found >= level and not self._is_inner(match, start, is_labelled=is_labelled):
                # A whole sentence keeps its full stop.
                is_sentence = (
                    found == Delimiter.SENTENCE
                    and match[0] != b";"
                    and text.count(b" ", start, match.start()) > 4
                )
                return match.end() if is_sentence else match.start()
        return stop

    def _is_inner(self, match: re.Match[bytes], start: int, *, is_labelled: bool) -> bool:
        """Whether a delimiter is more likely a part of the value."""
        text = self.text
        position, following = match.start(), text[match.end() : match.end() + 2].strip()[:1]
        if match.lastgroup == "sentence":
            if not following or match[0] != b".":
                return False
            before = text[max(start, position - 4) : position]
            return _ABBREVIATION.search(before) is not None and not following.islower()
        # "12 Main Street, London" and "May 5, 2021"
        return match[0] == b"," and is_labelled and not following.islower()

    def delimiter(self, end: int) -> Delimiter | None:
        """Return the delimiter at the end of a value; ``None`` if there is none."""
        match = _DELIMITERS.match(self.text, end)
        return None if match is None else _LEVELS[match.lastgroup or "field"]


def _with_whole_paragraphs(text: bytes) -> bytes:
    """Replace the line breaks that only wrap the lines of a paragraph by spaces.

    A text beyond ``_MAX_WRAPPED_BYTES``, which would take too long, is returned as it is.
    """
    if len(text) > _MAX_WRAPPED_BYTES:
        return text
    joined = bytearray(text)
    position = 0
    lines = text.split(b"\n")
    for line, following in pairwise(lines):
        position += len(line) + 1
        is_prose = len(line) >= _WRAPPED_BYTES and line.count(b" ") >= _WRAPPED_WORDS
        if is_prose and not _ROW.search(line) and _PROSE.match(following):
            joined[position - 1] = ord(" ")
    return bytes(joined)
