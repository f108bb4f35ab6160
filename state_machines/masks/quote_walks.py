"""Walks of quotes: texts that occur in a source.

A state is an interval of positions in the source, in the order of the texts there. All positions
descend the trie together, as those with the same next character are neighbours. So the work is that
of the tokens that occur at the positions, whatever the size of the vocabulary. The compiled walk is
``quote`` in ``walk.c``; without it, the derivatives of the quote descend the trie.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.characters import spellings_of
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Concatenation
from state_machines.grammar.substring import BegunQuote, EncodedQuote, SpelledSource
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents
from state_machines.masks.kernel_walk import TOKENS_PER_STEP
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids, TokenTrie
from state_machines.vocabulary.array_file import pack

FEW_POSITIONS = 512
"""Positions up to which the walk of a state is not stored."""

_FOLLOWING = 256
"""Nodes that follow a quote whose tokens are stored."""

_LISTED_TOKENS = 512
"""Tokens up to which a mask is cleared one by one."""

_SOURCE_ARRAYS = (
    *("order", "text", "first_spelling", "first_byte", "last_end", "bytes", "terminator"),
)

_MASKS = 4
"""Masks of one thread that are written again when nothing refers to them any more."""


def is_narrow_quote(head: Node) -> bool:
    """Whether a node is a quote that continues at few positions."""
    return isinstance(head, EncodedQuote) and head.count <= FEW_POSITIONS


class QuoteWalk(NamedTuple):
    """The vertices that a quote reaches below another one.

    Attributes:
        tokens: The tokens that write a beginning of a quote and its terminator, or end with it.
        ends: The vertices where quote and terminator end: int32. They may repeat, and those without
            children may be left out.
    """

    tokens: TokenSet
    ends: Ids


def quote_walk(descents: Descents, quote: EncodedQuote, vertex: int) -> QuoteWalk:
    """Walk a quote over the tokens below a vertex."""
    spend(1 + quote.count // TOKENS_PER_STEP)
    with descents.kernel_walk() as walk:
        if walk is not None:
            most = -1 if quote.max_chars is None else quote.max_chars
            bounds = quote.low, quote.high, quote.depth, quote.min_chars, most
            return QuoteWalk(*walk.quote(_compiled(quote.spelled), vertex, *bounds, None, 0))
    return _walk_derivatives(descents.trie, quote, vertex)


def _walk_derivatives(trie: TokenTrie, quote: EncodedQuote, vertex: int) -> QuoteWalk:
    found: list[int] = []
    ends: list[int] = []
    pending: list[tuple[Node, int]] = [(quote, vertex)]
    while pending:
        spend()
        node, at = pending.pop()
        if node.nullable and at != vertex:
            ends.append(at)
        for byte, child in trie.descend(at, node.first_bytes, found):
            # Not stored: there may be as many states as vertices.
            pending.append((node.compute_derivative(byte), child))
    return QuoteWalk(packed(np.array(found, np.int32)), np.array(ends, np.int32))


class QuoteMasks:
    """The masks of states within a quote that continues at few positions.

    Such a state seldom comes again, so its mask is computed each time and not stored, except for
    the tokens that end the quote and begin what follows it.

    Args:
        descents: The walks of the trie.
        tokens: Returns the tokens that a node allows below a vertex.
        size: The size of a mask.
        end_ids: The end tokens.
    """

    def __init__(
        self,
        descents: Descents,
        tokens: Callable[[Node, int], list[int]],
        size: int,
        end_ids: list[int],
    ) -> None:
        self._descents = descents
        self._tokens = tokens
        self._size = size
        self._end_ids = end_ids
        self._following: WeakKeyLruCache[Node, dict[int, list[int]]] = WeakKeyLruCache(_FOLLOWING)
        # A mask in here is written by no thread.
        self._masks: deque[_Mask] = deque(maxlen=_MASKS)

    def mask(self, state: Node, steps: int | None = None) -> npt.NDArray[np.bool_] | None:
        """Return a mask, bool, shape (size,), read-only; ``None`` if it is that of other states.

        Args:
            state: The state.
            steps: Work budget of the tokens that follow the quote.
        """
        head, tail = state, None
        if type(state) is Concatenation:
            head, tail = state.head, state.tail
        begun = b""
        if type(head) is BegunQuote:
            begun, head = head.begun, head.quote
        if type(head) is not EncodedQuote:
            return None
        # Few tokens go on within the spelling of a character.
        if head.high - head.low > FEW_POSITIONS and not begun:
            return None
        if tail is not None and (head.nullable or tail.rule_book is not None):
            return None
        walk = self._descents.take()
        if walk is None:
            return None
        mask = self._unused()
        source = head.spelled.compiled
        most = head.max_chars
        leaves = walk.quote_mask(
            source or _compiled(head.spelled),
            mask.reference,
            0,
            head.low,
            head.high,
            head.depth,
            head.min_chars,
            -1 if most is None else most,
            begun,
            len(begun),
        )
        if leaves and tail is not None:
            following = self._following.peek(tail)
            if following is None:
                following = self._following.put(tail, {})
            for vertex in walk.leaving(leaves):
                ids = following.get(vertex)
                if ids is None:
                    ids = following[vertex] = self._after(tail, vertex, steps)
                if ids:
                    mask.add(ids)
        elif head.nullable and not begun:
            mask.add(self._end_ids)
        self._descents.put(walk)
        self._masks.append(mask)
        return mask.array

    def _unused(self) -> _Mask:
        """Return a mask that nothing else refers to."""
        masks = self._masks
        for _ in range(_MASKS):
            try:
                mask = masks.popleft()
            except IndexError:
                break
            if getrefcount(mask.array) == mask.references:
                if mask.added:
                    mask.clear()
                return mask
            masks.append(mask)
        return _Mask(self._size)

    def _after(self, tail: Node, vertex: int, steps: int | None) -> list[int]:
        """Return the tokens that write a text up to a vertex, and more of what follows it."""
        with step_budget(LIMITS.mask_steps if steps is None else steps), recursion_budget():
            return self._tokens(tail, vertex)


class _MaskFields(ctypes.Structure):
    """``token_mask`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("tokens", "ids")),
        *((name, ctypes.c_int32) for name in ("size", "count", "max_count")),
    )


class _Mask:
    """A mask that is written again when nothing refers to it any more, which saves the clearing.

    Views of the array and all that is made of it without a copy refer to the array.

    Attributes:
        array: The mask: bool, shape (size,), read-only.
        reference: A reference to the structure that the kernel reads.
        references: The references to the array if nothing else refers to it.
        added: The tokens that :meth:`add` added.
    """

    __slots__ = ("_ids", "_tokens", "added", "array", "reference", "references")

    def __init__(self, size: int) -> None:
        self.array = np.zeros(size, np.bool_)
        self._ids = np.empty(_LISTED_TOKENS, np.int32)
        fields = _MaskFields(self.array.ctypes.data, self._ids.ctypes.data, size, 0, _LISTED_TOKENS)
        self.reference = ctypes.byref(fields)
        # Writable, in contrast to the array.
        self._tokens = self.array.data
        self.added: list[int] = []
        self.array.setflags(write=False)
        self.references = getrefcount(self.array)

    def clear(self) -> None:
        """Remove the tokens that :meth:`add` added."""
        for token_id in self.added:
            self._tokens[token_id] = False
        self.added.clear()

    def add(self, ids: list[int]) -> None:
        """Add tokens after the kernel has written the mask."""
        for token_id in ids:
            self._tokens[token_id] = True
        self.added += ids


class _SourceFields(ctypes.Structure):
    """``spelled_source`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _SOURCE_ARRAYS),
        *((name, ctypes.c_int32) for name in ("size", "terminator_size")),
    )


def _compiled(spelled: SpelledSource) -> Any:
    """Return a reference to a source as the kernel reads it, which the source stores."""
    if spelled.compiled is None:
        source, terminator = spelled.source, spelled.terminator
        flags = spelled.spelling.escapes, spelled.spelling.pairs
        written = [spellings_of(point, *flags) for point in source.alphabet.tolist()]
        lengths, joined = pack([text for of_character in written for text in of_character])
        arrays: tuple[npt.NDArray[Any] | None, ...] = (
            source.suffixes,
            source.ranks,
            np.append(0, np.cumsum([*map(len, written)])).astype(np.int32),
            np.append(0, np.cumsum(lengths)).astype(np.int32),
            source.last_ends,
            np.append(joined, np.uint8(0)),
            np.frombuffer(terminator + b"\0", np.uint8),
        )
        addresses = (None if array is None else array.ctypes.data for array in arrays)
        fields = _SourceFields(*addresses, source.size, len(terminator))
        # The addresses are valid as long as the arrays.
        fields.arrays = arrays
        spelled.compiled = ctypes.byref(fields)
    return spelled.compiled
