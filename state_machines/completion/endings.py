"""Texts that end an output, and the fewest tokens that write them.

A text is kept as a chain of stretches, so that all states that come to the same rest share it:
what must still be written after a string is measured once, however the string goes on. In how few
tokens a text can be cut is told from its end to its beginning, a byte at a time; tokens may span
stretches.
"""

from __future__ import annotations

from collections.abc import Iterator

from state_machines.masks.token_trie import TokenTrie

__all__ = ["NOTHING", "UNWRITABLE", "Cutter", "Ending"]

UNWRITABLE = 1 << 40
"""The number of tokens of a text that they cannot write."""

MAX_WEIGHED = 8192
"""Texts whose weight is remembered."""

TOKEN_WEIGHT = 16
"""What a token weighs, in bytes, where texts are compared."""


class Ending:
    """A text, and the ending ``then`` that comes after it.

    ``weight`` is what endings are compared by before they are cut, see :meth:`Cutter.weight`.
    """

    __slots__ = ("_flat", "ahead", "cuts", "fewest", "head", "text", "then", "weight")

    def __init__(self, text: bytes, then: Ending | None, weight: int) -> None:
        self.text = text
        self.then = then
        self.weight = weight
        self._flat: bytes | None = None
        self.head = b""
        """The first bytes of the whole, as many as the longest token has."""
        self.ahead: tuple[int, ...] | None = None
        """The fewest tokens from each of these places on; ``None`` while it is not cut."""
        self.fewest = 0
        """The fewest tokens of the whole, once it is cut."""
        self.cuts: tuple[int, ...] = ()
        """By place in ``text``, the length of the token there."""

    @property
    def flat(self) -> bytes:
        """The whole text."""
        flat = self._flat
        if flat is None:
            parts = [self.text]
            ending = self.then
            while ending is not None:
                if ending._flat is not None:
                    parts.append(ending._flat)
                    break
                parts.append(ending.text)
                ending = ending.then
            flat = self._flat = b"".join(parts)
        return flat


NOTHING = Ending(b"", None, 0)
"""The end itself."""
NOTHING.ahead = (0,)


class Cutter:
    """Cuts texts into the tokens of a vocabulary, as few as possible."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        self.longest = max(1, len(trie.levels) - 2)
        """The bytes of the longest token."""
        self._weights: dict[bytes, int] = {}

    def weight(self, text: bytes) -> int:
        """Return what a text weighs by itself: its tokens, and then its bytes."""
        weight = self._weights.get(text)
        if weight is None:
            if len(self._weights) >= MAX_WEIGHED:
                self._weights.clear()
            tokens = self.fewest(Ending(text, NOTHING, 0))
            weight = self._weights[text] = TOKEN_WEIGHT * tokens + len(text)
        return weight

    def fewest(self, ending: Ending) -> int:
        """Return the fewest tokens of an ending; :data:`UNWRITABLE` or more if there are none."""
        if ending.ahead is None:
            chain: list[Ending] = []
            link: Ending | None = ending
            while link is not None and link.ahead is None:
                chain.append(link)
                link = link.then
            for link in reversed(chain):
                self._cut(link, link.then or NOTHING)
        return ending.fewest

    def _cut(self, ending: Ending, then: Ending) -> None:
        text = ending.text
        size = len(text)
        ahead = then.ahead or (0,)
        if size:
            letters = text + then.head
            # Places are counted from the end, so that what is found is put at a list's end.
            costs = list(reversed(ahead))
            top = len(letters)
            cuts: list[int] = []
            endings_of = self.trie.endings_of
            for place in range(size - 1, -1, -1):
                least, cut = UNWRITABLE, 0
                for length in endings_of(letters, place):
                    cost = costs[top - place - length]
                    if cost <= least:
                        least, cut = cost, length
                costs.append(least + 1)
                cuts.append(cut)
            costs.reverse()
            cuts.reverse()
            ending.cuts = tuple(cuts)
            ending.head = letters[: self.longest]
            ending.ahead = tuple(costs[: self.longest + 1])
        else:
            ending.head, ending.ahead = then.head, ahead
        ending.fewest = ending.ahead[0]

    def cut(self, ending: Ending) -> tuple[int, ...]:
        """Return the tokens of an ending that can be written, as few as there are."""
        self.fewest(ending)
        return tuple(map(self._token, self._pieces(ending)))

    def _pieces(self, ending: Ending) -> Iterator[bytes]:
        text = ending.flat
        at = start = 0
        link: Ending | None = ending
        while link is not None and at < len(text):
            if at >= start + len(link.text):
                start += len(link.text)
                link = link.then
                continue
            length = link.cuts[at - start]
            yield text[at : at + length]
            at += length

    def _token(self, text: bytes) -> int:
        vertex = self.trie.vertex(text)
        if vertex is None:
            raise AssertionError(f"{text!r} was found in the trie")
        return int(self.trie.tokens_at(vertex)[0])
