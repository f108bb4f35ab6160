"""What a state begins with, in the words of the grammar.

Text that the grammar fixes is quoted; strings, free text and large sets of characters are named.
The description follows the structure of the state (its first lexemes) where there is one, and its
derivatives otherwise, so that a quoted text is always the beginning of a continuation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Literal, TypeAlias

from state_machines.budgets import derivative_budget, spend
from state_machines.errors import GrammarBudgetError
from state_machines.grammar.configurations import all_configurations, joined
from state_machines.grammar.deep import forced_step
from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.line_starts import TextWithoutHeadings
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Repetition
from state_machines.grammar.remembered import Remembered
from state_machines.grammar.symbols import ANY_CODE_POINT, CodePointSet, byte_set, bytes_in
from state_machines.grammar.until import UntilText
from state_machines.limits import LIMITS
from state_machines.notebook_view import code

Kind: TypeAlias = Literal["text", "characters", "string", "free text", "special token", "end"]

_TEXTS = 8
"""Quoted texts of one state."""

_TEXT_BYTES = 48
"""Bytes of a quoted text."""

_FEW = 12
"""Characters up to which the words that begin with them are quoted."""

_SPECIAL_TOKENS = 4096
"""Special tokens that are tried."""

_MAX_RANGES = 8
"""Ranges of a set that are written out."""

_EXCEPTIONS = 6
"""Characters missing in a set up to which it is described by them."""

_NAMES = {" ": "space", "\t": r"\t", "\n": r"\n", "\r": r"\r"}

_SPECIAL_BYTE = 0xFF
_WHITESPACE = byte_set(b" \t\n\r")
_DIGITS = byte_set(b"0123456789")
_ASCII = (1 << 128) - 1
_TAILS = byte_set(range(0x80, 0xC0))
_WORD = byte_set(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-$")


@dataclass(frozen=True, slots=True)
class Continuation:
    """One way to continue a text.

    Attributes:
        kind: ``"text"``: the continuation begins with ``text``. ``"special token"``: ``text`` is
            the token's name. ``"end"``: the text may end. Other kinds are described by ``text``.
        text: The text, or the description.
        is_cut: Whether more text is certain to follow than is quoted.
    """

    kind: Kind
    text: str
    is_cut: bool = False

    def __str__(self) -> str:
        if self.kind == "special token":
            return f"the special token {self.text}"
        if self.kind == "text":
            return f"{self.text!r}{' …' if self.is_cut else ''}"
        return self.text

    @property
    def html(self) -> str:
        """The continuation as HTML."""
        if self.kind == "special token":
            return f"the special token {code(self.text)}"
        if self.kind == "text":
            return code(self.text) + (" …" if self.is_cut else "")
        return escape(self.text)


def list_html(expected: Iterable[Continuation]) -> str:
    """Return continuations as a list in HTML."""
    items = (f'<li style="margin:0">{continuation.html}</li>' for continuation in expected)
    return f'<ul style="margin:0 0 0.2em 0;padding-left:1.4em">{"".join(items)}</ul>'


END = Continuation("end", "the end of the text")
_UNKNOWN = Continuation("characters", "too much to describe")


def continuations(
    state: Node, special_tokens: Mapping[str, int] | None = None
) -> tuple[Continuation, ...]:
    """Return what a state may begin with: lexemes, then quoted texts, then the end.

    Stops with a coarser description where it would take more than ``LIMITS.explanation_steps``
    steps.

    Args:
        state: The state.
        special_tokens: Ids of special tokens by name, as in
            :class:`~state_machines.vocabulary.Vocabulary`.
    """
    found: dict[Continuation, None] = {}
    try:
        with derivative_budget(LIMITS.explanation_steps):
            for continuation in _found(state, special_tokens or {}):
                found[continuation] = None
    except GrammarBudgetError:
        found[_UNKNOWN] = None
    if state.nullable:
        found[END] = None
    return tuple(found)


def _found(state: Node, special_tokens: Mapping[str, int]) -> Iterator[Continuation]:
    rest, lexemes = _split(state)
    yield from map(_in_words, lexemes)
    yield from _byte_continuations(state, rest)
    if rest >> _SPECIAL_BYTE & 1:
        yield from _special(state, special_tokens)


def _split(state: Node) -> tuple[int, list[EncodedText]]:
    """Return the open lexemes that a state begins with, and the first bytes of all else."""
    configurations = all_configurations(state)
    if configurations is None:
        return state.first_bytes, []
    rest, lexemes = 0, []
    for head, stack in configurations:
        lexeme = head.lexeme if isinstance(head, Remembered) else head
        if isinstance(lexeme, EncodedText) and _is_open(lexeme):
            lexemes.append(lexeme)
            if lexeme.text.nullable:
                closing = lexeme.terminator[:1]
                after = None if closing else joined(stack)
                rest |= byte_set(closing) & head.first_bytes
                rest |= 0 if after is None else after.first_bytes
        else:
            rest |= joined((head, stack)).first_bytes
    return rest & state.first_bytes, lexemes


def _is_open(lexeme: EncodedText) -> bool:
    """Whether a lexeme is named rather than quoted: too many characters may come first."""
    return (
        isinstance(lexeme.text, UntilText | TextWithoutHeadings)
        or len(_first_characters(lexeme)) > _FEW
    )


def _first_characters(lexeme: EncodedText) -> CodePointSet:
    members = CodePointSet(())
    for symbols, _ in lexeme.text.transitions:
        spend()
        members = members | symbols
    return members


def _in_words(lexeme: EncodedText) -> Continuation:
    text = lexeme.text
    if isinstance(text, UntilText | TextWithoutHeadings):
        ending = "" if text.wanted is None else f" up to {text.wanted!r}"
        return Continuation("free text", f"free text{ending}")
    members = characters_in_words(_first_characters(lexeme))
    is_any = members == "any character"
    if lexeme.spelling.escapes:
        characters = "" if is_any else f": {members}"
        return Continuation("string", f"the content of a string{characters}{_bounds(text)}")
    if isinstance(text, Repetition) and text.is_universal:
        return Continuation("free text", "any text")
    return Continuation("characters", members)


def _bounds(text: Node) -> str:
    low, high = text.min_length, text.max_length
    if high is not None:
        count = f"{low:,} to {high:,}" if low < high else f"{high:,}"
        return f" ({count} more character{'s' if high != 1 else ''})"
    return f" (at least {low:,} more character{'s' if low > 1 else ''})" if low else ""


def _byte_continuations(state: Node, first: int) -> Iterator[Continuation]:
    """Yield continuations of a state that begin with some of its bytes."""
    first &= ~(1 << _SPECIAL_BYTE)
    # Kinds of bytes, and up to how many of a kind are quoted.
    kinds = (
        (_WHITESPACE, 0 if first & (first - 1) else 1, "whitespace"),
        (_DIGITS, 1, ""),
        (_TAILS, 0, "the rest of a character"),
        (_ASCII, _FEW, ""),
    )
    for kind, quoted, what in kinds:
        members = first & kind
        if members.bit_count() > quoted:
            yield Continuation("characters", what or characters_in_words(_ascii(members)))
            first &= ~kind
    yield from _texts(state, first)


def _ascii(members: int) -> CodePointSet:
    return CodePointSet((byte, byte) for byte in bytes_in(members))


def _texts(state: Node, first: int) -> Iterator[Continuation]:
    """Yield the texts that a state begins with, up to the first choice outside of a word."""
    pending = [(state, b"", first)]
    found = 0
    while pending:
        node, written, following = pending.pop(0)
        for byte in bytes_in(following):
            if found + len(pending) >= _TEXTS:
                yield Continuation("characters", "other text")
                return
            text, after, is_cut = _forced(node, written + bytes((byte,)))
            branches = 0 if after.nullable or is_cut else _word_branches(text, after)
            if branches:
                pending.append((after, text, branches))
                continue
            found += 1
            yield _quoted(text, is_cut)


def _forced(node: Node, text: bytes) -> tuple[bytes, Node, bool]:
    """Follow the last byte of a text, and all text that is certain to come after it.

    Returns:
        The text, the state after it, and whether still more is certain.
    """
    node = node.compute_word_derivative(text[-1:])
    while not node.nullable and node is not EMPTY:
        spend()
        forced = forced_step(node)
        if not forced:
            break
        if len(text) >= _TEXT_BYTES:
            return text, node, True
        text, node = text + forced, node.compute_word_derivative(forced)
    return text, node, False


def _word_branches(text: bytes, node: Node) -> int:
    """Return the next bytes if they are a choice within a word or after an opening quote."""
    first = node.first_bytes
    if first & ~_WORD or first.bit_count() > _FEW or not (1 << text[-1]) & (_WORD | 1 << ord('"')):
        return 0
    if not first & ~_DIGITS:
        return 0
    rest, lexemes = _split(node)
    return 0 if lexemes else rest


def _quoted(text: bytes, is_cut: bool) -> Continuation:
    if len(text) > _TEXT_BYTES:
        text, is_cut = text[:_TEXT_BYTES], True
    quoted = text.partition(bytes((_SPECIAL_BYTE,)))[0]
    whole = quoted.decode("utf-8", "ignore")
    if not whole:
        return Continuation("characters", "a character beyond ASCII")
    return Continuation("text", whole, is_cut or whole.encode() != text)


def _special(state: Node, special_tokens: Mapping[str, int]) -> Iterator[Continuation]:
    found = 0
    for name in list(special_tokens)[:_SPECIAL_TOKENS]:
        form = bytes((_SPECIAL_BYTE,)) + name.encode()
        spend()
        if state.compute_word_derivative(form) is not EMPTY:
            found += 1
            if found > _TEXTS:
                yield Continuation("characters", "other special tokens")
                return
            yield Continuation("special token", name)
    if not found:
        yield Continuation("characters", "a special token")


def characters_in_words(members: CodePointSet) -> str:
    """Return a set of characters in words, such as ``"one of A–Z, _"``."""
    absent = ANY_CODE_POINT & ~members
    if not absent:
        return "any character"
    if len(absent) <= _EXCEPTIONS:
        return f"any character except {_ranges(absent)}"
    if members.ranges and members.ranges[0][0] >= ord("0") and members.ranges[-1][1] <= ord("9"):
        return f"a digit {_ranges(members)}"
    return f"one of {_ranges(members)}"


def character_name(character: str) -> str:
    """Return a character for display; whitespace and control characters by name."""
    if character in _NAMES:
        return _NAMES[character]
    return character if character.isprintable() else f"U+{ord(character):04X}"


def _ranges(members: CodePointSet) -> str:
    shown = [_range(*limits) for limits in members.ranges[:_MAX_RANGES]]
    if len(members.ranges) > _MAX_RANGES:
        shown.append("…")
    return ", ".join(shown)


def _range(first: int, last: int) -> str:
    if last - first < 2:
        return ", ".join(character_name(chr(point)) for point in range(first, last + 1))
    return f"{character_name(chr(first))}–{character_name(chr(last))}"
