"""Encode languages of code points as languages of bytes.

Patterns, lengths and enumerations are languages of code points; tokens consist of bytes. An
:class:`EncodedText` node denotes the byte spellings of a code-point language, in one of these
spellings:

* :data:`RAW`: UTF-8 (RFC 3629);
* :data:`NUMBER`: the same bytes, for texts that are numbers, where ``1`` and ``1.0`` mean the same;
* :data:`JSON_STRING`: the inside of a JSON string (RFC 8259, section 7). A character has these
  spellings and no other: printable ASCII is written as it is; ``"`` and ``\\`` are escaped by a
  backslash; control characters are written ``\\b \\f \\n \\r \\t`` or, without such a short form,
  ``\\u00XX``; everything beyond ASCII is raw UTF-8 or ``\\uXXXX`` (a surrogate pair beyond the
  basic plane), hexadecimal digits in either case. This covers what ``json.dumps`` writes with and
  without ``ensure_ascii``;
* :data:`PYTHON_STRING`: the spellings of :data:`JSON_STRING` that mean the same in a string literal
  of Python. There an escaped surrogate pair is two characters, so all characters beyond the basic
  plane are raw.
"""

from __future__ import annotations

import codecs
import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.boolean import Intersection, bounds_and_rest
from state_machines.grammar.characters import (
    BY_HEXADECIMAL,
    NEEDS_ESCAPE,
    SHORT_ESCAPES,
    hexadecimal,
    spellings_of,
    utf8,
)
from state_machines.grammar.decoding import DecodedText, decoded_text
from state_machines.grammar.lazy import Lazy, reference
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    Transitions,
    collect_transitions,
    intern_node,
    merge_transitions,
)
from state_machines.grammar.nodes import Repetition, branch, concatenation, literal, union
from state_machines.grammar.symbols import (
    CodePointSet,
    byte_range,
    code_points,
)
from state_machines.limits import LIMITS


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a character is written in bytes; see the module's docstring."""

    name: str
    escapes: bool
    pairs: bool = False
    """Whether a character beyond the basic plane may be written as two surrogates."""

    def spell(self, text: str) -> bytes:
        """Return the spelling of a text with the fewest escapes.

        Raises:
            UnicodeEncodeError: The text has a lone surrogate.
        """
        if not self.escapes:
            return text.encode()
        spend(len(text) // 64)
        return text.translate(_ESCAPES).encode()

    @cached_property
    def read(self) -> Callable[[bytes], tuple[str, bytes] | None]:
        """The function that reads the bytes of a text up to its last character.

        It returns the whole characters, and the bytes of one more that has begun, or that no
        character has. ``None``: no text begins with the bytes. Results are stored.
        """
        return lru_cache(_READ_TEXTS)(self._read_escaped if self.escapes else _read_utf8)

    def _read_escaped(self, written: bytes) -> tuple[str, bytes] | None:
        parts = _SPELLED.fullmatch(written)
        found = None if parts is None else _read_utf8(parts[1])
        if parts is None or found is None or (found[1] and parts[2]):
            return None
        text, begun = found[0], found[1] or parts[2]
        if "\\" not in text:
            return text, begun
        by_hexadecimal = "".join(_ESCAPE.findall(text))
        text = json.loads(f'"{text}"')
        for character in json.loads(f'"{by_hexadecimal}"'):
            point = ord(character)
            # A surrogate here is no part of a pair.
            is_pair = point > 0xFFFF and not self.pairs
            if point not in BY_HEXADECIMAL or is_pair or 0xD800 <= point <= 0xDFFF:
                return None
        return text, begun


def _read_utf8(written: bytes) -> tuple[str, bytes] | None:
    try:
        text, size = codecs.utf_8_decode(written, "strict", False)
    except UnicodeDecodeError:
        return None
    return text, written[size:]


RAW = Spelling("raw", escapes=False)
NUMBER = Spelling("number", escapes=False)
JSON_STRING = Spelling("json string", escapes=True, pairs=True)
PYTHON_STRING = Spelling("python string", escapes=True)

_READ_TEXTS = 4096
"""Byte strings whose texts are stored."""

_ESCAPES = {point: f"\\u{point:04x}" for point in range(0x20)} | {
    point: "\\" + byte.decode() for point, byte in SHORT_ESCAPES.items()
}

_HAS_ESCAPE = NEEDS_ESCAPE | BY_HEXADECIMAL
_HAS_SINGLE_ESCAPE = _HAS_ESCAPE & code_points(0, 0xFFFF)

_PLAIN = [0x20 <= byte < 0x7F and byte not in b'"\\' for byte in range(256)]
"""By byte, whether it is the only spelling of a character in a JSON string."""

_SPELLED = re.compile(
    rb"""(
        (?: [^"\\\x00-\x1f] | \\["\\bfnrt]
          | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
          | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2} )*
    )(
        (?: \\u[dD][89abAB][0-9a-fA-F]{2} )? (?: \\ (?: u[0-9a-fA-F]{0,3} )? )?
    )""",
    re.VERBOSE,
)
"""Characters in a JSON string, and the beginning of an escape."""

_ESCAPE = re.compile(r"\\[^u]|(\\u[0-9a-fA-F]{4})")
"""An escape; the group is one by hexadecimal digits."""

_PLAIN_RUN = re.compile(rb"[ !#-\[\]-~]*")
"""Bytes that are the only spellings of characters in a JSON string."""

_CONTINUATIONS = byte_range(0x80, 0xC1)
"""Bytes between the first bytes of characters in UTF-8 that none begins with."""


class SelfEncoding(Node):
    """A language of code points that makes the nodes of its spellings."""

    __slots__ = ()

    @abstractmethod
    def encoded(
        self, spelling: Spelling, terminator: bytes, min_chars: int, max_chars: int | None
    ) -> Node:
        """Return the spellings of the words of a length within bounds, with a terminator each."""


class EncodedText(Lazy):
    """The spellings of every word of ``text``, each followed by the bytes ``terminator``.

    With a terminator that no spelling contains (the closing quote of a JSON string) the language is
    prefix-free: no word begins another one.
    """

    __slots__ = ("spelling", "terminator", "text")

    def __init__(self, text: Node, spelling: Spelling, terminator: bytes) -> None:
        super().__init__(
            nullable=text.nullable and not terminator,
            min_length=text.min_length + len(terminator),
        )
        self.text = text
        self.spelling = spelling
        self.terminator = terminator
        self.shared_derivatives = text.shared_derivatives

    @property
    def is_prefix_free(self) -> bool:
        return self.spelling.escapes and self.terminator.startswith(b'"')

    def spell(self, word: str) -> bytes:
        """Return the spelling of a word of ``text`` with the fewest escapes, and the terminator."""
        return self.spelling.spell(word) + self.terminator

    def release(self) -> Iterable[Node]:
        # Many machines share regular texts. Those of a grammar have states without bound.
        return (*super().release(), self.text) if _has_decoded(self.text) else ()

    def expand(self) -> Node:
        """Return the union of the spellings of first characters, each with the rest of the text."""
        members = [
            concatenation(
                encode_set(characters, self.spelling),
                encoded(target, self.spelling, self.terminator),
            )
            for characters, target in self.text.transitions
        ]
        if self.text.nullable:
            members.append(literal(self.terminator))
        return union(members)

    def compute_transitions(self) -> Transitions:
        if self.terminator and not self.spelling.escapes:
            # The terminator may begin like a character.
            return super().compute_transitions()
        plain: list[tuple[int, Node]] = []
        others: list[Transitions] = []
        for characters, target in self.text.transitions:
            rest = encoded(target, self.spelling, self.terminator)
            longer: list[tuple[int, Node]] = []
            for symbols, begun in encode_set(characters, self.spelling).transitions:
                if begun is EPSILON:
                    plain.append((symbols, rest))
                else:
                    longer.append((symbols, concatenation(begun, rest)))
            if longer:
                others.append(tuple(longer))
        if self.text.nullable and self.terminator:
            plain.append((1 << self.terminator[0], literal(self.terminator[1:])))
        merged = (
            merge_transitions(others, union) if len(others) > 1 else others[0] if others else ()
        )
        return collect_transitions([*plain, *merged])

    def compute_first_bytes(self) -> int:
        first = 1 << self.terminator[0] if self.text.nullable and self.terminator else 0
        escapes, pairs = self.spelling.escapes, self.spelling.pairs
        for characters in self.text.first_characters():
            first |= _first_bytes(characters, escapes, pairs)
        return first

    def compute_derivative(self, byte: int) -> Node:
        if self._is_plain(byte):
            return encoded(_after(self.text, byte), self.spelling, self.terminator)
        if self.terminator and byte == self.terminator[0]:
            return literal(self.terminator[1:]) if self.text.nullable else EMPTY
        return super().compute_derivative(byte)

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        if not self.terminator:
            return position + 1, self.derivative(text[position])
        end = self._plain_end(text, position)
        if end == position:
            return position + 1, self.derivative(text[position])
        node = self.text
        if isinstance(node, Repetition) and node.is_universal:
            return end, self
        node = node.ascii_derivative(text[position:end])
        if node is EMPTY:
            return len(text), EMPTY
        return end, self if node is self.text else encoded(node, self.spelling, self.terminator)

    def direct_derivative(self, text: bytes) -> Node | None:
        # Most tokens continue a string of any text.
        node = self.text
        is_any = isinstance(node, Repetition) and node.is_universal and self.is_prefix_free
        return self if is_any and len(plain_beginning(text)) == len(text) else None

    def _plain_end(self, text: bytes, position: int) -> int:
        """Return the end of the bytes from a position on that are plain."""
        if self.spelling.escapes and self.terminator == b'"':
            return position + len(plain_beginning(text, position))
        while position < len(text) and self._is_plain(text[position]):
            position += 1
        return position

    def _is_plain(self, byte: int) -> bool:
        """Whether a byte is a whole character, and has no other meaning."""
        if not self.spelling.escapes:
            return byte < 0x80 and not self.terminator
        return _PLAIN[byte] and not self.terminator.startswith(bytes((byte,)))


def plain_beginning(text: bytes, position: int = 0) -> bytes:
    """Return the first bytes, from a position on, that strings of JSON have without escapes only.

    Each of them is a whole character that has no other spelling.
    """
    found = _PLAIN_RUN.match(text, position)
    return b"" if found is None else found.group()


def _after(text: Node, point: int) -> Node:
    """Return the derivative of a language of code points."""
    if isinstance(text, Repetition) and text.is_universal:
        return text
    return text.character_derivative(point)


def encoded(text: Node, spelling: Spelling, terminator: bytes = b"") -> Node:
    """Return the byte language of a code-point language; :data:`EMPTY` if it has no word."""
    if text is EMPTY or text.is_empty:
        return EMPTY
    if text is EPSILON and not terminator:
        return EPSILON
    if isinstance(text, DecodedText) and spelling is RAW and not terminator:
        return text.body
    bounded = bounds_and_rest(text)
    rest = text if bounded is None else bounded[1]
    if isinstance(rest, SelfEncoding):
        bounds = (0, None) if bounded is None else (bounded[0].min_count, bounded[0].max_count)
        return rest.encoded(spelling, terminator, *bounds)
    return intern_node(
        ("EncodedText", id(text), spelling.name, terminator),
        lambda: EncodedText(text, spelling, terminator),
    )


@lru_cache(_READ_TEXTS)
def next_bytes(point: int, spelling: Spelling, begun: bytes) -> int:
    """Return the bytes that follow a beginning of the spellings of a character, as a set.

    Args:
        point: The character.
        spelling: The spelling.
        begun: The beginning, with hexadecimal digits in lower case.
    """
    found = 0
    for written in spellings_of(point, spelling.escapes, spelling.pairs):
        if len(written) > len(begun) and written.startswith(begun):
            byte = written[len(begun)]
            found |= 1 << byte
            if len(begun) > 1 and written[0] == ord("\\") and byte in b"abcdef":
                found |= 1 << byte - 32
    return found


def decoded(node: Node) -> Node:
    """Return a byte language as a language of code points; the inverse of :func:`encoded`.

    Words that are not UTF-8 are left out.
    """
    if isinstance(node, EncodedText) and node.spelling is RAW and not node.terminator:
        return node.text
    return decoded_text(node)


def _has_decoded(text: Node) -> bool:
    members = text.members if isinstance(text, Intersection) else (text,)
    return any(isinstance(member, DecodedText) for member in members)


_FIRST_BYTES: LruCache[tuple[CodePointSet, bool, bool], int] = LruCache(LIMITS.cached_ranges)
_ENCODED_SETS: LruCache[tuple[CodePointSet, Spelling], Node] = LruCache(LIMITS.cached_ranges)


def _first_bytes(characters: CodePointSet, escapes: bool, pairs: bool) -> int:
    """Return the bytes that the spellings of the characters of a set begin with."""
    key = (characters, escapes, pairs)
    known = _FIRST_BYTES.peek(key)
    if known is not None:
        return known
    raw = characters & ~NEEDS_ESCAPE if escapes else characters
    first = 0
    for low, high in raw.ranges:
        first |= byte_range(chr(low).encode()[0], chr(high).encode()[0])
        if low < 0x80 <= high:
            first &= ~_CONTINUATIONS
    if escapes and (characters & (_HAS_ESCAPE if pairs else _HAS_SINGLE_ESCAPE)):
        first |= 1 << ord("\\")
    return _FIRST_BYTES.put(key, first, 1 + len(characters.ranges))


def encode_set(characters: CodePointSet, spelling: Spelling) -> Node:
    """Return the byte language of one character of a set."""
    key = (characters, spelling)
    known = _ENCODED_SETS.peek(key)
    if known is None:
        made = _encode_set(characters, spelling)
        # A range takes some ten nodes of a kilobyte.
        known = _ENCODED_SETS.put(key, made, 1 + 16 * len(characters.ranges))
    return known


def _encode_set(characters: CodePointSet, spelling: Spelling) -> Node:
    if not spelling.escapes:
        return union(utf8(characters))
    members = utf8(characters & ~NEEDS_ESCAPE)
    escapes: list[tuple[int, Node]] = [
        (1 << mark[0], EPSILON) for point, mark in SHORT_ESCAPES.items() if point in characters
    ]
    basic = BY_HEXADECIMAL if spelling.pairs else BY_HEXADECIMAL & code_points(0, 0xFFFF)
    if characters & basic:
        # Few texts have such an escape, and its digits are many nodes.
        digits = reference(
            ("_hexadecimal", characters, spelling.pairs),
            lambda: union(hexadecimal(characters & BY_HEXADECIMAL, pairs=spelling.pairs)),
            min_length=4,
        )
        escapes.append((1 << ord("u"), digits))
    members.append(branch(((1 << ord("\\"), branch(escapes)),)))
    return union(members)
