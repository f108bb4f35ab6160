"""Walks of quotes: texts that occur in a source.

A state is an interval of positions in the source, in the order of the texts there. All positions
descend the trie together, as those with the same next character are neighbours. So the work is that
of the tokens that occur at the positions, whatever the size of the vocabulary. The compiled walk is
``quote`` in ``walk.c``; without it, the derivatives of the quote descend the trie.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from state_machines.budgets import derivative_budget, spend
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.characters import spellings_of
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Concatenation
from state_machines.grammar.substring import BegunQuote, EncodedQuote, SpelledSource
from state_machines.limits import LIMITS
from state_machines.masks.descent import Descents
from state_machines.masks.kernel import TOKENS_PER_STEP
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids, TokenTrie
from state_machines.vocabulary.array_file import pack

FEW_POSITIONS = 512
"""Positions up to which the walk of a state is not stored."""

_FOLLOWING = 256
"""Nodes that follow a quote whose tokens are stored."""

_SOURCE_ARRAYS = (
    "order",
    "text",
    "first_spelling",
    "first_byte",
    "last_end",
    "bytes",
    "terminator",
)


def is_sparse_quote(head: Node) -> bool:
    """Whether a node is a quote that continues at few positions."""
    return isinstance(head, EncodedQuote) and head.count <= FEW_POSITIONS


class QuoteTokens(NamedTuple):
    """The vertices that a quote reaches below a vertex.

    Attributes:
        tokens: The tokens that write a beginning of a quote and its terminator, or end with it.
        ends: The vertices where quote and terminator end: int32. They may repeat, and those without
            children may be left out.
    """

    tokens: TokenSet
    ends: Ids


def quote_walk(descents: Descents, quote: EncodedQuote, vertex: int) -> QuoteTokens:
    """Walk a quote over the tokens below a vertex."""
    spend(1 + quote.count // TOKENS_PER_STEP)
    with descents.kernel_walk() as walk:
        if walk is not None:
            most = -1 if quote.max_chars is None else quote.max_chars
            bounds = quote.low, quote.high, quote.depth, quote.min_chars, most
            return QuoteTokens(*walk.quote(_compiled(quote.spelled), vertex, *bounds, None, 0))
    return _walk_derivatives(descents.trie, quote, vertex)


def _walk_derivatives(trie: TokenTrie, quote: EncodedQuote, vertex: int) -> QuoteTokens:
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
    return QuoteTokens(packed(np.array(found, np.int32)), np.array(ends, np.int32))


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

    def mask(self, state: Node, steps: int | None = None) -> npt.NDArray[np.bool_] | None:
        """Return a mask, bool, shape (size,), read-only; ``None`` for states outside of quotes.

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
        # Few tokens begin inside the spelling of a character.
        if head.high - head.low > FEW_POSITIONS and not begun:
            return None
        if tail is not None and (head.nullable or tail.rule_book is not None):
            return None
        walk = self._descents.borrow()
        if walk is None:
            return None
        mask = np.zeros(self._size, np.bool_)
        source = head.spelled.compiled
        most = head.max_chars
        leaves = walk.quote_mask(
            source or _compiled(head.spelled),
            ctypes.byref(ctypes.c_char.from_buffer(mask.data)),
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
                mask[ids] = True
        elif head.nullable and not begun:
            mask[self._end_ids] = True
        self._descents.give_back(walk)
        mask.setflags(write=False)
        return mask

    def _after(self, tail: Node, vertex: int, steps: int | None) -> list[int]:
        """Return the tokens that write a text up to a vertex, and more of what follows it."""
        with derivative_budget(LIMITS.mask_steps if steps is None else steps):
            return self._tokens(tail, vertex)


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
