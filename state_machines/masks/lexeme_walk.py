"""The walk of a *lexeme*, a regular stretch such as the inside of a string, over all tokens.

A state is usually (rest of a lexeme L) followed by (the rest K). What L makes of the tokens does
not depend on K: some tokens stay inside L, others leave it with a suffix beyond. So L is walked
once for a vocabulary, whatever the schema, and K is only asked which of the distinct suffixes it
accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from state_machines.grammar.capture import Continuation
from state_machines.grammar.node import EMPTY, EPSILON, Node
from state_machines.grammar.symbols import bytes_in
from state_machines.masks.recent import RecentWeak
from state_machines.masks.token_trie import Ids, TokenTrie, joined
from state_machines.masks.trie_walk import TrieWalk

__all__ = ["Beyond", "FullWalk", "LexemeWalk", "Suffixes", "states_at_vertices"]

Mask = npt.NDArray[np.bool_]

MAX_CONTINUATIONS = 2048


class Suffixes:
    """Texts that tokens write beyond the end of a lexeme, by number; the empty one is left out."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = [text for text in dict.fromkeys(texts) if text]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self._walk: TrieWalk | None = None
        self._accepted: RecentWeak[Node, Mask] = RecentWeak(MAX_CONTINUATIONS)
        self._ends_another: dict[type[Continuation], Mask] = {}

    def accepted(self, rest: Node) -> Mask:
        """Return which of the texts a node can begin with: bool, shape (texts,)."""
        known = self._accepted.get(rest)
        if known is None:
            if self._walk is None:
                self._walk = TrieWalk(TokenTrie.of_texts(self.texts))
            known = np.zeros(len(self.texts), np.bool_)
            known[self._walk.tokens(rest)] = True
            self._accepted.put(rest, known)
        return known

    def ending_another(self, then: Continuation) -> Mask:
        """Return which of the texts must be looked at with what was captured known."""
        if then.is_unsure:
            return np.ones(len(self.texts), np.bool_)
        known = self._ends_another.get(type(then))
        if known is None:
            flags = [then.may_end_another(text) for text in self.texts]
            known = self._ends_another[type(then)] = np.array(flags, np.bool_)
        return known


class Beyond:
    """Tokens that go on beyond a lexeme: ``ids``, and for each the number of its suffix."""

    __slots__ = ("ids", "suffix", "suffixes")

    def __init__(self, ids: Ids, suffix: Ids, suffixes: Suffixes) -> None:
        self.ids = ids
        self.suffix = suffix
        self.suffixes = suffixes

    @classmethod
    def of(cls, pairs: Iterable[tuple[bytes, Ids]]) -> Beyond:
        """Return (suffix, token ids) as one."""
        listed = list(pairs)
        suffixes = Suffixes(text for text, _ in listed)
        numbers = [suffixes.numbers[text] for text, _ in listed]
        suffix = np.repeat(np.array(numbers, np.int32), [len(ids) for _, ids in listed])
        return cls(joined([ids for _, ids in listed]), suffix, suffixes)

    def accepted(self, rest: Node) -> Beyond:
        """Return those of the tokens whose suffix a node can begin with."""
        found = self.suffixes.accepted(rest)[self.suffix]
        return Beyond(self.ids[found], self.suffix[found], self.suffixes)


class LexemeWalk:
    """What a lexeme makes of every token of a vocabulary.

    ``inside``: bool, shape (vocabulary size,), read-only: the tokens that stay inside the lexeme
    or end with it. :meth:`beyond` tells what becomes of those that go on.
    """

    __slots__ = ("__weakref__", "_inside_ids", "inside")

    def __init__(self, inside: Mask) -> None:
        inside.flags.writeable = False
        self.inside = inside
        self._inside_ids: Ids | None = None

    @property
    def inside_ids(self) -> Ids:
        """The tokens of ``inside``, as ids."""
        if self._inside_ids is None:
            self._inside_ids = np.flatnonzero(self.inside).astype(np.int32)
        return self._inside_ids

    @property
    def leads(self) -> Sequence[bytes] | None:
        """The byte strings before the text of a JSON string, if the lexeme is such."""
        return None

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        raise NotImplementedError  # pragma: no cover - abstract

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of a JSON string, in any spelling, and close it."""
        raise NotImplementedError  # pragma: no cover - strings give it

    def beyond(self, rest: Node) -> list[Beyond]:
        """Return the tokens whose suffix ``rest`` can begin with."""
        raise NotImplementedError  # pragma: no cover - abstract


class FullWalk(LexemeWalk):
    """A walk of the whole trie, level by level, in whole-array operations.

    ``states`` and ``nodes`` are as :func:`states_at_vertices` gives them.
    """

    __slots__ = ("_beyond", "_exits", "_trie")

    def __init__(
        self, states: Ids, nodes: list[Node], trie: TokenTrie, vocabulary_size: int
    ) -> None:
        inside = np.zeros(vocabulary_size, np.bool_)
        inside[trie.ids] = states[trie.vertex_of] > 0
        super().__init__(inside)
        nullable = np.fromiter((node.nullable for node in nodes), np.bool_, len(nodes))
        exits = np.flatnonzero(nullable[states])
        self._exits: Ids = exits[exits > 0].astype(np.int32)
        self._trie = trie
        self._beyond: Beyond | None = None

    def leaving_ids(self) -> Ids:
        """Return all tokens that end the lexeme and those that go on beyond it."""
        return self._trie.tokens_from_all(self._exits.tolist())

    def beyond(self, rest: Node) -> list[Beyond]:
        """Return the tokens whose suffix ``rest`` can begin with."""
        if rest is EPSILON:
            return []
        if self._beyond is None:
            below = self._trie.tokens_below
            self._beyond = Beyond.of(pair for at in self._exits.tolist() for pair in below(at))
        return [self._beyond.accepted(rest)]


def states_at_vertices(lexeme: Node, trie: TokenTrie) -> tuple[Ids, list[Node]]:
    """Return the number of the lexeme's state at every vertex, and the states by number.

    The numbers are int32, shape (vertices,); 0 is the dead state, 1 the lexeme itself.
    """
    nodes: list[Node] = [EMPTY, lexeme]
    numbers = {EMPTY: 0, lexeme: 1}
    table = np.zeros((16, 256), np.int32)
    expanded = np.zeros(16, np.bool_)
    expanded[0] = True
    states = np.zeros(trie.size, np.int32)
    states[0] = 1
    for end, below in zip(trie.levels[1:], trie.levels[2:], strict=False):
        above = states[trie.parent[end:below]]
        # Not those where no token goes on: their rows would be for nothing.
        present = np.zeros(len(nodes), np.bool_)
        present[above] = True
        if not present[1:].any():
            break
        for number in np.flatnonzero(present & ~expanded[: len(nodes)]).tolist():
            for symbols, target in nodes[number].row:
                known = numbers.get(target)
                if known is None:
                    known = numbers[target] = len(nodes)
                    nodes.append(target)
                table[number, bytes_in(symbols)] = known
            expanded[number] = True
            if len(nodes) >= len(table):
                room = 2 * len(nodes)
                table = np.concatenate((table, np.zeros((room, 256), np.int32)))
                expanded = np.concatenate((expanded, np.zeros(room, np.bool_)))
        states[end:below] = table[above, trie.byte[end:below]]
    return states, nodes
