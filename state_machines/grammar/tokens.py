r"""Languages of one token, given by its text or its number.

A vocabulary has several ways to write a text, and a grammar may ask for a single token:
``<[1000]>`` is token 1000, even if two other tokens write the same text. Therefore every token has
a *spelling* beside its bytes, a byte string that no text contains::

    b"\xff\xff" + number, 3 bytes, most significant first + text of the token + b"\xff"

A matcher that takes a token unites the derivatives by the token's bytes and by its spelling. So a
set of tokens is a language of bytes as any other, and does not depend on a vocabulary. A special
token has its usual form ``b"\xff" + name`` as well, so a set of names contains that form too, and
code for special tokens handles these tokens as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from state_machines.budgets import spend
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.lexing import Lexed
from state_machines.grammar.node import EPSILON, Node, Transitions, intern_node
from state_machines.grammar.nodes import (
    Concatenation,
    branch,
    concatenation,
    literal,
    repetition,
    symbols,
    union,
)
from state_machines.grammar.remembered import Remembered
from state_machines.grammar.substring import BegunQuote
from state_machines.grammar.symbols import byte_range
from state_machines.grammar.word_lists import literals

Spell: TypeAlias = Callable[[str], bytes]
"""Returns the bytes of a text in a vocabulary, where it may contain names of special tokens."""

SPECIAL_MARK = b"\xff"
"""The first byte of the form of a special token."""

SPELLING_MARK = 2 * SPECIAL_MARK
"""The first bytes of a spelling."""

ID_BYTES = 3
"""Bytes of a number in a spelling."""

MAX_TOKEN_ID = (1 << 8 * ID_BYTES) - 1
"""The greatest number of a token in a grammar."""

_MARK = SPECIAL_MARK[0]
_SPELLINGS = (EncodedText, BegunQuote)
_ANY_BYTE = byte_range(0, 0xFF)
_TEXT_BYTE = _ANY_BYTE & ~(1 << _MARK)


class TokenNode(Node):
    """One token out of a set: the forms of special tokens, and spellings.

    Attributes:
        forms: The language of these byte strings. Lengths do not count tokens, so the node has
            bounds of its own.
    """

    __slots__ = ("forms",)

    def __init__(self, forms: Node) -> None:
        super().__init__(nullable=False, min_length=1, max_length=None)
        self.forms = forms

    def compute_transitions(self) -> Transitions:
        return self.forms.transitions

    def release(self) -> Iterable[Node]:
        return (*super().release(), self.forms)


def spelling(token_id: int, text: bytes) -> bytes:
    """Return the spelling of a token.

    Args:
        token_id: The number, at most :data:`MAX_TOKEN_ID`.
        text: The bytes of an ordinary token, the name of a special one.
    """
    return SPELLING_MARK + token_id.to_bytes(ID_BYTES, "big") + text + SPECIAL_MARK


def begins_with_spelling(state: Node) -> bool:
    """Return whether a token that the grammar gives by name or number may be next."""
    first = state.known_first_bytes
    if first is not None and not first >> _MARK & 1:
        return False
    head = state.head if isinstance(state, Concatenation) else state
    if isinstance(head, _SPELLINGS) and not head.nullable:
        # No spelling of a character has the mark.
        return False
    # Which bytes begin a remembered word depends on the words that are taken.
    if isinstance(head, Remembered) and not head.lexeme.first_bytes >> _MARK & 1:
        return False
    # Which other bytes begin a text of lexemes is not known yet.
    if not isinstance(state, Lexed) and not state.first_bytes >> _MARK & 1:
        return False
    return bool(state.derivative(_MARK).first_bytes >> _MARK & 1)


def token_set(
    names: Iterable[str] = (),
    ranges: Iterable[tuple[int, int]] = (),
    *,
    is_negated: bool = False,
) -> Node:
    """Return the language of one token out of a set.

    Args:
        names: Texts of tokens.
        ranges: First and last numbers, from 0 to :data:`MAX_TOKEN_ID`.
        is_negated: Whether the set is every token but these, special tokens included. End tokens
            end a text, so they are in no set of tokens.
    """
    texts = list(dict.fromkeys(name.encode() for name in names))
    united = _normalised(ranges)
    end = literal(SPECIAL_MARK)
    any_id = repetition(symbols(_ANY_BYTE), ID_BYTES, ID_BYTES)
    any_text = concatenation(repetition(symbols(_TEXT_BYTE), 0, None), end)
    spelled: list[Node] = []
    if is_negated:
        others = _numbers(_complement(united)) if united else any_id
        spelled.append(concatenation(others, _other_texts(texts, any_text) if texts else any_text))
    else:
        if texts:
            spelled.append(concatenation(any_id, literals(text + SPECIAL_MARK for text in texts)))
        if united:
            spelled.append(concatenation(_numbers(united), any_text))
    forms = [concatenation(literal(SPELLING_MARK), union(spelled))]
    if texts and not is_negated:
        forms.append(literals(SPECIAL_MARK + text for text in texts))
    language = union(forms)
    return intern_node(("TokenNode", id(language)), lambda: TokenNode(language))


def _normalised(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = united[-1][0], max(last, united[-1][1])
        else:
            united.append((first, last))
    return united


def _complement(united: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start = 0
    for first, last in united:
        if first > start:
            found.append((start, first - 1))
        start = last + 1
    if start <= MAX_TOKEN_ID:
        found.append((start, MAX_TOKEN_ID))
    return found


def _numbers(united: Sequence[tuple[int, int]]) -> Node:
    """Return the language of the numbers of disjoint ranges, in :data:`ID_BYTES` bytes."""
    return union(node for first, last in united for node in _range(first, last, ID_BYTES))


def _range(first: int, last: int, size: int) -> Iterable[Node]:
    """Yield languages whose union is the numbers of a range, written in ``size`` bytes."""
    spend()
    if not size:
        yield EPSILON
        return
    unit = 1 << 8 * (size - 1)
    low, high = first // unit, last // unit
    if low == high:
        head = symbols(1 << low)
        for rest in _range(first % unit, last % unit, size - 1):
            yield concatenation(head, rest)
        return
    if first % unit:
        yield from _range(first, (low + 1) * unit - 1, size)
        low += 1
    if (last + 1) % unit:
        yield from _range(high * unit, last, size)
        high -= 1
    if low <= high:
        rest = repetition(symbols(_ANY_BYTE), size - 1, size - 1)
        yield concatenation(symbols(byte_range(low, high)), rest)


def _other_texts(texts: Sequence[bytes], any_text: Node) -> Node:
    """Return the texts but some, each followed by the mark: a trie with all other branches."""
    by_byte: dict[int, list[bytes]] = {}
    for text in texts:
        if text:
            by_byte.setdefault(text[0], []).append(text[1:])
    pairs: list[tuple[int, Node]] = [] if b"" in texts else [(1 << _MARK, EPSILON)]
    rest = _TEXT_BYTE
    for byte, ends in by_byte.items():
        spend()
        pairs.append((1 << byte, _other_texts(ends, any_text)))
        rest &= ~(1 << byte)
    pairs.append((rest, any_text))
    return branch(pairs)
