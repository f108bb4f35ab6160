"""What languages of characters make of the tokens inside a JSON string.

A language is walked over the :class:`~state_machines.masks.character_trie.CharacterTrie`, in one
of four ways: not at all (any text), by a token's number of characters (bounds on the length), by
the few vertices that differ from any text (names that are taken), or level by level in
whole-array operations, with bounds on the length beside it.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from state_machines.grammar.boolean import Intersection, counts_any_symbol, everything, intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import Repetition, repetition, symbols
from state_machines.grammar.shortest import shortest_length
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.masks.character_trie import CharacterTrie, Flags
from state_machines.masks.lexeme_walk import Beyond, LexemeWalk, Suffixes
from state_machines.masks.token_trie import Ids, TokenTrie

__all__ = ["StringTokens", "TextWalk"]

MAX_DIFFERENCES = 600
FEW_LETTERS = 16


class StringTokens:
    """The tokens below a vertex of a byte trie as the inside of a JSON string; their walks."""

    def __init__(
        self, trie: TokenTrie, start: int, vocabulary_size: int, suffixes: Suffixes
    ) -> None:
        self.trie = CharacterTrie(trie, start)
        self.size = vocabulary_size
        closing = np.array([not text for text in self.trie.suffixes], np.bool_)
        self._closes: Flags = closing[self.trie.suffix]
        numbers = np.array([suffixes.numbers.get(text, -1) for text in self.trie.suffixes])
        number = numbers.astype(np.int32)[self.trie.suffix]
        going_on = np.flatnonzero(~self._closes)
        self._going_on = going_on[np.argsort(number[going_on], kind="stable")]
        self._beyond = Beyond(
            self.trie.leaving_ids[self._going_on], number[self._going_on], suffixes
        )

    def walk(self, text: Node) -> TextWalk:
        """Return what a language of characters makes of the tokens."""
        if text is everything(ANY_CODE_POINT):
            return self.free
        text, least, most = _without_bounds(text)
        if text is everything(ANY_CODE_POINT):
            return self._bounded(least, most)
        if least == 0 and most is None:
            different = self._different(text)
            if different is not None:
                return different
        return self._by_level(text, least, most)

    @cached_property
    def free(self) -> TextWalk:
        """Any text."""
        return self._bounded(0, None)

    def beyond(self, leaves: Flags) -> Beyond:
        """Return the tokens that go on beyond the string, of those leaving ones that may."""
        every = self._beyond
        if leaves.all():
            return every
        kept = leaves[self._going_on]
        return Beyond(every.ids[kept], every.suffix[kept], every.suffixes)

    def result(self, whole: Flags, begun: Flags, leaves: Flags) -> TextWalk:
        """Make a walk of which tokens stay inside, by group of the trie's tokens."""
        trie = self.trie
        inside = np.zeros(self.size, np.bool_)
        inside[trie.whole_ids] = whole
        inside[trie.begun_ids] = begun
        inside[trie.leaving_ids[leaves & self._closes]] = True
        return TextWalk(inside, self, leaves)

    def _bounded(self, least: int, most: int | None) -> TextWalk:
        trie = self.trie
        limit = self._longest if most is None else most
        leaving = trie.depth[trie.leaving_at]
        return self.result(
            trie.depth[trie.whole_at] <= limit,
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
            for members, target in node.row:
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
        free = self.free
        leaves = free.leaves.copy()
        inside = free.inside.copy()
        for vertex in refusing:
            first, last = np.searchsorted(trie.leaving_at, (vertex, vertex + 1))
            leaves[first:last] = False
            inside[trie.leaving_ids[first:last]] = False
        return TextWalk(inside, self, leaves)

    def _by_level(self, text: Node, least: int, most: int | None) -> TextWalk:
        trie = self.trie
        automaton = _Automaton(text, trie, least, most)
        states = np.zeros(trie.size, np.int32)
        states[0] = 1
        live = np.zeros(1, np.int64)
        for depth, (first, last) in enumerate(zip(trie.levels[1:], trie.levels[2:], strict=False)):
            automaton.expand(states[live])
            if 3 * len(live) > first - trie.levels[depth]:
                children = np.arange(first, last)
                before = states[trie.parent[first:last]]
            else:
                children, above = trie.children_of(live)
                before = states[live][above]
            now = automaton.table[before, trie.letter[children]]
            now = automaton.kept(now, depth + 1)
            kept = now > 0
            live = children[kept]
            if not len(live):
                break
            states[live] = now[kept]
        nullable = np.array([node.nullable for node in automaton.nodes], np.bool_)
        leaves = nullable[states[trie.leaving_at]]
        if least or most is not None:
            depth_of = trie.depth[trie.leaving_at]
            leaves &= (depth_of >= least) & (depth_of <= (self._longest if most is None else most))
        return self.result(states[trie.whole_at] > 0, automaton.begun(states), leaves)


class TextWalk(LexemeWalk):
    """What a language of characters makes of the tokens inside a JSON string.

    ``leaves``: bool, one for each leaving token of the trie: whether the text may end there.
    """

    __slots__ = ("_beyond", "_tokens", "leaves")

    leads = (b"",)

    def __init__(self, inside: Flags, tokens: StringTokens, leaves: Flags) -> None:
        super().__init__(inside)
        self._tokens = tokens
        self.leaves = leaves
        self._beyond: Beyond | None = None

    @property
    def beyond(self) -> Beyond:
        """The tokens that go on beyond the string."""
        if self._beyond is None:
            self._beyond = self._tokens.beyond(self.leaves)
        return self._beyond

    def leaving_ids(self) -> Ids:
        """Return all tokens that close the string, whatever follows."""
        return self._tokens.trie.leaving_ids[self.leaves]

    def ending(self, word: str) -> Ids:
        """Return the tokens that write the rest of the string, in any spelling, and close it."""
        return self._tokens.trie.ending(word)


class _Automaton:
    """The states of a language that are met, by number: 0 is dead, 1 the language itself.

    ``table``: int32, shape (states, letters). Between ``least`` and ``most`` characters must be
    written in all.
    """

    def __init__(self, text: Node, trie: CharacterTrie, least: int, most: int | None) -> None:
        self._trie = trie
        self._least, self._most = least, most
        self.nodes: list[Node] = [EMPTY, text]
        self._numbers = {EMPTY: 0, text: 1}
        self.table = np.zeros((4, len(trie.alphabet)), np.int32)
        self._begun = np.zeros((4, trie.begun_sets), np.bool_)
        self._expanded = np.zeros(4, np.bool_)
        self._expanded[0] = True

    def expand(self, states: Ids) -> None:
        """Fill in the rows of states."""
        present = np.zeros(len(self._expanded), np.bool_)
        present[states] = True
        for number in np.flatnonzero(present & ~self._expanded).tolist():
            self._expanded[number] = True
            for members, target in self.nodes[number].row:
                known = self._numbers.get(target)
                if known is None:
                    known = self._numbers[target] = len(self.nodes)
                    self.nodes.append(target)
                letters = self._trie.letters(members)
                self.table[number, letters.letters] = known
                self._begun[number] |= letters.begun
            if len(self.nodes) > len(self.table):
                self._grow(2 * len(self.nodes))

    def _grow(self, room: int) -> None:
        def grown(rows: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
            more = np.zeros((room - len(rows), *rows.shape[1:]), rows.dtype)
            return np.concatenate((rows, more))

        self.table = grown(self.table)  # type: ignore[assignment]
        self._begun = grown(self._begun)  # type: ignore[assignment]
        self._expanded = grown(self._expanded)  # type: ignore[assignment]

    def kept(self, states: Ids, depth: int) -> Ids:
        """Return states at a depth, those dead from which no length within the bounds is had."""
        if self._most is None and depth >= self._least:
            return states
        alive = np.zeros(len(self.nodes), np.int32)
        for number in np.unique(states).tolist():
            alive[number] = self._lives(self.nodes[number], depth)
        return states * alive[states]

    def _lives(self, node: Node, depth: int) -> bool:
        if node is EMPTY:
            return False
        least = max(0, self._least - depth)
        most = None if self._most is None else self._most - depth
        if most is not None and most < shortest_length(node):
            return False
        if not least:
            return True
        bounded = intersection((node, repetition(symbols(ANY_CODE_POINT), least, most)))
        return not bounded.is_empty

    def begun(self, states: Ids) -> Flags:
        """Return which of the tokens that begin a character may do so."""
        trie = self._trie
        at = states[trie.begun_at]
        self.expand(at)
        possible = self._begun[at, trie.begun_set]
        if self._most is None and not self._least:
            return possible
        depth = trie.depth[trie.begun_at]
        for number, level in {*zip(at[possible].tolist(), depth[possible].tolist(), strict=True)}:
            allowed = np.zeros(trie.begun_sets, np.bool_)
            for members, target in self.nodes[number].row:
                if self._lives(target, level + 1):
                    allowed |= trie.letters(members).begun
            here = (at == number) & (depth == level)
            possible[here] &= allowed[trie.begun_set[here]]
        return possible


def _without_bounds(text: Node) -> tuple[Node, int, int | None]:
    """Return a language of characters as another one and bounds on the length of its words."""
    members = text.members if isinstance(text, Intersection) else (text,)
    bounds = [node for node in members if isinstance(node, Repetition) and counts_any_symbol(node)]
    if len(bounds) != 1 or bounds[0].is_universal:
        return text, 0, None
    others = [node for node in members if node is not bounds[0]]
    rest = intersection(others) if others else everything(ANY_CODE_POINT)
    return rest, bounds[0].least, bounds[0].most
