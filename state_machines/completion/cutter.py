"""Segments texts into the fewest tokens of a vocabulary.

The fewest tokens of a text are computed from its end to its beginning, a byte at a time (dynamic
programming over the places of the text). The result for a stretch depends on its *context*: the
first bytes of what follows, and how many tokens each of these places is from the end. Counts within
a context are relative, so a stretch that occurs often is computed once for each different context,
not once for each occurrence.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.completion.endings import NOTHING, UNWRITABLE_WEIGHT, Ending, joined
from state_machines.limits import LIMITS
from state_machines.masks.token_trie import TokenTrie

__all__ = ["TOKEN_WEIGHT", "UNWRITABLE", "Cutter"]

UNWRITABLE = 1 << 60
"""The number of tokens of a text that no tokens write."""

MAX_COUNT = 1 << 50
"""The bound at which counts of tokens saturate."""

TOKEN_WEIGHT = 16
"""The weight of a token, in bytes, where texts are compared."""

PIECE = 512
"""Bytes of a stretch: longer texts are chains of such pieces, counted from their end."""

BLOCK = 256
"""Bytes up to which a repeated text is one stretch."""

CUT_BYTES = 2
"""Bytes that are cut in a step."""

Context = tuple[bytes, tuple[int, ...]]
"""The first bytes of what follows, and from each of these places on the fewest tokens.

One place more than there are bytes. The least of the numbers is 0; :data:`UNWRITABLE` stays.
"""

_Cut = tuple[int, Context, "array[int]"]
"""Of a rope in a context: the tokens, beyond the context, of the nearest place; the new context;
and by place in the first stretch, the length of the token there."""

END: Context = (b"", (0,))


class Cutter:
    """Segments texts into the fewest tokens of a vocabulary. Thread-safe."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        self.longest = max(1, len(trie.levels) - 2)
        """The bytes of the longest token."""
        self._weights: LruCache[bytes, int] = LruCache(LIMITS.weighed_texts)
        self._pieces: LruCache[tuple[bytes, Ending], Ending] = LruCache(LIMITS.weighed_texts)
        self._blocks: LruCache[tuple[bytes | Ending, int], Ending] = LruCache(LIMITS.weighed_texts)
        self._cuts: LruCache[tuple[Ending, Context], _Cut] = LruCache(LIMITS.segmentations)
        self._contexts: LruCache[Context, Context] = LruCache(LIMITS.segmentations)

    def leaf(self, text: bytes) -> Ending:
        """Return a text as an ending."""
        if len(text) <= PIECE:
            return Ending(text, NOTHING, self.weight(text))
        # Cut from the end, so that a text and its rests have the same pieces.
        ending = NOTHING
        for end in range(len(text), 0, -PIECE):
            spend()
            piece = text[max(0, end - PIECE) : end]
            known = self._pieces.get((piece, ending))
            if known is None:
                weight = ending.weight + self.weight(piece)
                known = self._pieces.put((piece, ending), Ending(piece, ending, weight))
            ending = known
        return ending

    def repeated(self, unit: Ending, times: int) -> Ending:
        """Return an ending ``times`` times.

        Takes steps for the number of binary digits of ``times``. Ropes of different numbers share
        their ends.
        """
        size = unit.size
        if not size or not times:
            return NOTHING
        if 2 * size > BLOCK:
            return self._power_chain(unit, times)
        in_block = BLOCK // size
        text = unit.flat
        chain = NOTHING
        if times >= in_block:
            block = self._blocks.get((text, in_block))
            if block is None:
                leaf = self.leaf(text * in_block)
                block = self._blocks.put((text, in_block), leaf)
            chain = self._power_chain(block, times // in_block)
        return joined(self.leaf(text * (times % in_block)), chain)

    def _power_chain(self, unit: Ending, times: int) -> Ending:
        known = self._blocks.get((unit, times))
        if known is not None:
            return known
        # The largest powers stand at the end: a number that counts down shares them.
        chain, power, done = NOTHING, unit, times
        powers: list[Ending] = []
        exponent = 0
        while done:
            spend()
            if done & 1:
                powers.append(power)
            done >>= 1
            exponent += 1
            if done:
                twice = self._blocks.get((unit, 1 << exponent))
                if twice is None:
                    twice = self._blocks.put((unit, 1 << exponent), joined(power, power))
                power = twice
        for power in reversed(powers):
            chain = joined(power, chain)
        return self._blocks.put((unit, times), chain)

    def weight(self, text: bytes) -> int:
        """Return the weight of a text: that of its tokens, and its bytes."""
        weight = self._weights.get(text)
        if weight is None:
            if len(text) > PIECE:
                starts = range(len(text) % PIECE - PIECE, len(text), PIECE)
                return sum(self.weight(text[max(0, at) : at + PIECE]) for at in starts)
            tokens = _nearest(self._cut_text(text, END))
            weight = TOKEN_WEIGHT * tokens + len(text) if tokens < UNWRITABLE else UNWRITABLE_WEIGHT
            self._weights.put(text, weight)
        return weight

    def fewest(self, ending: Ending) -> int:
        """Return the fewest tokens of an ending; :data:`UNWRITABLE` if there are none."""
        return _nearest(self._cut(ending, END))

    def tokens(self, ending: Ending) -> Iterator[int]:
        """Yield the tokens of an ending that can be written, as few as there are."""
        stack: list[tuple[Ending, Context]] = []
        link, outer = ending, END
        skipped = 0
        while True:
            spend()
            then = link.then
            if then is None:
                if not stack:
                    return
                link, outer = stack.pop()
                continue
            inner = link.inner
            if inner is not None:
                if inner.size <= skipped:
                    skipped -= inner.size
                    link = then
                    continue
                stack.append((then, outer))
                link, outer = inner, self._cut(then, outer)[1]
                continue
            size = len(link.text)
            if skipped < size:
                lengths = self._cut(link, outer)[2]
                letters = link.text + self._cut(then, outer)[1][0]
                while skipped < size:
                    length = lengths[skipped]
                    yield self._token(letters[skipped : skipped + length])
                    skipped += length
            skipped -= size
            link = then

    def _cut(self, ending: Ending, context: Context) -> _Cut:
        """Return how a rope is cut before a context."""
        # Suspended ropes: the stretches still to cut, and the context of each rope.
        stack: list[tuple[list[Ending], Context, Ending, int]] = []
        links, found = self._open(ending, context)
        while True:
            while links:
                spend()
                link = links.pop()
                if link.inner is None:
                    cost, after, lengths = self._cut_text(link.text, found[1])
                    found = (min(MAX_COUNT, found[0] + cost), after, lengths)
                    self._keep(link, context, found)
                else:
                    stack.append((links, context, link, found[0]))
                    context = found[1]
                    links, found = self._open(link.inner, context)
            if not stack:
                return found
            links, context, link, cost = stack.pop()
            found = (min(MAX_COUNT, found[0] + cost), found[1], _NO_LENGTHS)
            self._keep(link, context, found)

    def _open(self, ending: Ending, context: Context) -> tuple[list[Ending], _Cut]:
        """Return the links of a rope that are not cut yet, and how the rest of it is cut."""
        links: list[Ending] = []
        link: Ending | None = ending
        while link is not None and link is not NOTHING:
            known = self._known(link, context)
            if known is not None:
                return links, known
            links.append(link)
            if not len(links) % 8:
                spend()
            link = link.then
        return links, (0, context, _NO_LENGTHS)

    def _known(self, link: Ending, context: Context) -> _Cut | None:
        last: tuple[Context, _Cut] | None = link.cut  # type: ignore[assignment]
        if last is None:
            return None
        if last[0] is context or last[0] == context:
            return last[1]
        return self._cuts.get((link, context))

    def _keep(self, link: Ending, context: Context, found: _Cut) -> None:
        if link.cut is None:
            link.cut = (context, found)
        else:
            self._cuts.put((link, context), found, 1 + len(found[2]) // 64)

    def _cut_text(self, text: bytes, context: Context) -> _Cut:
        head, ahead = context
        size = len(text)
        if not size:
            return 0, context, _NO_LENGTHS
        letters = text + head
        # Places are counted from the end, so that each new count is appended to a list.
        costs = list(reversed(ahead))
        top = len(letters)
        cuts: list[int] = []
        endings_of = self.trie.endings_of
        for place in range(size - 1, -1, -1):
            if not place % PIECE:
                spend(1 + min(PIECE, size - place) // CUT_BYTES)
            least, cut = UNWRITABLE, 0
            for length in endings_of(letters, place):
                cost = costs[top - place - length]
                if cost <= least:
                    least, cut = cost, length
            costs.append(least + 1 if least < UNWRITABLE else UNWRITABLE)
            cuts.append(cut)
        cuts.reverse()
        near = costs[-self.longest - 1 :]
        near.reverse()
        base = min(near)
        if base and base < UNWRITABLE:
            near = [cost - base if cost < UNWRITABLE else UNWRITABLE for cost in near]
        else:
            base = 0
        found: Context = (letters[: self.longest], tuple(near))
        known = self._contexts.get(found)
        if known is None:
            known = self._contexts.put(found, found, 1 + len(near) // 32)
        return base, known, array("H", cuts)

    def _token(self, text: bytes) -> int:
        vertex = self.trie.vertex(text)
        if vertex is None:
            raise AssertionError(f"{text!r} was found in the trie")
        return int(self.trie.tokens_at(vertex)[0])


_NO_LENGTHS = array("H")


def _nearest(cut: _Cut) -> int:
    """Return the tokens from the beginning of a rope to the end."""
    cost, (_, ahead), _ = cut
    return min(MAX_COUNT, cost + ahead[0]) if ahead[0] < UNWRITABLE else UNWRITABLE
