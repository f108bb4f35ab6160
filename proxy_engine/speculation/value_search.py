"""Search for the value that is being written in the source, and for its continuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice, pairwise

from state_machines import Vocabulary
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.symbols import bytes_in

from .labels import Labels
from .normal_forms import dates_in, number_at, separated_numbers_in
from .source_text import Delimiter, SourceText
from .wrappers import Wrapper
from .written_values import OpenValue, WrittenValue, escape

MIN_SEARCHED = 2
"""Bytes of a value by which it is searched. Fewer suffice behind a label, or if they are rare."""

_RARE = 3

_MAX_JUMP = 4_000
_MIN_FAR = 8
"""A complete value shorter than ``_MIN_FAR`` bytes counts as copied only from ``_MAX_JUMP`` bytes
behind the value before it."""

_NEAR = 60
_MAX_WORDS = 48
_MAX_FIRST = 40
_MAX_RESTRICTED = 80
_NOWHERE = -1
_WORD_BYTES = frozenset(byte for byte in range(128) if chr(byte).isalnum())
_BACKSLASH = 1 << ord("\\")
_LETTERS = sum(1 << byte for byte in range(128) if chr(byte).isalpha())
_LIST_SEPARATOR = re.compile(
    rb"[\"'*`]{0,2}(?:[,;/]|[ ]&)?(?:[ ](?:and|or))?[ ]+[\"'*`]{0,2}(?=\w)"
    rb"|\r?\n[ \t]*[-*+]?[ \t]+(?=\w)"
)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A possible continuation of a value.

    Attributes:
        rest: The text, as the answer writes it.
        start: Where the value begins in the source.
        closing: The text behind it that ends the value.
        is_last: Whether the value is an item of a list, and no other item follows in the source.
    """

    rest: bytes
    start: int
    closing: bytes
    is_last: bool = False


class ValueSearch:
    """Finds values of an answer in the source, which is mostly read in order.

    Args:
        text: The source. Special tokens have the form of the vocabulary.

    Attributes:
        source: The source.
        cursor: Where the last complete value of the answer ends in the source.
    """

    def __init__(self, text: bytes) -> None:
        self.source = SourceText(text)
        self.cursor = 0
        self._labels = Labels(self.source)
        self._wrappers: dict[bytes, Wrapper] = {}
        # The value that is being copied: where it begins in the answer and in the source.
        self._copied = (_NOWHERE, _NOWHERE)

    @cached_property
    def _dates(self) -> list[tuple[int, bytes]]:
        return list(dates_in(self.source.lower))

    @cached_property
    def _numbers(self) -> list[tuple[int, bytes]]:
        return list(separated_numbers_in(self.source.text))

    def learn(self, values: Iterable[WrittenValue]) -> None:
        """Move the cursor behind complete values, and keep what delimits them in the source."""
        for value in values:
            start = self._place(value, self.cursor)
            if start is not None:
                end = start + len(value.text)
                self._wrappers[value.key] = Wrapper.around(self.source, start, end, self.cursor)
                self.cursor = end

    def cursor_behind(self, values: Iterable[WrittenValue]) -> int:
        """Return the cursor behind values of a draft."""
        cursor = self.cursor
        for value in values:
            start = self._place(value, cursor)
            cursor = cursor if start is None else start + len(value.text)
        return cursor

    def copy_from(self, value: OpenValue, continuation: Continuation) -> None:
        """Record where a value is copied from: the first place where it is looked for next."""
        self._copied = (value.start, continuation.start)

    def continuations(self, value: OpenValue, state: Node, cursor: int) -> Iterator[Continuation]:
        """Yield possible continuations of a value, the most likely first.

        Args:
            value: The value.
            state: The grammar's state in it.
            cursor: Where the value before it ends in the source.
        """
        opening = b""
        if value.kind == "other":
            # A string or null. Null is not proposed.
            state = state.compute_word_derivative(b'"')
            value, opening = replace(value, kind="string", closing=b'"'), b'"'
            if state is EMPTY:
                return
        is_restricted = value.kind == "string" and not state.first_bytes & _BACKSLASH
        for start in self._starts(value, cursor):
            if value.kind == "number":
                rest = self._rest_of_number(value, start)
            elif is_restricted:
                rest = self._rest_allowed(value, state, start)
            else:
                rest = self._rest_of_text(value, start)
            if rest is not None:
                is_last = value.is_item and not _LIST_SEPARATOR.match(
                    self.source.text, start + len(value.text) + len(rest)
                )
                yield Continuation(opening + rest, start, value.closing, is_last)
        for start, text in self._converted(value, state, cursor, is_restricted=is_restricted):
            yield Continuation(opening + text, start, value.closing)

    def _starts(self, value: OpenValue, cursor: int) -> Iterator[int]:
        """Yield where the value may begin in the source, the most likely first."""
        known = self._copied[1:] if self._copied[0] == value.start and value.text else ()
        seen: set[int] = set()
        for start in chain(known, self._expected(value, cursor)):
            if start not in seen:
                seen.add(start)
                yield start
        if not value.text:
            return
        source = self.source
        found = [one for one in source.occurrences(value.text, cursor) if one not in seen]
        # Values stand behind labels more often than in running text.
        labelled = {start: source.is_labelled(start) for start in found}
        for start in sorted(found, key=lambda one: not labelled[one]):
            if len(value.text) >= MIN_SEARCHED or labelled[start] or len(found) <= _RARE:
                yield start

    def _expected(self, value: OpenValue, cursor: int) -> Iterator[int]:
        """Yield where a value begins by the item before it, by earlier values, and by labels."""
        if value.is_item:
            separator = _LIST_SEPARATOR.match(self.source.text, cursor) if cursor else None
            if separator is not None:
                yield separator.end()
            return
        wrapper = self._wrappers.get(value.key)
        starts = (
            None if wrapper is None else wrapper.next_start(self.source, cursor),
            self._labels.value_start(value.key, cursor),
        )
        yield from (start for start in starts if start is not None)

    def _rest_of_number(self, value: OpenValue, start: int) -> bytes | None:
        number = number_at(self.source.text, start)
        if number is None or not number.startswith(value.text):
            return None
        return number[len(value.text) :]

    def _rest_of_text(self, value: OpenValue, start: int) -> bytes | None:
        """Return the rest of a value up to where the source delimits it, escaped as needed."""
        source, written = self.source, len(value.text)
        if not source.text.startswith(value.text, start):
            return None
        wrapper = None if value.is_item else self._wrappers.get(value.key)
        if wrapper is None:
            end = source.value_end(start, written, Delimiter.CONJUNCTION if value.is_item else None)
        else:
            end = wrapper.end(source, start, written)
        rest = _whole_characters(source.text[start + written : end]).rstrip(b" ")
        if Vocabulary.SPECIAL_MARK in rest:
            return None
        return escape(rest) if value.kind == "string" else rest

    def _rest_allowed(self, value: OpenValue, state: Node, start: int) -> bytes | None:
        """Return as much of the source as the grammar allows, if the value can end there."""
        if not self.source.text.startswith(value.text, start):
            return None
        return _spelled(state, self.source.text, start + len(value.text), value.closing)

    def _converted(
        self, value: OpenValue, state: Node, cursor: int, *, is_restricted: bool
    ) -> Iterator[tuple[int, bytes]]:
        """Yield values that the source writes in another form: places and rests."""
        if value.kind == "number":
            if len(value.text) >= MIN_SEARCHED:
                yield from _beginning_with(value.text, self._numbers, cursor)
        elif value.kind == "string" and value.text:
            if value.text[:1].isdigit():
                yield from _beginning_with(value.text, self._dates, cursor)
        elif is_restricted:
            expected = set(self._expected(value, cursor))
            for start, date in self._dates:
                if any(0 <= start - one <= _NEAR for one in expected):
                    yield start, date
            yield from self._options(value, state, cursor, expected)

    def _options(
        self, value: OpenValue, state: Node, cursor: int, expected: set[int]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the words of the source that the grammar accepts as the whole value."""
        first = state.first_bytes
        if not first & _LETTERS or first.bit_count() > _MAX_FIRST:
            return
        source = self.source
        letters = bytes(byte for byte in bytes_in(first) if byte in _WORD_BYTES)
        words = re.compile(rb"(?<![0-9A-Za-z_])[" + re.escape(letters.lower()) + rb"]")
        found: dict[int, bytes] = {}
        for begin, stop in ((cursor, len(source.lower)), (0, cursor)):
            for match in islice(words.finditer(source.lower, begin, stop), _MAX_WORDS):
                text = _spelled(state, source.text, match.start(), value.closing)
                if text is not None:
                    found[match.start()] = text
        # A list of all options describes the format.
        for place, following in pairwise(sorted(found)):
            if following - place < _NEAR and found[following] != found[place]:
                found[place] = found[following] = b""
        places = sorted(found, key=lambda one: (one not in expected, one < cursor, one))
        yield from ((place, found[place]) for place in places if found[place])

    def _place(self, value: WrittenValue, cursor: int) -> int | None:
        """Return where a complete value stands in the source; ``None`` if it does not."""
        text, source = value.text, self.source
        begin, start = self._copied
        if begin == value.start and source.text.startswith(text, max(start, 0)):
            return start
        for start in source.occurrences(text, cursor):
            if source.is_whole(start, start + len(text)):
                is_far = not 0 <= start - cursor <= _MAX_JUMP
                return None if is_far and len(text) < _MIN_FAR else start
        return None


def _beginning_with(
    text: bytes, forms: list[tuple[int, bytes]], cursor: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the places and rests of the forms with a prefix: those behind the cursor first."""
    found = [one for one in forms if one[1].startswith(text) and one[1] != text]
    for place, form in sorted(found, key=lambda one: one[0] < cursor):
        yield place, form[len(text) :]


def _whole_characters(text: bytes) -> bytes:
    """Return a text without half a character at its end."""
    return text.decode("utf-8", "ignore").encode()


def _spelled(state: Node, text: bytes, start: int, closing: bytes) -> bytes | None:
    """Return the longest text from a position on behind which the grammar allows ``closing``.

    The grammar may write letters in another case, and spaces as underscores or hyphens.
    """
    spelled, longest = bytearray(), None
    end = closing[0]
    for byte in text[start : start + _MAX_RESTRICTED]:
        first = state.first_bytes
        if first >> end & 1:
            longest = bytes(spelled)
        spellings: tuple[int, ...] = (byte,)
        if byte == ord(" "):
            spellings = (byte, ord("_"), ord("-"))
        elif chr(byte).isalpha() and byte < 128:
            spellings = (byte, byte ^ 32)
        same = next((one for one in spellings if first >> one & 1), None)
        if same is None:
            return longest
        spelled.append(same)
        state = state.derivative(same)
    return bytes(spelled) if state.first_bytes >> end & 1 else longest
