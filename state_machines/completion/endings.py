"""Texts that complete an output, as ropes with shared parts.

A rope (Boehm, Atkinson & Plass 1995) is a chain of stretches; a stretch is a byte string or another
rope. A repeated part is one object, so a text of 2^40 bytes takes 40 objects, and states with the
same continuation share its rope. :mod:`~state_machines.completion.segmenter` segments ropes into
tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.budgets import spend

MAX_SIZE = 1 << 50
"""The bound at which sizes and weights saturate."""

UNWRITABLE_WEIGHT = 1 << 60
"""The weight of a text that no tokens write."""

SHORT = 64
"""Bytes up to which a rope is copied into another instead of shared."""


class Ending:
    """A text or a rope, followed by another ending.

    Attributes:
        text: The first bytes, unless ``inner`` is given.
        inner: A rope that stands in place of ``text``.
        then: The ending that follows; ``None`` only for :data:`NOTHING`.
        size: Number of bytes of the whole, saturating at :data:`MAX_SIZE`.
        is_limited: Whether a part is written in a limited number of tokens, so that not any
            segmentation is allowed.
        weight: Cost by which endings are compared before they are segmented, saturating too.
    """

    __slots__ = ("inner", "is_limited", "segmentation", "size", "text", "then", "weight")

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
        inherits = (inner is not None and inner.is_limited) or (
            then is not None and then.is_limited
        )
        self.is_limited: bool = inherits
        self.segmentation: object = None
        """The last segmentation; owned by the segmenter."""

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
        """The first byte, or ``b""``."""
        return next(self.texts(), b"")[:1]

    @property
    def flat(self) -> bytes:
        """The whole text; only for texts whose ``size`` is known to be small."""
        if self.inner is None and (self.then is None or not self.then.size):
            return self.text
        return b"".join(self.texts())


NOTHING = Ending(b"", None, 0)
"""The end itself."""


def joined(head: Ending, tail: Ending) -> Ending:
    """Return the concatenation of two endings."""
    if tail is NOTHING:
        return head
    if not head.size:
        return tail
    weight = _sum(head.weight, tail.weight)
    if head.is_limited:
        return Ending(b"", tail, weight, head)
    if head.inner is None and head.then is NOTHING:
        return Ending(head.text, tail, weight)
    if head.size <= SHORT:
        return Ending(head.flat, tail, weight)
    return Ending(b"", tail, weight, head)


def limited(ending: Ending) -> Ending:
    """Return an ending that is marked as limited in tokens."""
    if ending.is_limited or not ending.size:
        return ending
    marked = Ending(b"", NOTHING, ending.weight, ending)
    marked.is_limited = True
    return marked


def _sum(first: int, second: int) -> int:
    weight = first + second
    if weight <= MAX_SIZE:
        return weight
    is_writable = first < UNWRITABLE_WEIGHT and second < UNWRITABLE_WEIGHT
    return MAX_SIZE if is_writable else UNWRITABLE_WEIGHT
