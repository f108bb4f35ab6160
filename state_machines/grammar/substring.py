"""Substrings of a text, as languages of code points.

A text is divided into chunks, and a word of the language is any run of consecutive chunks. The
states are those of a suffix tree: the texts that may follow one prefix. A state is an interval of
the suffix array, the sorted list of the text's suffixes, so it is made on demand from two numbers.
A prefix that occurs once has an interval of one suffix; its state depends on the position alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from state_machines.budgets import Verdict, spend
from state_machines.grammar.boolean import intersection
from state_machines.grammar.chunks import check_source
from state_machines.grammar.encoding import (
    RAW,
    EncodedText,
    SelfEncoding,
    Spelling,
    encoded,
    plain_beginning,
)
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    add_node,
    intern_node,
    known_node,
)
from state_machines.grammar.nodes import repetition, symbols
from state_machines.grammar.suffix_array import (
    CHARACTERS_PER_STEP,
    Positions,
    alphabet_of,
    suffix_array,
)
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, code_points

FEW_SUFFIXES = 64
"""Suffixes of an interval that are searched first for one where a quote may end."""


def substring_of(chunks: Sequence[str]) -> Node:
    """Return the UTF-8 texts of all runs of consecutive chunks, the empty text included.

    Raises:
        InvalidArgumentError: As :func:`substring_language` raises it.
    """
    return encoded(substring_language(chunks), RAW)


def substring_language(chunks: Sequence[str]) -> Node:
    """Return all runs of consecutive chunks, the empty word included, over code points.

    Args:
        chunks: The chunks, such as :func:`words_of` returns, or a string for its characters.

    Raises:
        InvalidArgumentError: The text has a lone surrogate, or more than
            ``LIMITS.source_characters`` characters.
    """
    text = chunks if isinstance(chunks, str) else "".join(chunks)
    check_source(text)
    if isinstance(chunks, str) or len(text) == sum(map(bool, chunks)):
        boundaries = None
    else:
        boundaries = np.array([0, *accumulate(map(len, chunks))], np.int32)
    return _source(text, boundaries).node(EMPTY_PREFIX)


EMPTY_PREFIX = (0, -1, 0)
"""The interval and the depth of the state in which nothing is written yet."""


class Source:
    """A text with its suffix array, and the positions where quotes may start and end.

    Attributes:
        text: The text.
        spelled: The source as compiled code reads it, by spelling and terminator.
        alphabet: Its different code points, ascending: int32, shape (k,).
        ranks: The indices in ``alphabet`` of its characters, and -1: int32, shape (n + 1,).
        suffixes: The positions where a quote may start, in the order of the suffixes: int32.
        ends: By position, the next one where a quote may end: int32, shape (n + 1,). ``None`` if it
            may end anywhere.
    """

    __slots__ = (
        "__weakref__",
        "_ends",
        "_order",
        "alphabet",
        "ends",
        "ranks",
        "spelled",
        "suffixes",
        "text",
    )

    def __init__(self, text: str, boundaries: Positions | None) -> None:
        self.text = text
        points = np.frombuffer(text.encode("utf-32-le"), np.int32)
        self.alphabet, ranks = alphabet_of(points)
        self.ranks: Positions = np.append(ranks, np.int32(-1))
        suffixes = suffix_array(ranks, len(self.alphabet))
        self.ends: Positions | None = None
        if boundaries is not None:
            may_end = np.zeros(len(text) + 1, np.bool_)
            may_end[boundaries] = True
            suffixes = suffixes[may_end[suffixes]]
            counts = np.diff(np.flatnonzero(may_end), prepend=-1)
            self.ends = np.repeat(np.flatnonzero(may_end).astype(np.int32), counts)
        self.suffixes: Positions = suffixes
        self.spelled: dict[tuple[Spelling, bytes], Any] = {}
        # Memory views, which are faster to index by single integers.
        self._order = suffixes.data
        self._ends = None if self.ends is None else self.ends.data

    def node(self, state: tuple[int, int, int]) -> Node:
        """Return the node of an interval of suffixes without their first ``depth`` characters.

        Args:
            state: The first suffix, the one after the last (-1: all), and the depth.
        """
        low, high, depth = state
        if high < 0:
            high = len(self.suffixes)
        if high <= low + 1:
            at = self.position(low, high, depth)
            if at == len(self.text):
                return EPSILON
            return intern_node(("Quoted", id(self), at), lambda: Substring(self, low, high, depth))
        return intern_node(
            ("Substring", id(self), low, high, depth), lambda: Substring(self, low, high, depth)
        )

    def encoded(
        self,
        interval: tuple[int, int, int],
        spelling: Spelling,
        terminator: bytes,
        min_chars: int = 0,
        max_chars: int | None = None,
    ) -> Node:
        """Return the spellings of a node's words of a length within bounds.

        The node itself is not made.

        Args:
            interval: The interval of suffixes and the depth.
            spelling: The spelling.
            terminator: The bytes after each word.
            min_chars: The least number of characters.
            max_chars: The greatest number of characters; ``None`` for no bound.
        """
        low, high, depth = interval
        is_bounded = min_chars > 0 or max_chars is not None
        if is_bounded and not self.has_word(interval, min_chars, max_chars):
            return EMPTY
        if high == low + 1:
            at = self._order[low] + depth
            if at == len(self.text):
                return encoded(EPSILON, spelling, terminator)
            if max_chars is not None and at + max_chars >= len(self.text):
                max_chars = None
            key: tuple[Any, ...] = at, min_chars, max_chars
        else:
            key = low, high, depth, min_chars, max_chars
        key = ("Quote", id(self), spelling, terminator, *key)
        node: Node | None = known_node(key)
        if node is None:
            made = EncodedQuote(self, interval, spelling, terminator, min_chars, max_chars)
            node = add_node(key, made)
        return node

    def position(self, low: int, high: int, depth: int) -> int:
        """Return the first position of an interval, behind ``depth`` characters."""
        return self._order[low] + depth if low < high else len(self.text)

    def min_length(self, low: int, high: int, depth: int, min_chars: int = 0) -> int:
        """Return a lower bound on the length of words of an interval; 0 if the empty one is."""
        if self._ends is None:
            return min_chars
        if high == low + 1:
            at = self._order[low] + depth
            return self._ends[at + min_chars] - at
        return min_chars or int(not self.may_end(low, high, depth))

    def has_word(self, interval: tuple[int, int, int], least: int, most: int | None) -> bool:
        """Whether a word of an interval has a number of characters within bounds."""
        low, high, depth = interval
        if high > low + 1:
            starts = self.suffixes[low:high] + np.int32(depth)
            return bool(self.may_complete(starts, least, most).any())
        at = self.position(low, high, depth)
        if at + least > len(self.text):
            return False
        end = at + least if self._ends is None else self._ends[at + least]
        return most is None or end <= at + most

    def after(self, low: int, high: int, depth: int, text: str) -> tuple[int, int, int] | None:
        """Return the interval of the suffixes that continue with a text, and the new depth."""
        if high == low + 1:
            fits = self.text.startswith(text, self._order[low] + depth)
            return (low, high, depth + len(text)) if fits else None
        for length, character in enumerate(text):
            if high == low + 1:
                return self.after(low, high, depth, text[length:])
            low, high = self.narrowed(low, high, depth, character)
            if low == high:
                return None
            depth += 1
        return low, high, depth

    def narrowed(self, low: int, high: int, depth: int, character: str) -> tuple[int, int]:
        """Return the interval of the suffixes of an interval that continue with a character.

        Args:
            low: The first suffix, with the same ``depth`` characters as all others.
            high: The one after the last.
            depth: The number of characters before.
            character: The character.
        """
        text, order, last = self.text, self._order, high
        while low < high:
            middle = (low + high) // 2
            at = order[middle] + depth
            if text[at : at + 1] < character:
                low = middle + 1
            else:
                high = middle
        first, high = low, last
        while low < high:
            middle = (low + high) // 2
            at = order[middle] + depth
            if text[at : at + 1] <= character:
                low = middle + 1
            else:
                high = middle
        return first, low

    def may_end(self, low: int, high: int, depth: int) -> bool:
        """Whether a quote may end after ``depth`` characters of a suffix of an interval."""
        ends = self.ends
        if ends is None:
            return True
        # Most often one of the first suffixes already shows it.
        for first, last in ((low, min(low + FEW_SUFFIXES, high)), (low + FEW_SUFFIXES, high)):
            positions = self.suffixes[first:last] + np.int32(depth)
            if (ends[positions] == positions).any():
                return True
        return False

    def may_complete(
        self, starts: npt.NDArray[Any], min_chars: npt.NDArray[Any] | int, max_chars: int | None
    ) -> npt.NDArray[np.bool_]:
        """Return the positions where a quote of a length within bounds continues: bool."""
        size = len(self.text)
        least = starts + min_chars
        inside = least <= size
        if self.ends is None:
            return inside if max_chars is None else inside & (least <= starts + max_chars)
        if max_chars is None:
            return inside
        found: npt.NDArray[np.bool_] = self.ends[np.minimum(least, size)] <= starts + max_chars
        return inside & found


class Substring(SelfEncoding):
    """The texts from several positions on, up to each position where a quote may end."""

    __slots__ = ("depth", "high", "low", "source")

    def __init__(self, source: Source, low: int, high: int, depth: int) -> None:
        min_length = source.min_length(low, high, depth)
        earliest = source.position(low, high, depth) if high == low + 1 else depth
        super().__init__(
            nullable=min_length == 0,
            min_length=min_length,
            max_length=len(source.text) - earliest,
        )
        self.source = source
        self.low = low
        self.high = high
        self.depth = depth

    def encoded(
        self, spelling: Spelling, terminator: bytes, min_chars: int, max_chars: int | None
    ) -> Node:
        """Return the spellings of the words of a length within bounds, with a terminator each."""
        interval = self.low, self.high, self.depth
        return self.source.encoded(interval, spelling, terminator, min_chars, max_chars)

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.high - self.low

    @property
    def positions(self) -> Positions:
        """The positions, in the order of the texts that follow: int32."""
        found: Positions = self.source.suffixes[self.low : self.high] + np.int32(self.depth)
        return found

    def compute_transitions(self) -> Transitions:
        source = self.source
        if self.high == self.low + 1:
            point = ord(source.text[source.position(self.low, self.high, self.depth)])
            then = source.node((self.low, self.high, self.depth + 1))
            return ((code_points(point, point), then),)
        ranks = source.ranks[self.positions]
        first = np.flatnonzero(np.diff(ranks, prepend=-2))
        last = np.append(first[1:], len(ranks))
        spend(1 + len(ranks) // CHARACTERS_PER_STEP)
        return tuple(
            (
                code_points(point := int(source.alphabet[rank]), point),
                source.node((self.low + low, self.low + high, self.depth + 1)),
            )
            for rank, low, high in zip(
                ranks[first].tolist(), first.tolist(), last.tolist(), strict=True
            )
            if rank >= 0
        )

    def first_characters(self) -> Iterable[CodePointSet]:
        source = self.source
        if self.high == self.low + 1:
            point = ord(source.text[source.position(self.low, self.high, self.depth)])
            return (code_points(point, point),)
        spend(1 + self.count // CHARACTERS_PER_STEP)
        occurs = np.zeros(len(source.alphabet) + 1, np.bool_)
        occurs[source.ranks[self.positions]] = True
        points = source.alphabet[occurs[:-1]].tolist()
        return [code_points(point, point) for point in points]

    def character_derivative(self, point: int) -> Node:
        return EMPTY if 0xD800 <= point <= 0xDFFF else self._after(chr(point))

    def ascii_derivative(self, text: bytes) -> Node:
        return self._after(text.decode("ascii"))

    def _after(self, text: str) -> Node:
        """Return the derivative by a text."""
        state = self.source.after(self.low, self.high, self.depth, text)
        return EMPTY if state is None else self.source.node(state)

    def has_length_between(self, min_length: int, max_length: int | None) -> Verdict:
        interval = self.low, self.high, self.depth
        return Verdict.of(self.source.has_word(interval, min_length, max_length))


class EncodedQuote(EncodedText):
    """The spellings of the words of a :class:`Substring` that have a length within bounds.

    The language of code points is made when it is first needed.
    """

    __slots__ = ("_text", "depth", "high", "low", "max_chars", "min_chars", "source")

    def __init__(
        self,
        source: Source,
        interval: tuple[int, int, int],
        spelling: Spelling,
        terminator: bytes,
        min_chars: int,
        max_chars: int | None,
    ) -> None:
        self.low, self.high, self.depth = low, high, depth = interval
        # With a terminator, the bound need not be exact.
        is_exact = high == low + 1 or not terminator
        min_length = source.min_length(low, high, depth, min_chars) if is_exact else min_chars
        is_nullable = not (min_length or terminator)
        Lazy.__init__(self, nullable=is_nullable, min_length=min_length + len(terminator))
        self.source = source
        self.spelling = spelling
        self.terminator = terminator
        self.min_chars = min_chars
        self.max_chars = max_chars
        self._text: Node | None = None

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.high - self.low

    @property
    def text(self) -> Node:  # type: ignore[override]
        """The language of code points."""
        text = self._text
        if text is None:
            text = self.source.node((self.low, self.high, self.depth))
            if self.min_chars or self.max_chars is not None:
                any_text = symbols(ANY_CODE_POINT)
                text = intersection((text, repetition(any_text, self.min_chars, self.max_chars)))
            self._text = text
        return text

    @property
    def leading_text(self) -> bytes:
        if self.count > 1:
            return b""
        at = self.source.position(self.low, self.high, self.depth)
        text = self.source.text[at : at + self.min_length - len(self.terminator)].encode()
        return plain_beginning(text) if self.spelling.escapes else text

    def release(self) -> Iterable[Node]:
        return Lazy.release(self)

    def direct_derivative(self, text: bytes) -> Node | None:
        spelling, terminator = self.spelling, self.terminator
        written = None if terminator and not spelling.escapes else spelling.read(text)
        if written is None:
            return None
        source, least, most = self.source, self.min_chars, self.max_chars
        if most is not None:
            most -= len(written)
            if most < 0:
                return None
        interval = source.after(self.low, self.high, self.depth, written)
        if interval is None:
            return None
        least = max(0, least - len(written)) if least else 0
        return source.encoded(interval, spelling, terminator, least, most)


_SOURCES: WeakValueDictionary[bytes, Source] = WeakValueDictionary()


def _source(text: str, boundaries: Positions | None) -> Source:
    """Return the source of a text; equal sources are one object as long as it is used."""
    digest = blake2b(text.encode(), digest_size=20)
    digest.update(b"" if boundaries is None else boundaries.tobytes())
    digest.update(b"%d" % len(text))
    key = digest.digest()
    found = _SOURCES.get(key)
    if found is None:
        found = _SOURCES[key] = Source(text, boundaries)
    return found
