"""The values that the items of an array have taken, so that no other may be one of them.

Each item leaves a state of its own behind, so sets that grow by one word are copied in parts: what
a word does not touch is shared with the set before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.tries import with_word

__all__ = ["NOTHING_TAKEN", "Taken", "WordSet"]

_BUCKETS = 64


class WordSet:
    """An immutable set of strings; one with another string costs little, however many there are."""

    __slots__ = ("_buckets", "_hash")

    def __init__(self, buckets: tuple[frozenset[str], ...] = (frozenset(),) * _BUCKETS) -> None:
        self._buckets = buckets
        self._hash = hash(buckets)

    def with_word(self, word: str) -> WordSet:
        """Return the set with a word."""
        at = hash(word) % _BUCKETS
        buckets = self._buckets
        return WordSet((*buckets[:at], buckets[at] | {word}, *buckets[at + 1 :]))

    def __contains__(self, word: str) -> bool:
        return word in self._buckets[hash(word) % _BUCKETS]

    def __iter__(self) -> Iterator[str]:
        for bucket in self._buckets:
            yield from bucket

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WordSet) and self._buckets == other._buckets

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class Taken:
    """Values that are taken.

    ``free`` are strings that are begun by others as well, however many are taken: it is enough to
    look at one when it ends. ``words`` are other strings, as a language of code points, ``texts``
    what is no string, as JSON.
    """

    free: WordSet = WordSet()  # noqa: RUF009, it is immutable
    words: Node = EMPTY
    texts: frozenset[str] = frozenset()
    count: int = 0

    @property
    def key(self) -> Hashable:
        """Equal for equal values; holds no node."""
        return (self.free, id(self.words), self.texts)

    def with_free(self, word: str) -> Taken:
        """Return these and a string that may be looked at when it ends."""
        return Taken(self.free.with_word(word), self.words, self.texts, self.count + 1)

    def with_string(self, word: str) -> Taken:
        """Return these and a string."""
        return Taken(self.free, with_word(self.words, word), self.texts, self.count + 1)

    def with_text(self, text: str) -> Taken:
        """Return these and a value that is written so, and is no string."""
        return Taken(self.free, self.words, self.texts | {text}, self.count + 1)


NOTHING_TAKEN = Taken()
