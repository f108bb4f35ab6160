"""Walks of quotes: texts that occur in a source.

A state is an interval of positions in the source, in the order of the texts there. All positions
descend the trie together, as those with the same next character are neighbours. So the work is that
of the tokens that occur at the positions, whatever the size of the vocabulary. The compiled walk is
``quote`` in ``walk.c``; without it, quotes are walked as other languages.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from state_machines.budgets import recursion_budget, spend, step_budget
from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.encoding import Spelling, spellings_of
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Concatenation
from state_machines.grammar.substring import EncodedQuote, Source
from state_machines.masks.descent import Descents
from state_machines.masks.kernel_walk import TOKENS_PER_STEP
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids
from state_machines.vocabulary.array_file import pack

FEW_POSITIONS = 512
"""Positions up to which the walk of a state is not stored."""

_FOLLOWING = 256
"""Nodes that follow a quote whose tokens are stored."""


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
            quotation = _taken(quote)
            quotation.vertex, quotation.mask = vertex, None
            return QuoteWalk(*walk.quote(quotation))
    vertices, ends = descents.words(quote, vertex)
    return QuoteWalk(packed(descents.trie.tokens_at_all(vertices)), ends)


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

    def mask(self, state: Node, steps: int) -> npt.NDArray[np.bool_] | None:
        """Return a mask, bool, shape (size,), read-only; ``None`` if it is that of other states.

        Args:
            state: The state.
            steps: Work budget of the tokens that follow the quote.
        """
        head, tail = (state.head, state.tail) if type(state) is Concatenation else (state, None)
        if type(head) is not EncodedQuote or head.high - head.low > FEW_POSITIONS:
            return None
        if tail is not None and (head.nullable or tail.rule_book is not None):
            return None
        walk = self._descents.take()
        if walk is None:
            return None
        quotation = _taken(head)
        mask = np.zeros(self._size, np.bool_)
        quotation.mask = ctypes.addressof(ctypes.c_char.from_buffer(mask.data))
        ends = walk.ends_of_quote(quotation)
        self._descents.put(walk)
        if tail is not None:
            for vertex in ends.tolist():
                mask[self._after(tail, vertex, steps)] = True
        elif head.nullable:
            mask[self._end_ids] = True
        mask.setflags(write=False)
        return mask

    def _after(self, tail: Node, vertex: int, steps: int) -> list[int]:
        """Return the tokens that write a text up to a vertex, and more of what follows it."""
        known = self._following.peek(tail)
        if known is None:
            known = self._following.put(tail, {})
        found = known.get(vertex)
        if found is None:
            with step_budget(steps), recursion_budget():
                found = known[vertex] = self._tokens(tail, vertex)
        return found


class _Quotation(ctypes.Structure):
    """``quotation`` of ``walk.c``."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("order", "text", "first_spelling", "first_byte", "last_end", "bytes"),
                *("terminator", "stack", "mask"),
            )
        ),
        *(
            (name, ctypes.c_int32)
            for name in (
                *("low", "high", "depth", "size", "min_chars", "max_chars"),
                *("terminator_size", "vertex", "pending"),
            )
        ),
    )


class _Spelled:
    """A source as the kernel reads it, with the spellings of its characters and a terminator.

    Attributes:
        quotation: The structure, without what differs between quotes.
    """

    def __init__(self, source: Source, spelling: Spelling, terminator: bytes) -> None:
        written = [spellings_of(point, spelling) for point in source.alphabet.tolist()]
        lengths, joined = pack([text for of_character in written for text in of_character])
        last_end = None
        if source.ends is not None:
            ends = np.unique(source.ends)
            last_end = np.repeat(ends, np.diff(ends, append=len(source.ends)))
        # Addresses are valid as long as the arrays.
        self._arrays: dict[str, npt.NDArray[Any] | None] = {
            "order": source.suffixes,
            "text": source.ranks,
            "first_spelling": np.append(0, np.cumsum([*map(len, written)])).astype(np.int32),
            "first_byte": np.append(0, np.cumsum(lengths)).astype(np.int32),
            "bytes": np.append(joined, np.uint8(0)),
            "last_end": last_end,
            "terminator": np.frombuffer(terminator + b"\0", np.uint8),
        }
        self.quotation = _Quotation(
            size=len(source.text),
            terminator_size=len(terminator),
            **{
                name: None if array is None else array.ctypes.data
                for name, array in self._arrays.items()
            },
        )


def _taken(quote: EncodedQuote) -> _Quotation:
    """Return a quote as the kernel reads it."""
    source, key = quote.source, (quote.spelling, quote.terminator)
    spelled: _Spelled | None = source.spelled.get(key)
    if spelled is None:
        spelled = source.spelled.setdefault(key, _Spelled(source, *key))
    quotation: _Quotation = _Quotation.from_buffer_copy(spelled.quotation)
    quotation.low, quotation.high, quotation.depth = quote.low, quote.high, quote.depth
    quotation.min_chars = quote.min_chars
    quotation.max_chars = -1 if quote.max_chars is None else quote.max_chars
    return quotation
