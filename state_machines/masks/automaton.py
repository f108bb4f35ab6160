"""A language as an automaton over the letters of a trie, and its walk over that trie.

States are numbered on first use, and their transitions are computed when they are needed.
``walk.c`` is compiled when the package is installed, if there is a compiler. The compiled kernel
then walks the trie; otherwise whole-array operations do, level by level.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.node import EMPTY, Node, Symbols
from state_machines.grammar.shortest import shortest_length
from state_machines.masks.token_trie import Ids

UNBOUNDED = np.iinfo(np.int32).max


class LetteredTrie(Protocol):
    """A trie in arrays, all int32, shape (vertices,); vertices are sorted by level, the root is 0.

    ``letter[v]`` leads from ``parent[v]`` to *v*, at depth ``depth[v]``; level *d* is
    ``levels[d]:levels[d + 1]``.
    """

    @property
    def letter(self) -> Ids: ...
    @property
    def depth(self) -> Ids: ...
    @property
    def parent(self) -> Ids: ...
    @property
    def levels(self) -> list[int]: ...


class Automaton:
    """The states of a language that a walk visits, by number: 0 is dead, 1 the language itself.

    Args:
        language: The start state.
        ranges: Returns the letters of a set of symbols as disjoint ranges, both ends included.
        is_bounded: Whether the walk bounds the length of words. Only then the lengths of shortest
            words are computed.
    """

    def __init__(
        self,
        language: Node,
        ranges: Callable[[Symbols], Iterable[tuple[int, int]]],
        *,
        is_bounded: bool = False,
    ) -> None:
        self._ranges = ranges
        self._is_bounded = is_bounded
        self.nodes: list[Node] = []
        self._numbers: dict[Node, int] = {}
        # The transitions of state s are the ranges row_start[s] to before row_end[s].
        self.row_start = array("i")
        self.row_end = array("i")
        self.first = array("i")
        self.last = array("i")
        self.target = array("i")
        self.shortest = array("i")
        self._number(EMPTY)
        self.row_start[0] = 0
        self._number(language)

    def _number(self, node: Node) -> int:
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
            self.row_start.append(-1)
            self.row_end.append(0)
            measured = self._is_bounded and node is not EMPTY
            self.shortest.append(min(shortest_length(node), UNBOUNDED) if measured else 0)
        return number

    def expand(self, number: int) -> None:
        """Compute the transitions of a state, unless they are known."""
        if self.row_start[number] >= 0:
            return
        row = [
            (first, last, self._number(target))
            for symbols, target in self.nodes[number].transitions
            for first, last in self._ranges(symbols)
        ]
        spend(1 + len(row) // 8)
        row.sort()
        self.row_start[number] = len(self.first)
        for first, last, target in row:
            self.first.append(first)
            self.last.append(last)
            self.target.append(target)
        self.row_end[number] = len(self.first)

    @property
    def arrays(self) -> tuple[array[int], ...]:
        """The transitions, in the form that the kernel takes."""
        return self.row_start, self.row_end, self.first, self.last, self.target, self.shortest


VERSION = 6
"""The version of ``walk.c`` that is required; both are raised when a function changes."""

LIBRARY = Path(__file__).with_name("walk.so")


class Kernel:
    """The functions of the compiled library.

    Args:
        path: The library.

    Raises:
        OSError: The library cannot be loaded, or was compiled from another version of ``walk.c``.
        ValueError: The file is another library.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        version = ctypes.c_int32.in_dll(library, "version").value
        if version != VERSION:
            raise OSError(f"{path} has version {version}, not {VERSION}: reinstall the package")
        self._walk = library.walk
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self._walk.argtypes = [
            *[pointer] * 3,
            number,
            *[pointer] * 6,
            number,
            pointer,
            number,
        ]
        self._walk.restype = number
        self.descend = library.descend
        """``descend`` of ``walk.c``, for :mod:`~state_machines.masks.descent`."""
        self.descend.argtypes = [pointer] * 3
        self.descend.restype = number

    def walk(
        self,
        trie: Sequence[int],
        automaton: Sequence[array[int]],
        max_letters: int,
        states: tuple[int, int],
        vertex: int,
    ) -> int:
        """Call ``walk`` of ``walk.c``.

        Args:
            trie: The addresses of parent, letter and depth.
            automaton: The arrays row_start, row_end, first, last, target and shortest.
            max_letters: Greatest length of words.
            states: The address and the number of the states.
            vertex: The vertex to start from.

        Returns:
            The first vertex whose state is not known yet.
        """
        address, size = states
        rows = [numbers.buffer_info()[0] for numbers in automaton]
        found: int = self._walk(*trie, size, *rows, max_letters, address, vertex)
        return found


def _load() -> Kernel | None:
    try:
        return Kernel(LIBRARY)
    except (OSError, ValueError):
        return None


KERNEL = _load()


def states_at_vertices(
    automaton: Automaton,
    trie: LetteredTrie,
    max_letters: int = UNBOUNDED,
    kernel: Kernel | None = KERNEL,
) -> Ids:
    """Return the state of an automaton at every vertex of a trie: int32, shape (vertices,).

    State 1 is at the root.

    Args:
        automaton: The automaton.
        trie: The trie.
        max_letters: Greatest length of words. Vertices from which no such word can be completed
            are dead.
        kernel: The compiled kernel; ``None`` for whole-array operations.
    """
    states: Ids = np.zeros(len(trie.parent), np.int32)
    states[0] = 1
    if kernel is None:
        _walk_levels(automaton, trie, max_letters, states)
        return states
    arrays = [numbers.ctypes.data for numbers in (trie.parent, trie.letter, trie.depth)]
    target, vertex = (states.ctypes.data, len(states)), 1
    while vertex < len(states):
        automaton.expand(int(states[trie.parent[vertex]]))
        vertex = kernel.walk(arrays, automaton.arrays, max_letters, target, vertex)
    return states


def _walk_levels(automaton: Automaton, trie: LetteredTrie, max_letters: int, states: Ids) -> None:
    for depth, (first, last) in enumerate(zip(trie.levels[1:], trie.levels[2:], strict=False), 1):
        above = trie.parent[first:last]
        # Only states that tokens leave: others need no transitions.
        present = np.unique(states[above])
        if not present.any():
            return
        for number in present.tolist():
            automaton.expand(number)
        now = _targets(automaton, states[above], trie.letter[first:last])
        # An array cannot grow while a view of it exists, so none may outlive the iteration.
        shortest = np.frombuffer(automaton.shortest, np.int32)[now]
        states[first:last] = np.where(depth <= max_letters - shortest, now, 0)


def _targets(automaton: Automaton, states: Ids, letters: Ids) -> Ids:
    """Return the states after letters, elementwise."""
    starts = np.frombuffer(automaton.row_start, np.int32)
    known = np.flatnonzero(starts >= 0)
    lengths = np.frombuffer(automaton.row_end, np.int32)[known] - starts[known]
    ranges = np.concatenate([np.arange(0), *map(np.arange, starts[known], starts[known] + lengths)])
    ranges = ranges.astype(np.int64)
    width = 1 + max(int(letters.max()), max(automaton.last, default=0))
    base = np.repeat(known, lengths) * width
    # Keys ascend, since the states do, and the ranges of a state do.
    first = base + np.frombuffer(automaton.first, np.int32)[ranges]
    last = base + np.frombuffer(automaton.last, np.int32)[ranges]
    target = np.append(np.frombuffer(automaton.target, np.int32)[ranges], np.int32(0))
    keys = states.astype(np.int64) * width + letters
    at = np.searchsorted(last, keys)
    inside: npt.NDArray[np.bool_] = np.append(first, UNBOUNDED * width)[at] <= keys
    return np.where(inside, target[at], 0).astype(np.int32)
