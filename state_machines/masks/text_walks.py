"""What languages of characters make of the tokens inside a JSON string.

A language is walked over the :class:`~state_machines.masks.character_trie.CharacterTrie`, in one
of four ways: not at all (any text), by a token's number of characters (bounds on the length), by
the few vertices that differ from any text (names that are taken), or as an automaton, with bounds
on the length beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from state_machines.caches import LruCache, WeakKeyLruCache
from state_machines.grammar.boolean import Intersection, counts_any_symbol, everything, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import Repetition, repetition, symbols
from state_machines.grammar.shortest import has_endless_words, shortest_length
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.limits import LIMITS
from state_machines.masks.automaton import UNBOUNDED, Automaton, states_at_vertices
from state_machines.masks.character_trie import CharacterTrie, Flags
from state_machines.masks.lexeme_walk import Beyond, BySuffix, LexemeWalk, Suffixes
from state_machines.masks.token_trie import Ids, TokenTrie
from state_machines.masks.walks_by_text import WalksByText

__all__ = ["StringTokens", "TextWalk"]

MAX_DIFFERENCES = 600
FEW_LETTERS = 16


class StringTokens:
    """The tokens of a byte trie as the inside of a JSON string; their walks."""

    def __init__(self, trie: TokenTrie, vocabulary_size: int, suffixes: Suffixes) -> None:
        self.trie = CharacterTrie(trie)
        self.size = vocabulary_size
        closing = np.array([not text for text in self.trie.suffixes], np.bool_)
        self._closes: Flags = closing[self.trie.suffix]
        numbers = np.array([suffixes.numbers.get(text, -1) for text in self.trie.suffixes])
        number = numbers.astype(np.int32)[self.trie.suffix]
        going_on = np.flatnonzero(~self._closes)
        # Where a token does not end in a whole character, the vertex beyond the last one.
        self._vertex_of = np.full(vocabulary_size, self.trie.size, np.intp)
        self._vertex_of[self.trie.whole_ids] = self.trie.whole_at
        self.suffixes = suffixes
        self.going_on = BySuffix(going_on.astype(np.int32), number[going_on], suffixes)
        """The leaving tokens, by their places among these, that go on beyond the quote."""
        self._walks: WalksByText[tuple[int, int | None], TextWalk] = WalksByText(
            LIMITS.text_walk_bytes
        )
        self._kept: LruCache[Node, None] = LruCache(LIMITS.unbounded_texts)
        self._endless: WeakKeyLruCache[Node, bool] = WeakKeyLruCache(LIMITS.text_distances)
        self._reaches: WeakKeyLruCache[Node, dict[int, int]] = WeakKeyLruCache(
            LIMITS.text_distances
        )

    def walk(self, text: Node) -> TextWalk:
        """Return what a language of characters makes of the tokens."""
        text, least, most = _without_bounds(text)
        # What is further away than the longest token makes no difference yet. Beside a pattern, a
        # lower bound may: it shuts out what the pattern can only end before.
        if least > self._longest and (most is None or text is everything(ANY_CODE_POINT)):
            least = self._longest if self._is_endless(text) else least
        if most is not None and most >= self._reach(text, least):
            most = None
        walk = self._walks.get(text, (least, most))
        if walk is None:
            self._kept.put(text, None)
            walk = self._walks.put(text, (least, most), self._make(text, least, most))
        return walk

    def _make(self, text: Node, least: int, most: int | None) -> TextWalk:
        if text is everything(ANY_CODE_POINT):
            return self._bounded(least, most)
        if least == 0 and most is None:
            different = self._different(text)
            if different is not None:
                return different
        return self._by_automaton(text, least, most)

    def _reach(self, text: Node, least: int) -> int:
        """Return the length from which on a bound on a language's length shuts out no token."""
        if text is everything(ANY_CODE_POINT):
            return self._longest
        known = self._reaches.get(text) or self._reaches.put(text, {})
        reach = known.get(least)
        if reach is None:
            shortest = max(map(shortest_length, self._met(text, least)), default=0)
            reach = known[least] = self._longest + shortest
        return reach

    def _is_endless(self, text: Node) -> bool:
        """Whether a language has words of any length, whatever a token makes of it."""
        if text is everything(ANY_CODE_POINT):
            return True
        known = self._endless.get(text)
        if known is None:
            known = self._endless.put(text, all(map(has_endless_words, self._met(text, 0))))
        return known

    def _met(self, text: Node, least: int) -> set[Node]:
        """Return the states that tokens lead to, and those of characters that they begin."""
        automaton, _ = self._states(text, least, None)
        return {target for node in automaton.nodes[1:] for _, target in node.transitions}

    def result(self, is_live: Flags, begun: Flags, leaves: Flags) -> TextWalk:
        """Make a walk of what stays inside.

        ``is_live`` is said of vertices, the others of the trie's tokens by group.
        """
        trie = self.trie
        inside = np.append(is_live, np.False_)[self._vertex_of]
        inside[trie.begun_ids] = begun
        inside[trie.leaving_ids[leaves & self._closes]] = True
        return TextWalk(inside, self, leaves)

    def _bounded(self, least: int, most: int | None) -> TextWalk:
        trie = self.trie
        limit = self._longest if most is None else most
        leaving = trie.depth[trie.leaving_at]
        return self.result(
            trie.depth <= limit,
            trie.depth[trie.begun_at] < limit,
            (leaving >= least) & (leaving <= limit),
        )

    @property
    def _longest(self) -> int:
        return len(self.trie.levels)

    def _different(self, text: Node) -> TextWalk | None:
        """Walk where a language differs from any text, if that is not far."""
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
                if len(members) > FEW_LETTERS or visits > MAX_DIFFERENCES:
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

    def _states(self, text: Node, least: int, most: int | None) -> tuple[Automaton, Ids]:
        """Return a language with bounds on the length, and its state at every vertex."""
        trie = self.trie
        if least:
            text = intersection((text, repetition(symbols(ANY_CODE_POINT), least, None)))
        automaton = Automaton(
            text, lambda members: trie.letters(members).ranges, is_bounded=most is not None
        )
        limit = UNBOUNDED if most is None else most
        return automaton, states_at_vertices(automaton, trie, limit)

    def _by_automaton(self, text: Node, least: int, most: int | None) -> TextWalk:
        trie = self.trie
        automaton, states = self._states(text, least, most)
        nullable = np.array([node.nullable for node in automaton.nodes], np.bool_)
        limit = UNBOUNDED if most is None else most
        begun = self._begun(automaton, states[trie.begun_at], limit)
        return self.result(states > 0, begun, nullable[states[trie.leaving_at]])

    def _begun(self, automaton: Automaton, states: Ids, most: int) -> Flags:
        """Return which of the tokens that begin a character may do so, by their states."""
        trie = self.trie
        possible = np.zeros(len(states), np.bool_)
        depths = trie.depth[trie.begun_at]
        if most == UNBOUNDED:
            depths = np.zeros_like(depths)
        width = int(depths.max(initial=0)) + 1
        places = states.astype(np.int64) * width + depths
        for place in np.unique(places[states > 0]).tolist():
            state, depth = divmod(place, width)
            allowed = np.zeros(trie.begun_sets, np.bool_)
            for members, target in automaton.nodes[state].transitions:
                if most == UNBOUNDED or depth + 1 + shortest_length(target) <= most:
                    allowed |= trie.letters(members).begun
            here = places == place
            possible[here] = allowed[trie.begun_set[here]]
        return possible


class TextWalk(LexemeWalk):
    """What a language of characters makes of the tokens inside a JSON string."""

    __slots__ = ("_leaves", "_tokens")

    leads = (b"",)

    def __init__(self, inside: Flags, tokens: StringTokens, leaves: Flags) -> None:
        super().__init__(inside)
        self._tokens = tokens
        self._leaves = np.packbits(leaves)

    @property
    def leaves(self) -> Flags:
        """Whether the text may end with a leaving token: bool, one for each of the trie's."""
        count = len(self._tokens.trie.leaving_ids)
        return np.unpackbits(self._leaves, count=count).view(np.bool_)

    def beyond(self, first: int) -> Beyond:
        """Return the tokens that go on beyond the string."""
        del first
        return self

    @property
    def suffixes(self) -> Suffixes:
        """What tokens write beyond a string's closing quote."""
        return self._tokens.suffixes

    def tokens(self, numbers: Iterable[int]) -> Ids:
        """Return the tokens that go on beyond the string with suffixes of the given numbers."""
        found = self._tokens.going_on.tokens(numbers)
        return self._tokens.trie.leaving_ids[found[self.leaves[found]]]

    def leaving_ids(self) -> Ids:
        """Return all tokens that close the string, whatever follows."""
        return self._tokens.trie.leaving_ids[self.leaves]

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of the string, in any spelling, and close it."""
        return self._tokens.trie.ending(word)


def _without_bounds(text: Node) -> tuple[Node, int, int | None]:
    """Return a language of characters as another one and bounds on the length of its words."""
    members = text.members if isinstance(text, Intersection) else (text,)
    bounds = [node for node in members if isinstance(node, Repetition) and counts_any_symbol(node)]
    if len(bounds) != 1 or bounds[0].is_universal:
        return text, 0, None
    others = [node for node in members if node is not bounds[0]]
    rest = intersection(others) if others else everything(ANY_CODE_POINT)
    return rest, bounds[0].min_count, bounds[0].max_count
