"""Remembered words: what follows depends on the word that was matched.

Two properties of JSON are not regular: distinct names of members, and distinct items of an array.
After ``{"a": 1, "`` the name may be anything but ``a``. A :class:`Remembered` node matches a
lexeme, records the bytes, and passes them to a :class:`Dispatch`, which returns the continuation.

Masks cannot evaluate the dispatch for every word of the lexeme. A dispatch therefore also describes
itself without a word: by a default continuation, by the words that are exceptions to it, and by the
suffixes for which the default is not exact. Masks are exact because of two properties:

* For a word that is no exception, the default and ``after(word)`` accept the same suffixes, except
  context-dependent ones: a recorded name or item matters only once another one is complete. Tokens
  with a suffix that completes another one are checked with the word known.
* Tokens that complete an exception are found by the exception's spelling. They are removed from
  the tokens that the default admits, and checked with the word known as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import TypeAlias

from state_machines.grammar.encoding import EncodedText
from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    SharedDerivatives,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import concatenation, union
from state_machines.grammar.symbols import ANY_BYTE, bytes_in

SuffixTest: TypeAlias = "Callable[[bytes], bool]"
"""Whether a suffix, the bytes that a token writes behind a remembered word, depends on the word."""


def always(suffix: bytes) -> bool:
    """The suffix test of a default that is never exact, not even for the empty suffix."""
    del suffix
    return True


def goes_further(suffix: bytes) -> bool:
    """The suffix test of a default that is exact for one byte beyond the word."""
    return len(suffix) > 1


class Dispatch(ABC):
    """Maps remembered words to continuations: exceptions, and a default for all other words."""

    __slots__ = ("_joined",)

    _joined: tuple[Node, Node | None]

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for dispatches that behave equally; holds no node and no other dispatch."""

    @property
    @abstractmethod
    def shared_derivatives(self) -> SharedDerivatives:
        """Where the derivatives within the remembered word are stored."""

    @abstractmethod
    def after(self, word: bytes) -> Node:
        """Return the continuation of a remembered word, given by its bytes. Exact."""

    @abstractmethod
    def default(self) -> Node | None:
        """Return the continuation of the words that are no exceptions; ``None`` if they differ.

        Exact for suffixes that are not :attr:`context_dependent`; for others it may admit more
        than :meth:`after` does.
        """

    @property
    @abstractmethod
    def context_dependent(self) -> SuffixTest:
        """The suffixes that must be checked with the word known; one object for equal tests."""

    @property
    def following_bytes(self) -> int:
        """A superset of the bytes that continuations begin with."""
        return ANY_BYTE

    @property
    def has_exceptions(self) -> bool:
        """Whether there may be exceptions.

        If so, the lexeme is the text of a JSON string with its closing quote, and no exception is
        the only word with its beginning.
        """
        return False

    def exceptions(self, written: bytes) -> tuple[str, ...]:
        """Return the rest of every exception that begins with the characters ``written``."""
        del written
        return ()

    def required(self, written: bytes) -> str | None:
        """Return the rest of an exception without which the end cannot be reached.

        ``None`` where there is none, or where other words may lead to the end as soon.
        """
        del written
        return None

    def default_before(self, tail: Node) -> Node | None:
        """Return :meth:`default` followed by a tail. The last result is stored."""
        try:
            known, joined = self._joined
        except AttributeError:
            known = None
        if known is not tail:
            default = self.default()
            joined = None if default is None else concatenation(default, tail)
            object.__setattr__(self, "_joined", (tail, joined))
        return joined

    def release(self) -> Node | None:
        """Drop the result that :meth:`default_before` stored, and return it."""
        try:
            _, joined = self._joined
            object.__delattr__(self, "_joined")
        except AttributeError:
            return None
        return joined


class Remembered(Node):
    """A remembered word after the bytes ``written``; a non-empty word of ``lexeme`` follows."""

    __slots__ = ("dispatch", "lexeme", "written")

    def __init__(self, written: bytes, lexeme: Node, dispatch: Dispatch) -> None:
        super().__init__(nullable=False, min_length=max(1, lexeme.min_length), max_length=None)
        self.written = written
        self.lexeme = lexeme
        self.dispatch = dispatch
        self.shared_derivatives = dispatch.shared_derivatives

    def exceptions(self) -> tuple[str, ...] | None:
        """Return the rest of each exception after ``written``.

        ``None`` where that is unknown, because ``written`` ends within a character.
        """
        if not self.dispatch.has_exceptions:
            return ()
        return self.dispatch.exceptions(self.written) if self._ends_a_character else None

    def required(self) -> bytes | None:
        """Return the spelling of the rest of a required exception; ``None`` if there is none."""
        if not (self.dispatch.has_exceptions and self._ends_a_character):
            return None
        rest = self.dispatch.required(self.written)
        if rest is None or not isinstance(self.lexeme, EncodedText):
            return None
        word = self.lexeme.spell(rest)
        return word if self.lexeme.matches(word) else None

    @property
    def _ends_a_character(self) -> bool:
        # Only between characters the rest of a text is the text of another node.
        return not self.written or isinstance(self.lexeme, EncodedText)

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (1 << byte, self._after_byte(byte, target))
            for symbols, target in self.lexeme.transitions
            for byte in bytes_in(symbols)
        )

    def compute_first_bytes(self) -> int:
        first = self.lexeme.first_bytes
        closing = 1 << ord('"')
        if (
            first & closing
            and self.dispatch.has_exceptions
            and self.compute_derivative(ord('"')) is EMPTY
        ):
            first ^= closing
        return first

    def derivative(self, byte: int) -> Node:
        """Return the derivative by a byte. Not stored: remembered words seldom repeat."""
        return self.compute_derivative(byte)

    def compute_derivative(self, byte: int) -> Node:
        target = self.lexeme.derivative(byte)
        return EMPTY if target is EMPTY else self._after_byte(byte, target)

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        start = position
        position, target = self.lexeme.run_derivative(text, position)
        return position, remembered(target, self.dispatch, self.written + text[start:position])

    def release(self) -> Iterable[Node]:
        joined = self.dispatch.release()
        found = (*super().release(), self.lexeme)
        return found if joined is None else (*found, joined)

    def _after_byte(self, byte: int, target: Node) -> Node:
        return remembered(target, self.dispatch, self.written + bytes((byte,)))


def remembered(lexeme: Node, dispatch: Dispatch, written: bytes = b"") -> Node:
    """Return the node that matches a lexeme and continues as a dispatch says.

    Args:
        lexeme: The language of the rest of the remembered word.
        dispatch: Maps the whole remembered word to its continuation.
        written: The bytes that have been read already.
    """
    if lexeme is EMPTY:
        return EMPTY
    if lexeme is EPSILON:
        return dispatch.after(written)
    key = Remembered, written, id(lexeme), dispatch.key
    node = intern_node(key, lambda: Remembered(written, lexeme, dispatch))
    return union((dispatch.after(written), node)) if lexeme.nullable else node
