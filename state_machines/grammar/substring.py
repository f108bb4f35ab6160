"""Substrings of a text, as languages of code points and of their spellings.

A text is divided into chunks, and a word of the language is any run of consecutive chunks. The
states are those of a suffix tree: the texts that may follow one prefix. A state is an interval of
the suffix array, the sorted list of the text's suffixes, so it is made on demand from two numbers.
A prefix that occurs once has an interval of one suffix; its state depends on the position alone.

=====================  ============================================================
:class:`Substring`     the language of code points
:class:`EncodedQuote`  its spellings, each with a terminator
:class:`BegunQuote`    the rest of these, within the spelling of a character
=====================  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from state_machines.budgets import Verdict, spend
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import (
    EncodedText,
    SelfEncoding,
    Spelling,
    encode_set,
    encoded,
    next_bytes,
    plain_beginning,
)
from state_machines.grammar.lazy import Lazy
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    add_node,
    collect_transitions,
    intern_node,
    known_node,
)
from state_machines.grammar.nodes import concatenation, literal, repetition, symbols, union
from state_machines.grammar.quote_sources import Source, check_source, source_of
from state_machines.grammar.symbols import ANY_CODE_POINT, bytes_in, code_points


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
    source = source_of(text, boundaries)
    return _substring(source, 0, len(source.suffixes), 0)


def _substring(source: Source, low: int, high: int, depth: int) -> Node:
    """Return the node of an interval of suffixes without their first characters."""
    key: tuple[Any, ...] = low, high, depth
    if high <= low + 1:
        at = source.position(low, high, depth)
        if at == source.size:
            return EPSILON
        key = (at,)
    return intern_node(("Substring", id(source), *key), lambda: Substring(source, low, high, depth))


class Substring(SelfEncoding):
    """The texts from several positions on, up to each position where a quote may end."""

    __slots__ = ("depth", "high", "low", "source")

    def __init__(self, source: Source, low: int, high: int, depth: int) -> None:
        min_length = source.min_length(low, high, depth)
        earliest = source.position(low, high, depth) if high == low + 1 else depth
        super().__init__(
            nullable=min_length == 0, min_length=min_length, max_length=source.size - earliest
        )
        self.source = source
        self.low = low
        self.high = high
        self.depth = depth

    def encoded(
        self, spelling: Spelling, terminator: bytes, min_chars: int, max_chars: int | None
    ) -> Node:
        """Return the spellings of the words of a length within bounds, with a terminator each."""
        key = (spelling, terminator)
        spelled = self.source.spelled.get(key)
        if spelled is None:
            spelled = self.source.spelled[key] = SpelledSource(self.source, spelling, terminator)
        assert isinstance(spelled, SpelledSource)
        return spelled.quote(self.low, self.high, self.depth, min_chars, max_chars)

    def compute_transitions(self) -> Transitions:
        spend()
        source, depth = self.source, self.depth + 1
        return tuple(
            (code_points(ord(character), ord(character)), _substring(source, low, high, depth))
            for character, low, high in source.next_characters(self.low, self.high, self.depth)
        )

    def character_derivative(self, point: int) -> Node:
        return EMPTY if 0xD800 <= point <= 0xDFFF else self._after(chr(point))

    def ascii_derivative(self, text: bytes) -> Node:
        return self._after(text.decode("ascii"))

    def _after(self, text: str) -> Node:
        """Return the derivative by a text."""
        state = self.source.after(self.low, self.high, self.depth, text)
        return EMPTY if state is None else _substring(self.source, *state)

    def has_length_between(self, min_length: int, max_length: int | None) -> Verdict:
        found = self.source.has_word(self.low, self.high, self.depth, min_length, max_length)
        return Verdict.of(found)


class SpelledSource:
    """The quotes of a source in one spelling, each with a terminator.

    Attributes:
        source: The source.
        spelling: The spelling.
        terminator: The bytes after each quote.
        read: The spelling's function of that name.
        is_ambiguous: Whether the terminator may begin like a character.
        compiled: For the masks: the source as compiled code reads it.
    """

    def __init__(self, source: Source, spelling: Spelling, terminator: bytes) -> None:
        self.source = source
        self.spelling = spelling
        self.terminator = terminator
        self.is_ambiguous = bool(terminator) and not spelling.escapes
        self.read = spelling.read
        self.compiled: Any = None

    def quote(
        self, low: int, high: int, depth: int, min_chars: int = 0, max_chars: int | None = None
    ) -> Node:
        """Return the spellings of the words of an interval that have a length within bounds.

        Args:
            low: The first suffix of the interval.
            high: The one after the last.
            depth: The number of characters before.
            min_chars: The least number of characters.
            max_chars: The greatest number of characters; ``None`` for no bound.
        """
        if high == low + 1:
            return self.only_quote(low, depth, self.source.order[low] + depth, min_chars, max_chars)
        is_bounded = min_chars > 0 or max_chars is not None
        if is_bounded and not self.source.has_word(low, high, depth, min_chars, max_chars):
            return EMPTY
        key = "Quote", id(self), low, high, depth, min_chars, max_chars
        node: Node | None = known_node(key)
        if node is None:
            node = add_node(key, EncodedQuote(self, low, high, depth, min_chars, max_chars))
        return node

    def only_quote(
        self, low: int, depth: int, position: int, min_chars: int, max_chars: int | None
    ) -> Node:
        """Return :meth:`quote` of one suffix, which continues at a position."""
        source = self.source
        if position == source.size:
            return encoded(EPSILON, self.spelling, self.terminator) if not min_chars else EMPTY
        key: tuple[Any, ...] = "Quote", id(self), position
        if min_chars or max_chars is not None:
            if not source.has_word_at(position, min_chars, max_chars):
                return EMPTY
            if max_chars is not None and position + max_chars >= source.size:
                max_chars = None
            key = *key, min_chars, max_chars
        node: Node | None = known_node(key)
        if node is None:
            node = add_node(key, EncodedQuote(self, low, low + 1, depth, min_chars, max_chars))
        return node


class EncodedQuote(EncodedText):
    """The spellings of the words of a :class:`Substring` that have a length within bounds.

    The language of code points is made when it is first needed.
    """

    __slots__ = ("_text", "depth", "high", "low", "max_chars", "min_chars", "spelled")

    def __init__(
        self,
        spelled: SpelledSource,
        low: int,
        high: int,
        depth: int,
        min_chars: int,
        max_chars: int | None,
    ) -> None:
        terminator = spelled.terminator
        min_length = min_chars
        # With a terminator, the bound need not be exact.
        if not terminator:
            min_length = spelled.source.min_length(low, high, depth, min_chars)
        # Most states within a quote are new, so this calls one constructor.
        Node.__init__(self, not (min_length or terminator), min_length + len(terminator), None)
        self._expansion = None
        self.spelled = spelled
        self.spelling = spelled.spelling
        self.terminator = terminator
        self.low = low
        self.high = high
        self.depth = depth
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
            text = _substring(self.spelled.source, self.low, self.high, self.depth)
            if self.min_chars or self.max_chars is not None:
                any_text = symbols(ANY_CODE_POINT)
                text = intersection((text, repetition(any_text, self.min_chars, self.max_chars)))
            self._text = text
        return text

    @property
    def leading_text(self) -> bytes:
        if self.count > 1:
            return b""
        source, interval = self.spelled.source, (self.low, self.high, self.depth)
        at = source.position(*interval)
        text = source.text[at : at + source.min_length(*interval, self.min_chars)].encode()
        return plain_beginning(text) if self.spelling.escapes else text

    @property
    def _may_end(self) -> bool:
        """Whether the language has the empty word."""
        source = self.spelled.source
        return not self.min_chars and source.may_end(self.low, self.high, self.depth)

    def release(self) -> Iterable[Node]:
        return Lazy.release(self)

    def next_characters(self) -> Iterator[tuple[str, Node]]:
        """Yield the characters that words begin with, each with the quote after it."""
        spelled, least, most = self.spelled, max(0, self.min_chars - 1), self.max_chars
        if most is not None:
            most -= 1
            if most < 0:
                return
        found = spelled.source.next_characters(self.low, self.high, self.depth)
        for character, low, high in found:
            after = spelled.quote(low, high, self.depth + 1, least, most)
            if after is not EMPTY:
                yield character, after

    def direct_derivative(self, text: bytes) -> Node | None:
        spelled = self.spelled
        if spelled.is_ambiguous:
            return None
        found = spelled.read(text)
        if found is None:
            return None
        characters, begun = found
        after = self._after(characters)
        if not begun:
            return after
        return after.begun_by(begun) if isinstance(after, EncodedQuote) else EMPTY

    def _after(self, characters: str) -> Node:
        """Return the derivative by the spelling of whole characters."""
        spelled, low, depth = self.spelled, self.low, self.depth
        source = spelled.source
        count, least, most = len(characters), self.min_chars, self.max_chars
        if most is not None:
            most -= count
            if most < 0:
                return EMPTY
        if least:
            least = max(0, least - count)
        if self.high == low + 1:
            # Fast path: most states within a quote.
            position = source.order[low] + depth
            if not source.text.startswith(characters, position):
                return EMPTY
            return spelled.only_quote(low, depth + count, position + count, least, most)
        interval = source.after(low, self.high, depth, characters)
        return EMPTY if interval is None else spelled.quote(*interval, least, most)

    def begun_by(self, text: bytes) -> Node:
        """Return the derivative by a proper beginning of the spelling of a character."""
        # Hexadecimal digits have either case.
        text = text.lower()
        key = ("BegunQuote", id(self), text)
        node: Node | None = known_node(key)
        if node is not None:
            return node
        for character, _ in self.next_characters():
            if next_bytes(ord(character), self.spelling, text):
                return add_node(key, BegunQuote(self, text))
        return EMPTY

    def bytes_after(self, begun: bytes) -> int:
        """Return the bytes that follow a beginning of a character's spelling, as a set."""
        found = 0
        for character, _ in self.next_characters():
            found |= next_bytes(ord(character), self.spelling, begun)
        return found

    def compute_first_bytes(self) -> int:
        if self.spelled.is_ambiguous:
            return super().compute_first_bytes()
        closing = 1 << self.terminator[0] if self.terminator and self._may_end else 0
        return closing | self.bytes_after(b"")

    def compute_transitions(self) -> Transitions:
        if self.spelled.is_ambiguous:
            return super().compute_transitions()
        return collect_transitions(
            (1 << byte, self.derivative(byte)) for byte in bytes_in(self.first_bytes)
        )

    def compute_derivative(self, byte: int) -> Node:
        if self.spelled.is_ambiguous:
            return super().compute_derivative(byte)
        if self.terminator and byte == self.terminator[0]:
            return literal(self.terminator[1:]) if self._may_end else EMPTY
        return self.direct_derivative(bytes((byte,))) or EMPTY

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        end = self._plain_end(text, position) if self.terminator else position
        if end == position:
            return position + 1, self.derivative(text[position])
        # Not by ``read``, which stores its texts: this one may be long.
        return end, self._after(text[position:end].decode("ascii"))


class BegunQuote(Lazy):
    """The rest of a quote within the spelling of a character.

    Attributes:
        quote: The quote from that character on.
        begun: The bytes of the character that are written, hexadecimal digits in lower case.
    """

    __slots__ = ("begun", "quote")

    def __init__(self, quote: EncodedQuote, begun: bytes) -> None:
        super().__init__(min_length=1 + max(0, quote.min_chars - 1) + len(quote.terminator))
        self.quote = quote
        self.begun = begun

    @property
    def is_prefix_free(self) -> bool:
        return self.quote.is_prefix_free

    def expand(self) -> Node:
        """Return the union of the rests of spellings, each with the quote after it."""
        members = []
        for character, after in self.quote.next_characters():
            written = encode_set(code_points(ord(character), ord(character)), self.quote.spelling)
            members.append(concatenation(written.compute_word_derivative(self.begun), after))
        return union(members)

    def compute_first_bytes(self) -> int:
        return self.quote.bytes_after(self.begun)

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (1 << byte, self.derivative(byte)) for byte in bytes_in(self.first_bytes)
        )

    def direct_derivative(self, text: bytes) -> Node | None:
        return self.quote.direct_derivative(self.begun + text)

    def compute_derivative(self, byte: int) -> Node:
        return self.direct_derivative(bytes((byte,))) or EMPTY
