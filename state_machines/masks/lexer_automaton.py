"""The states of a lexer by number, and the walk of a trie below several vertices."""

from __future__ import annotations

from array import array

import numpy as np

from state_machines.grammar.node import Node
from state_machines.grammar.symbols import byte_ranges
from state_machines.masks.automaton import KERNEL, Automaton, Kernel
from state_machines.masks.token_trie import Ids, TokenTrie, intervals

WORD_BITS = 64
"""States of a walk that the kernel does not visit twice at a vertex."""

MAX_STATES = 1 << 20
"""Greater than the number of states of a lexer that any walk visits."""


class LexerAutomaton(Automaton):
    """The states of a lexer by number, and whether a lexeme may end there."""

    def __init__(self, start: Node) -> None:
        self.complete = array("b")
        super().__init__(start, byte_ranges)

    def _number(self, node: Node) -> int:
        number = super()._number(node)
        if number == len(self.complete):
            self.complete.append(node.nullable)
        return number

    @property
    def arrays(self) -> tuple[array[int], ...]:
        """The transitions, in the form that the kernel takes."""
        return self.row_start, self.row_end, self.first, self.last, self.target, self.complete

    def table(self) -> Ids:
        """Return the target of every known state and byte: int32, shape (states, 256)."""
        found = np.zeros((len(self.nodes), 256), np.int32)
        for state, start in enumerate(self.row_start):
            for index in range(start, self.row_end[state]) if start >= 0 else ():
                found[state, self.first[index] : self.last[index] + 1] = self.target[index]
        return found


Reached = tuple[Ids, Ids, Ids, Ids]
"""Vertices and their states; vertices after a lexeme, and the states at its end."""


def descend(
    trie: TokenTrie,
    automaton: LexerAutomaton,
    entries: tuple[Ids, Ids],
    longest: bool,
    kernel: Kernel | None = KERNEL,
) -> Reached:
    """Visit the vertices below others, as far as a lexer is alive there.

    Args:
        trie: The trie.
        automaton: The lexer.
        entries: The vertices to begin with, and their states.
        longest: Whether lexemes are longest matches.
        kernel: The compiled kernel; ``None`` for whole-array operations.
    """
    if kernel is None:
        return _descend_levels(trie, automaton, entries, longest)
    return _descend_by_kernel(kernel, trie, automaton, entries, longest)


def _descend_by_kernel(
    kernel: Kernel,
    trie: TokenTrie,
    automaton: LexerAutomaton,
    entries: tuple[Ids, Ids],
    longest: bool,
) -> Reached:
    begin, begin_states = entries
    # Vertices may lie below one another, and may be visited once for each.
    room = int(trie.vertices_from[begin].sum())
    arrays = [np.empty(room, np.int32) for _ in range(4)]
    arrays[0][: len(begin)] = begin
    arrays[1][: len(begin)] = begin_states
    seen = np.zeros(trie.size, np.uint64)
    seen[begin] = np.where(
        begin_states < WORD_BITS, np.uint64(1) << begin_states.astype(np.uint64), 0
    )
    progress = np.array([0, len(begin), 0], np.int32)
    addresses = [*(each.ctypes.data for each in arrays), seen.ctypes.data, progress.ctypes.data]
    tree = [trie.first_child.ctypes.data, trie.byte.ctypes.data]
    automaton.expand(1)
    while missing := kernel.descend(tree, automaton.arrays, longest, addresses):
        automaton.expand(missing)
    _, count, leaves = progress.tolist()
    return (
        arrays[0][:count].copy(),
        arrays[1][:count].copy(),
        arrays[2][:leaves].copy(),
        arrays[3][:leaves].copy(),
    )


def _descend_levels(
    trie: TokenTrie, automaton: LexerAutomaton, entries: tuple[Ids, Ids], longest: bool
) -> Reached:
    """Walk level by level, with whole-array operations."""
    vertices, states = entries
    found: list[Reached] = []
    seen = vertices.astype(np.int64) * MAX_STATES + states
    none = np.zeros(0, np.int32)
    while len(vertices):
        for number in np.unique(states).tolist():
            automaton.expand(number)
        first, last = trie.first_child[vertices], trie.first_child[vertices + 1]
        children = intervals(first, last).astype(np.int32)
        above = np.repeat(states, last - first)
        table = automaton.table()
        below = table[above, trie.byte[children]]
        may_end = np.frombuffer(automaton.complete, np.int8)[above] > 0
        leaves = may_end & (below == 0) if longest else may_end
        found.append((vertices, states, children[leaves], above[leaves]))
        live = below > 0
        keys = children[live].astype(np.int64) * MAX_STATES + below[live]
        keys = np.setdiff1d(keys, seen)
        seen = np.union1d(seen, keys)
        vertices, states = (
            (keys // MAX_STATES).astype(np.int32),
            (keys % MAX_STATES).astype(np.int32),
        )
    if not found:
        return none, none, none, none
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    return columns[0], columns[1], columns[2], columns[3]
