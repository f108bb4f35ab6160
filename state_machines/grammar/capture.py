"""A node that remembers the bytes it has matched, for languages that depend on them.

That no two members of an object have the same name, or no two items of an array the same value,
is no regular property: what may follow depends on what has been written. A :class:`Captured` node
matches a language and hands the text to a continuation, which gives the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable

from state_machines.grammar.node import (
    EMPTY,
    EPSILON,
    Node,
    TransientDerivatives,
    Transitions,
    collect_transitions,
    intern_node,
)
from state_machines.grammar.nodes import concatenation, union
from state_machines.grammar.symbols import bytes_in

__all__ = ["Captured", "Continuation", "captured"]


class Continuation(ABC):
    """What comes after a captured text."""

    __slots__ = ("_joined",)

    _joined: tuple[Node, Node | None]

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """Equal for continuations that behave equally; holds no node and no other continuation."""

    @property
    @abstractmethod
    def steps(self) -> TransientDerivatives:
        """Where the steps within the captured text are kept."""

    @abstractmethod
    def after(self, text: bytes) -> Node:
        """Return the node that follows the captured bytes."""

    @abstractmethod
    def after_any(self) -> Node | None:
        """Return a node that stands for ``after(text)`` whatever the text, if there is one.

        The two may differ after :meth:`exceptions`, and beyond the end of another captured text;
        where the continuation ``is_unsure``, it may hold more than ``after(text)`` from the
        beginning.
        """

    def any_before(self, tail: Node) -> Node | None:
        """Return :meth:`after_any` and a tail; kept, since every state of a text asks for it."""
        try:
            known, joined = self._joined
        except AttributeError:
            known = None
        if known is not tail:
            after = self.after_any()
            joined = None if after is None else concatenation(after, tail)
            object.__setattr__(self, "_joined", (tail, joined))
        return joined

    def release(self) -> Node | None:
        """Forget what :meth:`any_before` gave, and return it."""
        try:
            _, joined = self._joined
            object.__delattr__(self, "_joined")
        except AttributeError:
            return None
        return joined

    @property
    def is_unsure(self) -> bool:
        """Whether what follows must be looked at with the text known."""
        return False

    @abstractmethod
    def may_end_another(self, suffix: bytes) -> bool:
        """Whether the bytes after a captured text may hold the end of another one."""

    @property
    def has_exceptions(self) -> bool:
        """Whether there may be :meth:`exceptions`.

        If so, what is captured is the text of a JSON string with its closing quote, and an
        exception is not the only text that goes on from where its spelling has come to.
        """
        return False

    def exceptions(self, prefix: str) -> Iterable[str]:
        """Return the strings beginning with ``prefix`` after which comes something else.

        What comes there is what ``after`` says and ``after_any`` does not; maybe nothing at all.
        """
        del prefix
        return ()

    def needed(self, prefix: str) -> str | None:
        """Return an exception beginning with ``prefix`` that must be written before the end.

        ``None`` where there is none, or where other texts may bring the end as near.
        """
        del prefix
        return None


class Captured(Node):
    """``text`` has been matched; a non-empty word of ``rest`` is still to come."""

    __slots__ = ("rest", "text", "then")

    def __init__(self, text: bytes, rest: Node, then: Continuation) -> None:
        super().__init__(nullable=False, min_length=max(1, rest.min_length), max_length=None)
        self.text = text
        self.rest = rest
        self.then = then
        self.transient = then.steps

    def compute_transitions(self) -> Transitions:
        return collect_transitions(
            (1 << byte, self._step(byte, target))
            for symbols, target in self.rest.transitions
            for byte in bytes_in(symbols)
        )

    def compute_first_bytes(self) -> int:
        first = self.rest.first_bytes
        closing = 1 << ord('"')
        if (
            first & closing
            and self.then.has_exceptions
            and self.compute_derivative(ord('"')) is EMPTY
        ):
            first ^= closing
        return first

    def derivative(self, byte: int) -> Node:
        """Return what may follow ``byte``. Not kept: what is captured seldom comes again."""
        return self.compute_derivative(byte)

    def compute_derivative(self, byte: int) -> Node:
        """Compute the derivative by a byte."""
        target = self.rest.derivative(byte)
        return EMPTY if target is EMPTY else self._step(byte, target)

    def run_derivative(self, text: bytes, position: int) -> tuple[int, Node]:
        start = position
        position, target = self.rest.run_derivative(text, position)
        return position, captured(target, self.then, self.text + text[start:position])

    def release(self) -> Iterable[Node]:
        joined = self.then.release()
        found = (*super().release(), self.rest)
        return found if joined is None else (*found, joined)

    def _step(self, byte: int, target: Node) -> Node:
        return captured(target, self.then, self.text + bytes((byte,)))


def captured(rest: Node, then: Continuation, text: bytes = b"") -> Node:
    """Return the node that matches ``rest`` and goes on as ``then`` says.

    ``text`` is what has been matched already.
    """
    if rest is EMPTY:
        return EMPTY
    if rest is EPSILON:
        return then.after(text)
    node = intern_node((Captured, text, id(rest), then.key), lambda: Captured(text, rest, then))
    return union((then.after(text), node)) if rest.nullable else node
