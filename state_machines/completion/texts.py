"""Texts that complete an output, and their segmentation into the fewest tokens.

A text is a linked list of pieces. Texts share their ends, since states with the same continuation
end alike.

Texts are segmented by dynamic programming from their end, one byte at a time. The result for a
piece depends only on its *context*: the first bytes behind it, as many as the longest token has,
and the fewest tokens from each of these positions to the end. Before ``": 1}``, for example, it
matters whether ``":`` is a token. The counts of a context are relative, so a piece that is repeated
is segmented once for each different context.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.tokens import ID_BYTES, SPECIAL_MARK, SPELLING_MARK
from state_machines.limits import LIMITS
from state_machines.masks.token_trie import TokenTrie

_WEIGHED_TEXTS = 8192
"""Texts whose weight in tokens is cached."""

_SEGMENTATIONS = 1 << 15
"""Segmentations of shared texts that are cached, and contexts of these."""

UNWRITABLE = 1 << 60
"""The number of tokens, and the weight, of a text that no tokens write."""

TOKEN_WEIGHT = 16
"""The weight of a token, in bytes, where texts are compared."""

PIECE = 256
"""Bytes of a piece: longer texts are divided, counted from their end."""

_CACHED_PIECE = 16
"""Bytes from which on the segmentations of a piece are cached."""

SHORT = 64
"""Bytes up to which a text becomes one piece where it is joined with another."""

BYTES_PER_STEP = 2
"""Bytes that are segmented in one step of work."""

_Context = tuple[bytes, tuple[int, ...]]
"""The first bytes behind a piece, and the fewest tokens from each position among them to the end.

There is one position more than there are bytes. Numbers are relative to their minimum;
:data:`UNWRITABLE` is absolute.
"""

_Cut = tuple[int, _Context, "array[int]"]
"""A segmentation: the tokens to be added to the counts of the context, the context of the text
before it, and, for each position of the first piece, the length of the token there."""

_NO_LENGTHS = array("H")
_END: _Cut = (0, (b"", (0,)), _NO_LENGTHS)
_MARK = SPELLING_MARK[0]


@dataclass(eq=False, slots=True)
class CompletionText:
    """A text that completes an output: its first bytes, and the text behind them. Immutable.

    Attributes:
        content: The first bytes; empty in :data:`NOTHING` alone.
        rest: The text behind them.
        size: Number of bytes.
        weight: Cost by which texts are compared before they are segmented: that of the tokens of
            each piece, plus the bytes. At least :data:`UNWRITABLE` if no tokens write a piece.
        cut: How the text is segmented; owned by the segmenter.
    """

    content: bytes
    rest: CompletionText
    weight: int
    size: int = field(init=False)
    cut: _Cut | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.size = len(self.content) + self.rest.size

    def pieces(self) -> list[CompletionText]:
        """Return the text, and the texts behind its first piece, its second one and so on."""
        found: list[CompletionText] = []
        text = self
        while text.size:
            found.append(text)
            text = text.rest
        spend(1 + len(found) // 8)
        return found

    @property
    def flat(self) -> bytes:
        """The whole text."""
        return b"".join([piece.content for piece in self.pieces()])


NOTHING = CompletionText.__new__(CompletionText)
"""The empty text."""
NOTHING.content, NOTHING.rest, NOTHING.cut = b"", NOTHING, _END
NOTHING.weight = NOTHING.size = 0


def joined(head: CompletionText, tail: CompletionText) -> CompletionText:
    """Return the concatenation of two texts."""
    if not head.size or not tail.size:
        return head if head.size else tail
    if head.size <= SHORT:
        return CompletionText(head.flat, tail, head.weight + tail.weight)
    text = tail
    for piece in reversed(head.pieces()):
        weight = piece.weight - piece.rest.weight + text.weight
        text = CompletionText(piece.content, text, weight)
    return text


class Segmenter:
    """Segments texts into the fewest tokens of a vocabulary. Thread-safe."""

    def __init__(self, trie: TokenTrie) -> None:
        self.trie = trie
        self.longest = max(1, len(trie.levels) - 2)
        """Bytes of the longest token."""
        self._weights: LruCache[bytes, int] = LruCache(_WEIGHED_TEXTS)
        self._cuts: LruCache[tuple[bytes, _Context], _Cut] = LruCache(_SEGMENTATIONS)

    def text(self, content: bytes) -> CompletionText:
        """Return a byte string as a text."""
        text = NOTHING
        # Divided from the end, so that a text and its suffixes have the same pieces.
        for end in range(len(content), 0, -PIECE):
            part = content[max(0, end - PIECE) : end]
            text = CompletionText(part, text, self.weight(part) + text.weight)
        return text

    def repeated(self, unit: CompletionText, times: int) -> CompletionText | None:
        """Return a text ``times`` times; ``None`` above ``LIMITS.completion_bytes`` bytes."""
        size = unit.size * times
        if not size or times == 1:
            return unit if size else NOTHING
        if size > LIMITS.completion_bytes:
            return None
        return self.text(unit.flat * times)

    def weight(self, content: bytes) -> int:
        """Return the weight of a byte string."""
        weight = self._weights.get(content)
        if weight is None:
            tokens = _nearest(self._cut(content, _END))
            weight = TOKEN_WEIGHT * tokens + len(content) if tokens < UNWRITABLE else UNWRITABLE
            self._weights.put(content, weight)
        return weight

    def fewest(self, text: CompletionText) -> int:
        """Return the fewest tokens that write a text, or :data:`UNWRITABLE`."""
        return _nearest(self._cut_of(text))

    def tokens(self, text: CompletionText) -> Iterator[int]:
        """Yield the fewest tokens that write a text, which must be writable."""
        skipped = 0
        while text.size:
            spend()
            size = len(text.content)
            if skipped < size:
                lengths = self._cut_of(text)[2]
                letters = text.content + self._cut_of(text.rest)[1][0]
                while skipped < size:
                    length = lengths[skipped]
                    yield self._token(letters[skipped : skipped + length])
                    skipped += length
            skipped -= size
            text = text.rest

    def _cut_of(self, text: CompletionText) -> _Cut:
        """Return how a text is segmented."""
        uncut: list[CompletionText] = []
        while text.cut is None:
            uncut.append(text)
            text = text.rest
        found = text.cut
        spend(len(uncut))
        for piece in reversed(uncut):
            found = piece.cut = self._cut(piece.content, found)
        return found

    def _cut(self, content: bytes, behind: _Cut) -> _Cut:
        """Return how a piece and the text behind it are segmented."""
        count, context, _ = behind
        is_long = len(content) >= _CACHED_PIECE
        known = self._cuts.get((content, context)) if is_long else None
        if known is None:
            known = self._segment(content, context)
            if is_long:
                self._cuts.put((content, context), known, 1 + len(content) // 64)
        return count + known[0], known[1], known[2]

    def _segment(self, content: bytes, context: _Context) -> _Cut:
        head, ahead = context
        size = len(content)
        letters = content + head
        # Positions are counted from the end, so that each new count is appended.
        costs = list(reversed(ahead))
        top = len(letters)
        lengths: list[int] = []
        endings_of = self.trie.endings_of
        spend(1 + size // BYTES_PER_STEP)
        for place in range(size - 1, -1, -1):
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
        return base, (letters[: self.longest], tuple(near)), array("H", lengths)

    def _token(self, content: bytes) -> int:
        if content.startswith(SPELLING_MARK):
            return int.from_bytes(content[len(SPELLING_MARK) :][:ID_BYTES], "big")
        vertex = self.trie.vertex(content)
        if vertex is None:
            raise AssertionError(f"{content!r} was found in the trie")
        return int(self.trie.tokens_at(vertex)[0])


def _spelled(text: bytes, place: int) -> list[int]:
    """Return the length of the spelling of a token at a position, if it is a whole one."""
    end = text.find(SPECIAL_MARK, place + len(SPELLING_MARK) + ID_BYTES)
    return [end + 1 - place] if end >= 0 else []


def _nearest(cut: _Cut) -> int:
    """Return the tokens from the start of a text to its end."""
    count, (_, ahead), _ = cut
    return count + ahead[0] if ahead[0] < UNWRITABLE else UNWRITABLE


class Plan:
    """Tokens that complete a text, each allowed in its turn; listed on demand. Immutable.

    Args:
        tokens: The tokens, or a function that lists them.
        length: The number of all tokens.
        at: The number of leading tokens that are no part of the plan.

    Attributes:
        length: Number of tokens.
    """

    __slots__ = ("_at", "_tokens", "length")

    def __init__(
        self, tokens: tuple[int, ...] | Callable[[], Iterator[int]], length: int, at: int = 0
    ) -> None:
        self.length = length - at
        self._tokens = tokens
        self._at = at

    @property
    def listed(self) -> tuple[int, ...] | None:
        """The list that ends with these tokens, if it has been made."""
        return self._tokens if isinstance(self._tokens, tuple) else None

    @property
    def first(self) -> int | None:
        """The first token, or ``None`` if the text is complete."""
        if not self.length:
            return None
        # A plan may be long, and the others of its tokens are seldom asked for.
        tokens = self._tokens
        return tokens[self._at] if isinstance(tokens, tuple) else next(tokens())

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens."""
        return self._all()[self._at :]

    @property
    def rest(self) -> Plan:
        """The plan that remains after the first token."""
        tokens = self._all()
        return Plan(tokens, len(tokens), self._at + 1)

    def _all(self) -> tuple[int, ...]:
        # Read once: another thread may list them meanwhile.
        tokens = self._tokens
        if not isinstance(tokens, tuple):
            self._tokens = tokens = tuple(tokens())
        return tokens


COMPLETE = Plan((), 0)
"""The plan of a text that is complete."""
