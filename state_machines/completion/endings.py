"""Texts that end an output, as ropes whose parts are shared.

A rope (Boehm, Atkinson & Plass 1995) is a chain of stretches; a stretch is a byte string or another
rope. What occurs twice in a text is one object, so a text of 2^40 bytes takes 40 objects, and all
states that have the same rest share that rest. :mod:`~state_machines.completion.cutter` finds out
how few tokens write a rope.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.budgets import spend

__all__ = ["NOTHING", "UNWRITABLE_WEIGHT", "Ending", "joined"]

MAX_SIZE = 1 << 50
"""The bound at which sizes and weights saturate."""

UNWRITABLE_WEIGHT = 1 << 60
"""The least weight of a text that no tokens write."""

SHORT = 64
"""Bytes up to which a rope is copied into another one rather than shared."""


class Ending:
    """The text ``text``, or the rope ``inner``, and the ending ``then`` that comes after it.

    ``size`` is the number of bytes of the whole. ``weight`` is what endings are compared by before
    they are cut. Both are exact up to :data:`MAX_SIZE`.
    """

    __slots__ = ("cut", "inner", "size", "text", "then", "weight")

    def __init__(
        self, text: bytes, then: Ending | None, weight: int, inner: Ending | None = None
    ) -> None:
        self.text = text
        self.inner: Ending | None = inner
        self.then: Ending | None = then
        self.weight = weight
        size: int = len(text) if inner is None else inner.size
        if then is not None:
            size += then.size
        self.size: int = min(MAX_SIZE, size)
        self.cut: object = None
        """How the text was cut last; the cutter's own."""

    def texts(self) -> Iterator[bytes]:
        """Yield the byte strings that make up the whole, in order."""
        stack: list[Ending] = [self]
        while stack:
            ending = stack.pop()
            spend()
            if ending.then is not None:
                stack.append(ending.then)
            if ending.inner is not None:
                stack.append(ending.inner)
            elif ending.text:
                yield ending.text

    @property
    def first(self) -> bytes:
        """The first byte of the whole, if there is one."""
        return next(self.texts(), b"")[:1]

    @property
    def flat(self) -> bytes:
        """The whole text. Only for texts that are known to be short, see ``size``."""
        if self.inner is None and (self.then is None or not self.then.size):
            return self.text
        return b"".join(self.texts())


NOTHING = Ending(b"", None, 0)
"""The end itself."""


def joined(head: Ending, tail: Ending) -> Ending:
    """Return one ending after the other."""
    if tail is NOTHING:
        return head
    if not head.size:
        return tail
    weight = _sum(head.weight, tail.weight)
    if head.inner is None and head.then is NOTHING:
        return Ending(head.text, tail, weight)
    if head.size <= SHORT:
        return Ending(head.flat, tail, weight)
    return Ending(b"", tail, weight, head)


def _sum(first: int, second: int) -> int:
    weight = first + second
    if weight <= MAX_SIZE:
        return weight
    is_writable = first < UNWRITABLE_WEIGHT and second < UNWRITABLE_WEIGHT
    return MAX_SIZE if is_writable else UNWRITABLE_WEIGHT
