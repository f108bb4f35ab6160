"""Long texts as overlapping pieces, which end at paragraphs and sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..checks.texts import short_repr
from ..errors import InvalidOptionError
from .answer_format import AnswerFormat
from .merging import ItemList, Piece

Count = Callable[[str], int]
"""Returns the number of tokens of a text."""

# The end of a sentence with the space behind it, or a line break.
_SENTENCE = re.compile(r".+?(?:[.!?…][\"'”’»)\]]*\s+|[。！？]+\s*|\n\s*|\Z)", re.DOTALL)
_WORD = re.compile(r"\s*\S+\s*")
# Texts with more characters for each token of the limit are divided without being counted.
_CHARACTERS_PER_TOKEN = 32
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*\Z")


class _Unit(NamedTuple):
    """A part of a text that no piece divides: a sentence, or words of a long one."""

    start: int
    end: int
    tokens: int
    ends_paragraph: bool


@dataclass(frozen=True, slots=True)
class Chunks:
    """How long texts are divided, and the answers of their pieces merged.

    Attributes:
        tokens: Number of tokens of a piece, counted sentence by sentence.
        overlap: Number of tokens that a piece shares with the one before it, at least.
        items: The list of items in the answers.
    """

    tokens: int
    overlap: int
    items: ItemList

    @classmethod
    def of(cls, tokens: int | None, overlap: int | None, answers: AnswerFormat) -> Chunks | None:
        """Check the arguments; ``None`` if texts are not divided.

        Raises:
            InvalidOptionError: A number is invalid, or answers of the format cannot be merged.
        """
        if tokens is None:
            if overlap is not None:
                raise InvalidOptionError(
                    "chunk_overlap requires chunk_tokens", option="chunk_overlap"
                )
            return None
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
            raise InvalidOptionError(
                f"chunk_tokens should be an integer of at least 1, not {short_repr(tokens)}",
                option="chunk_tokens",
            )
        shared = tokens // 8 if overlap is None else overlap
        if not isinstance(shared, int) or isinstance(shared, bool) or not 0 <= shared < tokens:
            raise InvalidOptionError(
                f"chunk_overlap should be an integer from 0 to {tokens - 1}, below chunk_tokens, "
                f"not {short_repr(overlap)}",
                option="chunk_overlap",
            )
        return cls(tokens, shared, ItemList.of(answers))

    def divide(self, text: str, count: Count) -> list[Piece]:
        """Return the pieces of a text, in order. Together they are the text.

        A piece ends behind a sentence, or behind a paragraph that ends in its last third. Only
        sentences of more than half a piece are divided, between words.

        Args:
            text: The text.
            count: Returns the number of tokens of a text.
        """
        units = list(self._units(text, count))
        pieces: list[Piece] = []
        first = last = 0
        while last < len(units):
            last = self._end(units, first, last)
            begin = units[first].start
            pieces.append(Piece(begin, text[begin : units[last - 1].end]))
            first = self._next(units, first, last)
        return pieces

    def _end(self, units: list[_Unit], first: int, done: int) -> int:
        """Return the index behind the last unit of the piece that begins with ``first``.

        It is above ``done``, that of the piece before.
        """
        end, tokens, paragraph = first, 0, done
        while end < len(units) and (end == first or tokens + units[end].tokens <= self.tokens):
            tokens += units[end].tokens
            end += 1
            if end > done and units[end - 1].ends_paragraph and 3 * tokens >= 2 * self.tokens:
                paragraph = end
        return paragraph if end < len(units) and paragraph > done else end

    def _next(self, units: list[_Unit], first: int, last: int) -> int:
        """Return the index of the first unit of the next piece, which overlaps with this one."""
        begin, tokens = last, 0
        if last == len(units):
            return begin
        # The next piece has room for a further unit, so that every piece proceeds.
        room = self.tokens - units[last].tokens
        while begin - 1 > first and tokens < self.overlap:
            if tokens + units[begin - 1].tokens > room:
                break
            begin -= 1
            tokens += units[begin].tokens
        return begin

    def _units(self, text: str, count: Count) -> Iterator[_Unit]:
        for found in _SENTENCE.finditer(text):
            is_long = len(found[0]) > _CHARACTERS_PER_TOKEN * self.tokens
            tokens = self.tokens if is_long else count(found[0])
            if 2 * tokens <= self.tokens:
                ends = bool(_PARAGRAPH.search(found[0]))
                yield _Unit(found.start(), found.end(), tokens, ends)
            else:
                yield from self._words(text, found.start(), found.end(), count)

    def _words(self, text: str, start: int, end: int, count: Count) -> Iterator[_Unit]:
        """Divide a long sentence into runs of words of an eighth of a piece."""
        limit = max(self.tokens // 8, 1)
        begin, tokens = start, 0
        for word in _WORD.finditer(text, start, end):
            is_long = len(word[0]) > _CHARACTERS_PER_TOKEN * limit
            size = limit + 1 if is_long else count(word[0])
            if tokens and tokens + size > limit:
                yield _Unit(begin, word.start(), tokens, False)
                begin, tokens = word.start(), 0
            tokens += size
            if size > limit:
                yield from _halves(text, begin, word.end(), count, limit)
                begin, tokens = word.end(), 0
        if begin < end:
            yield _Unit(begin, end, max(tokens, 1), False)


def _halves(text: str, start: int, end: int, count: Count, limit: int) -> Iterator[_Unit]:
    """Divide a text without spaces."""
    is_long = end - start > _CHARACTERS_PER_TOKEN * limit
    tokens = limit + 1 if is_long else count(text[start:end])
    if tokens <= limit or end - start < 2:
        yield _Unit(start, end, tokens, False)
        return
    middle = (start + end) // 2
    yield from _halves(text, start, middle, count, limit)
    yield from _halves(text, middle, end, count, limit)
