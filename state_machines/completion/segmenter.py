"""Segments texts into the fewest tokens of a vocabulary.

Dynamic programming from the end of a text to its start, one byte at a time. The result for a
stretch depends only on its *context*: the first bytes after it, as many as the longest token has,
and the fewest tokens from each of these positions to the end. The counts of a context are relative,
so a stretch that occurs often is segmented once for each different context, not once for each
occurrence.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.completion.endings import NOTHING, UNWRITABLE_WEIGHT, Ending, joined
from state_machines.grammar.tokens import ID_BYTES, SPECIAL_MARK, SPELLING_MARK
from state_machines.limits import LIMITS
from state_machines.masks.token_trie import TokenTrie

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

BYTES_PER_STEP = 2
"""Bytes that are segmented in one step of work."""

Context = tuple[bytes, tuple[int, ...]]
"""The first bytes after a stretch, and the fewest tokens from each position among them to the end.

There is one position more than there are bytes. Numbers are relative to their minimum;
:data:`UNWRITABLE` is absolute.
"""

_Segmentation = tuple[int, Context, "array[int]"]
"""How a rope is segmented in a context: the tokens that it adds, the context of the text before it,
and, for each position of its first stretch, the length of the token there."""

END: Context = (b"", (0,))


class Segmenter:
    """Segments texts into the fewest tokens of a vocabulary. Thread-safe."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        self.longest = max(1, len(trie.levels) - 2)
        """Bytes of the longest token."""
        self._weights: LruCache[bytes, int] = LruCache(LIMITS.weighed_texts)
        self._pieces: LruCache[tuple[bytes, Ending], Ending] = LruCache(LIMITS.weighed_texts)
        self._blocks: LruCache[tuple[bytes | Ending, int], Ending] = LruCache(LIMITS.weighed_texts)
        self._segmentations: LruCache[tuple[Ending, Context], _Segmentation] = LruCache(
            LIMITS.segmentations
        )
        self._contexts: LruCache[Context, Context] = LruCache(LIMITS.segmentations)

    def leaf(self, text: bytes) -> Ending:
        """Return a text as an ending."""
        if len(text) <= PIECE:
            return Ending(text, NOTHING, self.weight(text))
        # Split from the end, so that a text and its suffixes share pieces.
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
        if 2 * size > BLOCK or unit.is_limited:
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
        # The largest powers come last, so that smaller counts share them.
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
        """Return the weight of a text: that of its tokens plus its bytes."""
        weight = self._weights.get(text)
        if weight is None:
            if len(text) > PIECE:
                starts = range(len(text) % PIECE - PIECE, len(text), PIECE)
                return sum(self.weight(text[max(0, at) : at + PIECE]) for at in starts)
            tokens = _nearest(self._segment_text(text, END))
            weight = TOKEN_WEIGHT * tokens + len(text) if tokens < UNWRITABLE else UNWRITABLE_WEIGHT
            self._weights.put(text, weight)
        return weight

    def fewest(self, ending: Ending) -> int:
        """Return the fewest tokens that write an ending, or :data:`UNWRITABLE`."""
        return _nearest(self._segment(ending, END))

    def tokens(self, ending: Ending) -> Iterator[int]:
        """Yield the fewest tokens that write an ending, which must be writable."""
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
                link, outer = inner, self._segment(then, outer)[1]
                continue
            size = len(link.text)
            if skipped < size:
                lengths = self._segment(link, outer)[2]
                letters = link.text + self._segment(then, outer)[1][0]
                while skipped < size:
                    length = lengths[skipped]
                    yield self._token(letters[skipped : skipped + length])
                    skipped += length
            skipped -= size
            link = then

    def _segment(self, ending: Ending, context: Context) -> _Segmentation:
        """Return how a rope is segmented before a context."""
        # Suspended ropes: the stretches that are left, and the context of each rope.
        stack: list[tuple[list[Ending], Context, Ending, int]] = []
        links, found = self._open(ending, context)
        while True:
            while links:
                spend()
                link = links.pop()
                if link.inner is None:
                    cost, after, lengths = self._segment_text(link.text, found[1])
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

    def _open(self, ending: Ending, context: Context) -> tuple[list[Ending], _Segmentation]:
        """Return the links of a rope that are not segmented yet, and how its rest is."""
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

    def _known(self, link: Ending, context: Context) -> _Segmentation | None:
        last: tuple[Context, _Segmentation] | None = link.segmentation  # type: ignore[assignment]
        if last is None:
            return None
        if last[0] is context or last[0] == context:
            return last[1]
        return self._segmentations.get((link, context))

    def _keep(self, link: Ending, context: Context, found: _Segmentation) -> None:
        if link.segmentation is None:
            link.segmentation = (context, found)
        else:
            self._segmentations.put((link, context), found, 1 + len(found[2]) // 64)

    def _segment_text(self, text: bytes, context: Context) -> _Segmentation:
        head, ahead = context
        size = len(text)
        if not size:
            return 0, context, _NO_LENGTHS
        letters = text + head
        # Positions are counted from the end, so that each new count is appended.
        costs = list(reversed(ahead))
        top = len(letters)
        lengths: list[int] = []
        endings_of = self.trie.endings_of
        for place in range(size - 1, -1, -1):
            if not place % PIECE:
                spend(1 + min(PIECE, size - place) // BYTES_PER_STEP)
            fewest, token_length = UNWRITABLE, 0
            is_marked = letters[place] == _MARK and letters.startswith(SPELLING_MARK, place)
            found_lengths = _spelled(letters, place) if is_marked else endings_of(letters, place)
            for length in found_lengths:
                cost = costs[top - place - length]
                if cost <= fewest:
                    fewest, token_length = cost, length
            costs.append(fewest + 1 if fewest < UNWRITABLE else UNWRITABLE)
            lengths.append(token_length)
        lengths.reverse()
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
        return base, known, array("H", lengths)

    def _token(self, text: bytes) -> int:
        if text.startswith(SPELLING_MARK):
            return int.from_bytes(text[len(SPELLING_MARK) :][:ID_BYTES], "big")
        vertex = self.trie.vertex(text)
        if vertex is None:
            raise AssertionError(f"{text!r} was found in the trie")
        return int(self.trie.tokens_at(vertex)[0])


_NO_LENGTHS = array("H")
_MARK = SPELLING_MARK[0]


def _spelled(text: bytes, place: int) -> list[int]:
    """Return the length of the spelling of a token at a position, if it is a whole one."""
    end = text.find(SPECIAL_MARK, place + len(SPELLING_MARK) + ID_BYTES)
    return [end + 1 - place] if end >= 0 else []


def _nearest(segmentation: _Segmentation) -> int:
    """Return the tokens from the start of a rope to the end of the text."""
    cost, (_, ahead), _ = segmentation
    return min(MAX_COUNT, cost + ahead[0]) if ahead[0] < UNWRITABLE else UNWRITABLE
