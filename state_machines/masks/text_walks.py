"""Walks of languages of code points over the tokens inside a JSON string.

A language is walked over the :class:`~state_machines.masks.character_trie.CharacterTrie` by the
first of these methods that applies:

==============================  ====================================================
language                        method
==============================  ====================================================
any text                        none: all vertices are reached
bounds on the length            comparison with the number of characters of a token
differs from any text in few    the vertices of these words
words (names that are taken)
substrings of a text            the tokens that occur in it
any other                       an automaton, with bounds on the length beside it
==============================  ====================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from state_machines.budgets import Verdict
from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.boolean import Intersection, counts_any_symbol, everything, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Repetition, repetition, symbols
from state_machines.grammar.shortest import has_endless_words, shortest_length
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.limits import LIMITS
from state_machines.masks.automaton import UNBOUNDED, Automaton, states_at_vertices
from state_machines.masks.character_trie import CharacterTrie, Flags
from state_machines.masks.lexeme_walk import (
    LeavingTokens,
    LexemeWalk,
    Suffixes,
    TokensBySuffix,
    WalkCache,
)
from state_machines.masks.substring_walk import Quote, SubstringWalk
from state_machines.masks.token_trie import Ids, TokenTrie

_UNBOUNDED_TEXTS = 32
"""Texts without their bounds that are held; no state holds them."""

_TEXT_DISTANCES = 512
"""Texts whose distances to the end are stored."""

MAX_DIFFERENCES = 600
"""Letters and states visited to walk a language by its difference from any text."""

MAX_LETTERS = 16
"""Letters of one transition that are visited there."""


class StringTokens:
    """The tokens of a byte trie inside a JSON string, and the walks of languages over them."""

    def __init__(self, trie: TokenTrie, vocabulary_size: int, suffixes: Suffixes) -> None:
        self.trie = CharacterTrie(trie)
        self.size = vocabulary_size
        closing = np.array([not text for text in self.trie.suffixes], np.bool_)
        self._closes: Flags = closing[self.trie.suffix]
        numbers = np.array([suffixes.numbers.get(text, -1) for text in self.trie.suffixes])
        number = numbers.astype(np.int32)[self.trie.suffix]
        beyond = np.flatnonzero(~self._closes)
        # Tokens that do not end in a whole character have the number after the last vertex.
        self._vertex_of = np.full(vocabulary_size, self.trie.size, np.intp)
        self._vertex_of[self.trie.whole_ids] = self.trie.whole_at
        self.suffixes = suffixes
        self.beyond = TokensBySuffix(beyond.astype(np.int32), number[beyond], suffixes)
        """The leaving tokens with a suffix, as indices of the trie's leaving tokens."""
        self._walks: WalkCache[tuple[int, int | None], TextWalk] = WalkCache(LIMITS.text_walk_bytes)
        self._unbounded: LruCache[Node, None] = LruCache(_UNBOUNDED_TEXTS)
        self._endless: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(_TEXT_DISTANCES)
        self._reaches: WeakKeyLruCache[Node, dict[int, int]] = WeakKeyLruCache(_TEXT_DISTANCES)

    def walk(self, text: Node) -> TextWalk:
        """Return the walk of a language of code points."""
        quote = Quote.of(text)
        if quote is not None:
            return self._walk_of_quote(quote)
        text, min_chars, max_chars = _without_bounds(text)
        # A bound beyond the longest token has no effect yet. An exception is a lower bound beside a
        # pattern: it refuses characters after which the pattern can only end earlier.
        if min_chars > self._longest and (max_chars is None or text is everything(ANY_CODE_POINT)):
            min_chars = self._longest if self._is_endless(text) else min_chars
        if max_chars is not None and max_chars >= self._reach(text, min_chars):
            max_chars = None
        walk = self._walks.get(text, (min_chars, max_chars))
        if walk is None:
            self._unbounded.put(text, None)
            walk = self._walks.put(
                text, (min_chars, max_chars), self._make(text, min_chars, max_chars)
            )
        return walk

    def _walk_of_quote(self, quote: Quote) -> TextWalk:
        key = quote.min_chars, quote.max_chars
        walk = self._walks.get(quote.text, key)
        if walk is None:
            found = self._substrings.reached(quote)
            made = self.result(found.is_live, found.begun, found.ends[self.trie.leaving_at])
            walk = self._walks.put(quote.text, key, made)
        return walk

    @cached_property
    def _substrings(self) -> SubstringWalk:
        return SubstringWalk(self.trie)

    def _make(self, text: Node, min_chars: int, max_chars: int | None) -> TextWalk:
        if text is everything(ANY_CODE_POINT):
            return self._walk_by_length(min_chars, max_chars)
        if min_chars == 0 and max_chars is None:
            walk = self._walk_by_difference(text)
            if walk is not None:
                return walk
        return self._walk_by_automaton(text, min_chars, max_chars)

    def _reach(self, text: Node, min_chars: int) -> int:
        """Return the length from which on an upper bound on the length refuses no token."""
        if text is everything(ANY_CODE_POINT):
            return self._longest
        known = self._reaches.get(text) or self._reaches.put(text, {})
        reach = known.get(min_chars)
        if reach is None:
            shortest = max(
                map(shortest_length, self._states_after_tokens(text, min_chars)), default=0
            )
            reach = known[min_chars] = self._longest + shortest
        return reach

    def _is_endless(self, text: Node) -> bool:
        """Whether a language is known to have words of any length after every token.

        Where that is not known, the walk counts characters exactly, which is slower.
        """
        if text is everything(ANY_CODE_POINT):
            return True
        known = self._endless.get(text)
        if known is None:
            known = self._endless.put(
                text,
                all(
                    has_endless_words(node) is Verdict.YES
                    for node in self._states_after_tokens(text, 0)
                ),
            )
        return known

    def _states_after_tokens(self, text: Node, min_chars: int) -> set[Node]:
        """Return the states after tokens, and those after the characters that tokens begin."""
        automaton, _ = self._states(text, min_chars, None)
        return {target for node in automaton.nodes[1:] for _, target in node.transitions}

    def result(self, is_live: Flags, begun: Flags, leaves: Flags) -> TextWalk:
        """Return the walk with the given vertices and tokens.

        Args:
            is_live: Whether a text is the beginning of a word: bool, shape (vertices,).
            begun: The same of each token that begins a character: bool, shape (begun tokens,).
            leaves: Whether the text is a word, by leaving token: bool, shape (leaving tokens,).
        """
        trie = self.trie
        inside = np.append(is_live, np.False_)[self._vertex_of]
        inside[trie.begun_ids] = begun
        inside[trie.leaving_ids[leaves & self._closes]] = True
        return TextWalk(inside, self, leaves)

    def _walk_by_length(self, min_chars: int, max_chars: int | None) -> TextWalk:
        trie = self.trie
        limit = self._longest if max_chars is None else max_chars
        leaving = trie.depth[trie.leaving_at]
        return self.result(
            trie.depth <= limit,
            trie.depth[trie.begun_at] < limit,
            (leaving >= min_chars) & (leaving <= limit),
        )

    @property
    def _longest(self) -> int:
        return len(self.trie.levels)

    def _walk_by_difference(self, text: Node) -> TextWalk | None:
        """Walk the vertices where a language differs from any text; ``None`` if there are many."""
        anything = everything(ANY_CODE_POINT)
        trie, visits = self.trie, 0
        refusing: list[int] = []
        stack = [(text, 0)]
        while stack:
            node, vertex = stack.pop()
            if not node.nullable:
                refusing.append(vertex)
            covered = 0
            for members, target in node.transitions:
                covered += len(members)
                if target is anything:
                    continue
                visits += 1 + len(members)
                if len(members) > MAX_LETTERS or visits > MAX_DIFFERENCES:
                    return None
                for point in members:
                    letter = int(np.searchsorted(trie.alphabet, point))
                    if letter < len(trie.alphabet) and trie.alphabet[letter] == point:
                        stack.extend((target, child) for child in trie.spelling(vertex, letter))
            if covered < len(ANY_CODE_POINT):
                return None
        free = self.walk(anything)
        leaves, inside = free.leaves, free.inside
        for vertex in refusing:
            first, last = np.searchsorted(trie.leaving_at, (vertex, vertex + 1))
            leaves[first:last] = False
            inside[trie.leaving_ids[first:last]] = False
        return TextWalk(inside, self, leaves)

    def _states(self, text: Node, min_chars: int, max_chars: int | None) -> tuple[Automaton, Ids]:
        """Return a language with bounds on the length, and its state at every vertex."""
        trie = self.trie
        if min_chars:
            text = intersection((text, repetition(symbols(ANY_CODE_POINT), min_chars, None)))
        automaton = Automaton(
            text, lambda members: trie.letters(members).ranges, is_bounded=max_chars is not None
        )
        limit = UNBOUNDED if max_chars is None else max_chars
        return automaton, states_at_vertices(automaton, trie, limit)

    def _walk_by_automaton(self, text: Node, min_chars: int, max_chars: int | None) -> TextWalk:
        trie = self.trie
        automaton, states = self._states(text, min_chars, max_chars)
        nullable = np.array([node.nullable for node in automaton.nodes], np.bool_)
        limit = UNBOUNDED if max_chars is None else max_chars
        begun = self._begun(automaton, states[trie.begun_at], limit)
        return self.result(states > 0, begun, nullable[states[trie.leaving_at]])

    def _begun(self, automaton: Automaton, states: Ids, max_chars: int) -> Flags:
        """Return which of the tokens that begin a character are allowed, by their states."""
        trie = self.trie
        possible = np.zeros(len(states), np.bool_)
        depths = trie.depth[trie.begun_at]
        if max_chars == UNBOUNDED:
            depths = np.zeros_like(depths)
        width = int(depths.max(initial=0)) + 1
        keys = states.astype(np.int64) * width + depths
        for key in np.unique(keys[states > 0]).tolist():
            state, depth = divmod(key, width)
            allowed = np.zeros(trie.begun_sets, np.bool_)
            for members, target in automaton.nodes[state].transitions:
                if max_chars == UNBOUNDED or depth + 1 + shortest_length(target) <= max_chars:
                    allowed |= trie.letters(members).begun
            here = keys == key
            possible[here] = allowed[trie.begun_set[here]]
        return possible


class TextWalk(LexemeWalk):
    """The walk of a language of code points over the tokens inside a JSON string."""

    __slots__ = ("_leaves", "_tokens")

    leads = (b"",)

    def __init__(self, inside: Flags, tokens: StringTokens, leaves: Flags) -> None:
        super().__init__(inside)
        self._tokens = tokens
        self._leaves = np.packbits(leaves)

    @property
    def leaves(self) -> Flags:
        """Whether the text before the quote is a word: bool, shape (leaving tokens,)."""
        count = len(self._tokens.trie.leaving_ids)
        return np.unpackbits(self._leaves, count=count).view(np.bool_)

    def leaving(self, first: int) -> LeavingTokens:
        """Return the tokens that leave the string."""
        del first
        return self

    @property
    def suffixes(self) -> Suffixes:
        """The texts that tokens write beyond the closing quote."""
        return self._tokens.suffixes

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that leave the string with suffixes of the given numbers."""
        found = self._tokens.beyond.tokens(numbers)
        return self._tokens.trie.leaving_ids[found[self.leaves[found]]]

    def leaving_ids(self) -> Ids:
        """Return the tokens that close the string."""
        return self._tokens.trie.leaving_ids[self.leaves]

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of the string, in any spelling, and close it."""
        return self._tokens.trie.ending(word)


def _without_bounds(text: Node) -> tuple[Node, int, int | None]:
    """Return a language of code points as another one and bounds on the length of its words."""
    members = text.members if isinstance(text, Intersection) else (text,)
    bounds = [node for node in members if isinstance(node, Repetition) and counts_any_symbol(node)]
    if len(bounds) != 1 or bounds[0].is_universal:
        return text, 0, None
    others = [node for node in members if node is not bounds[0]]
    rest = intersection(others) if others else everything(ANY_CODE_POINT)
    return rest, bounds[0].min_count, bounds[0].max_count
