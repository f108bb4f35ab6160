"""The walk of an automaton over a trie of tokens, below one or several vertices.

The compiled kernel visits vertex by vertex (``masks/kernel``). Without it, whole-array
operations visit level by level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from state_machines.budgets import spend
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.masks.kernel import (
    KERNEL,
    Begin,
    Descent,
    Kernel,
    KernelWalk,
    Visits,
    by_kind,
    joined,
)
from state_machines.masks.stack_automaton import LexemeAutomaton, StackAutomaton
from state_machines.masks.state_table import StateTable
from state_machines.masks.token_sets import TokenSet, packed
from state_machines.masks.token_trie import Ids, TokenTrie, intervals


class Descents:
    """Walks automata over one trie. Safe to use from several threads.

    Args:
        trie: The trie.
        kernel: The compiled kernel; ``None`` for whole-array operations.
    """

    def __init__(self, trie: TokenTrie, kernel: Kernel | None = KERNEL) -> None:
        self.trie = trie
        self._kernel = kernel
        # An object in these lists is used by no thread.
        self._walks: list[KernelWalk] = []
        self._tables: list[StateTable] = []
        self.rows = 0
        """The number of rows that were computed."""
        self.vertices = 0
        """The number of vertices that were visited."""

    def descend(self, table: StateTable, begin: Begin) -> Descent:
        """Walk a table of states; no other thread may use it meanwhile."""
        rows = table.rows
        try:
            with self.kernel_walk() as walk:
                if walk is None:
                    found, visits = descend_levels(self.trie, table, begin)
                    self.vertices += len(visits[0])
                    return found
                found = walk.descend(table, begin)
                self.vertices += walk.visited
                return found
        finally:
            self.rows += table.rows - rows

    @property
    def has_kernel(self) -> bool:
        """Whether there is a compiled kernel."""
        return self._kernel is not None

    def descend_stacks(
        self, automaton: StackAutomaton, vertices: Ids, target: int
    ) -> tuple[TokenSet, Ids] | None:
        """Walk an automaton of stacks with the kernel; see :meth:`KernelWalk.descend_stacks`."""
        with self._walk_of(automaton) as walk:
            return walk.descend_stacks(automaton, vertices, target)

    def descend_lexemes(
        self, automaton: LexemeAutomaton, parser: Node, groups: list[tuple[int, Ids]]
    ) -> TokenSet | None:
        """Walk an automaton with the kernel; see :meth:`KernelWalk.descend_lexemes`."""
        with self._walk_of(automaton) as walk:
            return walk.descend_lexemes(automaton, parser, groups)

    @contextmanager
    def _walk_of(self, automaton: StackAutomaton | LexemeAutomaton) -> Iterator[KernelWalk]:
        """Lend arrays of the kernel, and count the rows that the automaton gets meanwhile."""
        rows = automaton.rows
        try:
            with self.kernel_walk() as walk:
                assert walk is not None, "asked for with a kernel only"
                yield walk
                self.vertices += walk.visited
        finally:
            self.rows += automaton.rows - rows

    def visits(self, table: StateTable, begin: Begin) -> Visits:
        """Return all vertices that a walk visits, with their states."""
        with self.kernel_walk() as walk:
            if walk is None:
                return descend_levels(self.trie, table, begin)[1]
            return walk.visits(table, begin)

    def words(self, node: Node, vertex: int) -> tuple[Ids, Ids]:
        """Return the vertices below one vertex that a node reaches, and the ends of its words."""
        with self.table() as table:
            vertices, states = self.visits(table, below(vertex, table.number(node)))
            vertices, states = vertices[1:], states[1:]
            nullable = np.zeros(len(table.nodes), np.bool_)
            # The table has the states of many walks.
            for number in np.unique(states).tolist():
                nullable[number] = table.nodes[number].nullable
        return vertices, vertices[nullable[states]]

    @contextmanager
    def table(self) -> Iterator[StateTable]:
        """Lend a table of states. It has states of earlier walks, which new ones often reach."""
        try:
            table = self._tables.pop()
        except IndexError:
            table = StateTable()
        try:
            yield table
        finally:
            if table.weight <= LIMITS.state_table_bytes:
                self._tables.append(table)

    def borrow(self) -> KernelWalk | None:
        """Borrow arrays of the kernel for this thread; ``None`` without the kernel."""
        try:
            return self._walks.pop()
        except IndexError:
            return None if self._kernel is None else KernelWalk(self.trie, self._kernel)

    def give_back(self, walk: KernelWalk) -> None:
        """Give arrays of the kernel back."""
        self._walks.append(walk)

    @contextmanager
    def kernel_walk(self) -> Iterator[KernelWalk | None]:
        """Lend arrays of the kernel to this thread; ``None`` without the kernel."""
        walk = self.borrow()
        try:
            yield walk
        finally:
            if walk is not None:
                self.give_back(walk)


def below(vertex: int, state: int) -> Begin:
    """Return the beginning of a walk below a vertex, in a state there."""
    return Begin(np.array([vertex], np.int32), state, longest=False, is_below=True)


def descend_levels(trie: TokenTrie, table: StateTable, begin: Begin) -> tuple[Descent, Visits]:
    """Walk level by level, with whole-array operations."""
    table.expand([begin.state])
    vertices = begin.vertices
    states: Ids = np.full(len(vertices), begin.state, np.int32)
    if not begin.is_below:
        states = table.target[begin.state, trie.byte[vertices]]
        vertices, states = vertices[states > 0], states[states > 0]
    found: list[Visits] = []
    left: list[tuple[Ids, Ids]] = []
    while len(vertices):
        spend()
        table.expand(np.unique(states).tolist())
        found.append((vertices, states))
        first, last = trie.first_child[vertices], trie.first_child[vertices + 1]
        children = intervals(first, last).astype(np.int32)
        above = np.repeat(states, last - first)
        below = table.target[above, trie.byte[children]]
        leaves = table.kind[above] > 0
        if begin.longest:
            leaves &= below == 0
        left.append((children[leaves], table.kind[above[leaves]]))
        vertices, states = children[below > 0], below[below > 0]
    visits = joined(found)
    tokens = packed(trie.tokens_at_all(visits[0][begin.is_below :]))
    reached = np.unique(visits[1][begin.is_below :]).tolist()
    return Descent(tokens, by_kind(*joined(left), trie.size), reached), visits


def states_at_vertices(
    table: StateTable, start: int, trie: TokenTrie, kernel: Kernel | None = KERNEL
) -> Ids:
    """Return the number of the state at every vertex of a trie: int32, shape (vertices,).

    Faster than a descent where most vertices are reached.

    Args:
        table: The states; no other thread may use them meanwhile.
        start: The number of the state at the root.
        trie: The trie.
        kernel: The compiled kernel; ``None`` for whole-array operations.
    """
    states: Ids = np.zeros(trie.size, np.int32)
    states[0] = start
    table.expand([start])
    if kernel is None:
        for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
            above = states[trie.parent[first:last]]
            table.expand(np.unique(above).tolist())
            states[first:last] = table.target[above, trie.byte[first:last]]
        return states
    arrays = trie.parent.ctypes.data, trie.byte.ctypes.data, trie.size
    vertex = 1
    while vertex < trie.size:
        target, kind, _ = table.addresses
        vertex = kernel.walk(*arrays, target, kind, states.ctypes.data, vertex)
        if vertex < trie.size:
            table.expand([int(states[trie.parent[vertex]])])
    return states
