"""The compiled walks of automata over tries, with the arrays that one thread lends them.

``walk.c`` is compiled when the package is installed, or on first use, if there is a compiler.
Otherwise whole-array operations walk level by level, and a warning says so. The kernel walks the
trie depth first, one vertex at a time.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.compiled_library import compiled_libraries
from state_machines.grammar.node import Node
from state_machines.masks.stack_automaton import LexemeAutomaton, StackAutomaton
from state_machines.masks.state_table import StateTable
from state_machines.masks.token_sets import FEW_TOKENS, TokenSet
from state_machines.masks.token_trie import Ids, TokenTrie, concatenated

VERSION = 17
"""The version of ``walk.c`` that is required; both are raised when a function changes."""

SOURCE = Path(__file__).with_name("walk.c")


class Kernel:
    """The functions of the compiled library of ``walk.c``.

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
            raise OSError(f"{path} has version {version}, not {VERSION}")
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self.walk = library.walk
        self.walk.argtypes = [pointer, pointer, number, pointer, pointer, pointer, number]
        self.walk.restype = number
        self.descend = library.descend
        self.descend.argtypes = [pointer] * 3
        self.descend.restype = number
        self.descend_stacks = library.descend_stacks
        self.descend_stacks.argtypes = [pointer] * 3
        self.descend_stacks.restype = number
        self.enter = library.enter
        self.enter.argtypes = [pointer, number]
        self.enter.restype = number
        self.parse = library.parse
        self.parse.argtypes = [pointer, number, number, pointer]
        self.parse.restype = number
        self.descend_lexemes = library.descend_lexemes
        self.descend_lexemes.argtypes = [pointer] * 3
        self.descend_lexemes.restype = number
        # Without types, which take longer to convert than a quote takes to walk.
        self.quote = library.quote


def load_kernel(libraries: Iterable[Path] | None = None) -> Kernel | None:
    """Return the first compiled library that can be used; ``None``, with a warning, without one.

    Args:
        libraries: The candidates; ``None``: see ``compiled_libraries``.
    """
    reason: Exception = FileNotFoundError(f"{SOURCE} is not compiled")
    for path in compiled_libraries(SOURCE) if libraries is None else libraries:
        try:
            return Kernel(path)
        except (OSError, ValueError) as error:
            reason = error
    warnings.warn(
        f"masks are computed without compiled code, which takes several times as long: {reason}."
        " Install a C compiler, or the package again",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


KERNEL = load_kernel()


FEW_VERTICES = 64
"""Vertices up to which they are sorted as Python objects."""

MANY_VERTICES = 4_096
"""Vertices from which on they are not sorted, but marked in an array of all."""

TOKENS_PER_STEP = 1_024
"""Tokens of a walk that are charged as one step."""

STEPS_OF_STACKS = 16
"""Transitions of stacks that are charged as one step."""


class Begin(NamedTuple):
    """Where a walk begins.

    Attributes:
        vertices: The vertices: int32. None is below another.
        state: The number of the state.
        longest: Whether lexemes are longest matches.
        is_below: Whether the state is that at the only vertex. Otherwise it is that at the parents,
            and the walk reads the vertices' own bytes first.
    """

    vertices: Ids
    state: int
    longest: bool
    is_below: bool


class Descent(NamedTuple):
    """The result of a walk.

    Attributes:
        tokens: The tokens that stay inside the lexeme or end with it.
        leaving: Pairs of a kind, as in :attr:`StateTable.completes`, and the vertices with the
            first byte after a word: int32, distinct, ascending.
        reached: Numbers of the states that were reached after at least one byte.
    """

    tokens: TokenSet
    leaving: list[tuple[int, Ids]]
    reached: list[int]


Visits = tuple[Ids, Ids]
"""Vertices and their states: int32."""


_ARRAYS = (
    *("begin", "vertices", "states", "path", "bits", "few", "leaving"),
    *("kinds", "visited", "visited_states", "reached", "is_reached", "parsers"),
)
_NUMBERS = (
    *("begins", "begun", "start", "is_below", "longest", "pending"),
    *("found", "max_few", "leaves", "max_leaves", "visits", "states_reached"),
)


_TRIE_ARRAYS = "vertices", "ids", "bytes", "ordered", "index"


class _Trie(ctypes.Structure):
    """``token_trie`` of ``walk.c``."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in _TRIE_ARRAYS)


class _LexerFields(ctypes.Structure):
    """``lexer`` of ``walk.c``."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("target", "kind", "loops"))


class _DescentFields(ctypes.Structure):
    """``descent`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int32) for name in _NUMBERS),
    )


class KernelWalk:
    """The arrays of the kernel for walks over one trie. For one thread at a time."""

    def __init__(self, trie: TokenTrie, kernel: Kernel) -> None:
        self._kernel = kernel
        self._trie = trie
        ordered, index = trie.ordered
        arrays = trie.vertices, trie.ids, trie.byte, ordered, index
        self._trie_fields = _Trie(*(array.ctypes.data for array in arrays))
        size = trie.size
        self._arrays: dict[str, npt.NDArray[Any]] = {
            "vertices": np.empty(2 * size, np.int32),
            "states": np.empty(2 * size, np.int32),
            "path": np.empty(len(trie.levels), np.int32),
            "bits": np.zeros(int(trie.ids.max(initial=0)) // 8 + 1, np.uint8),
            "few": np.empty(FEW_TOKENS, np.int32),
            "leaving": np.empty(size, np.int32),
            "kinds": np.empty(size, np.int32),
            "reached": np.empty(0, np.int32),
            "is_reached": np.empty(0, np.uint8),
            "parsers": np.empty(size + 1, np.int32),
        }
        self._walk = _DescentFields(max_few=FEW_TOKENS, max_leaves=size)
        for name, array in self._arrays.items():
            setattr(self._walk, name, array.ctypes.data)
        self._leaving = self._arrays["leaving"].data
        self.quote_mask = partial(
            kernel.quote, ctypes.byref(self._trie_fields), ctypes.byref(self._walk)
        )
        """``quote`` of ``walk.c``; returns the number of :meth:`leaving` vertices."""
        self.visited = 0
        """Vertices that the last walk of an automaton visited, or followed a transition to."""

    def descend(
        self,
        table: StateTable,
        begin: Begin,
        visits: Visits | None = None,
    ) -> Descent:
        """Walk a table of states.

        Args:
            table: The states; no other thread may use them meanwhile.
            begin: Where to begin.
            visits: Arrays that take all vertices and their states.
        """
        walk, arrays = self._walk, self._arrays
        arrays["bits"].fill(0)
        walk.begin, walk.begins = begin.vertices.ctypes.data, len(begin.vertices)
        walk.start, walk.is_below, walk.longest = begin.state, begin.is_below, begin.longest
        walk.begun = walk.pending = walk.found = walk.leaves = 0
        walk.visits = walk.states_reached = 0
        walk.visited = walk.visited_states = None
        if visits is not None:
            walk.visited, walk.visited_states = (array.ctypes.data for array in visits)
        table.expand([begin.state])
        try:
            while self._call(table):
                spend()
                table.expand(np.unique(arrays["states"][: walk.pending]).tolist())
        finally:
            reached = arrays["reached"][: walk.states_reached].tolist()
            arrays["is_reached"][reached] = 0
            self.visited = walk.visits
        spend(walk.found // TOKENS_PER_STEP)
        return Descent(self._tokens(), by_kind(*self._left(), self._trie.size), reached)

    def descend_stacks(
        self, automaton: StackAutomaton, vertices: Ids, target: int
    ) -> tuple[TokenSet, Ids] | None:
        """Walk an automaton of stacks below some vertices.

        Returns:
            The allowed tokens, and the vertices where the stack may be empty and a token below is
            undecided. ``None`` if the automaton has no room.
        """
        walk, fields = self._walk, automaton.fields
        start = self._kernel.enter(ctypes.byref(fields), target)
        if start < 0:
            return None
        self._arrays["bits"].fill(0)
        walk.begin, walk.begins, walk.start = vertices.ctypes.data, len(vertices), start
        walk.begun = walk.pending = walk.found = walk.leaves = 0
        references = ctypes.byref(self._trie_fields), ctypes.byref(fields), ctypes.byref(walk)
        ends: list[Ids] = []
        while status := self._kernel.descend_stacks(*references):
            if status < 0:
                spend(fields.steps // STEPS_OF_STACKS)
                return None
            if fields.missing >= 0:
                automaton.add_missing_row()
            else:
                ends.append(self._left()[0])
                walk.leaves = 0
        self.visited = fields.steps
        spend(fields.steps // STEPS_OF_STACKS + walk.found // TOKENS_PER_STEP)
        fields.steps = 0
        ends.append(self._left()[0])
        return self._tokens(), _distinct(concatenated(ends), self._trie.size)

    def descend_lexemes(
        self, automaton: LexemeAutomaton, parser: Node, groups: list[tuple[int, Ids]]
    ) -> TokenSet | None:
        """Walk the automaton of a grammar over lexemes, from the ends of a lexeme on.

        Args:
            automaton: The automaton.
            parser: The parser's state before the lexeme.
            groups: Sets of the terminals that match the lexeme, each with the vertices of the first
                byte after it.

        Returns:
            The tokens; ``None`` if the automaton has no room.
        """
        walk, kernel = self._walk, self._kernel
        fields, stacks = automaton.fields, automaton.parser
        state = kernel.enter(ctypes.byref(stacks.fields), stacks.target(parser))
        if state < 0:
            return None
        self._arrays["bits"].fill(0)
        walk.found = walk.pending = 0
        references = ctypes.byref(self._trie_fields), ctypes.byref(fields), ctypes.byref(walk)
        after = ctypes.c_int32()
        try:
            for complete, vertices in groups:
                kind = automaton.kind(complete)
                while status := kernel.parse(references[1], state, kind, ctypes.byref(after)):
                    if status < 0:
                        return None
                    automaton.answer(status)
                walk.begin, walk.begins = vertices.ctypes.data, len(vertices)
                walk.begun, walk.start = 0, after.value
                while status := kernel.descend_lexemes(*references):
                    if status < 0:
                        return None
                    automaton.answer(status)
        finally:
            self.visited = automaton.take_steps()
            spend(self.visited // STEPS_OF_STACKS + walk.found // TOKENS_PER_STEP)
        return self._tokens()

    def quote(self, source: Any, *quote: int | None) -> tuple[TokenSet, Ids]:
        """Call ``quote`` of ``walk.c``.

        Args:
            source: A reference to a ``spelled_source``.
            quote: The arguments from ``vertex`` on.

        Returns:
            The tokens, and the vertices where the quote and its terminator end, which may repeat.
        """
        self._arrays["bits"].fill(0)
        self._walk.found = 0
        leaves = self.quote_mask(source, None, *quote)
        return self._tokens(), self._arrays["leaving"][:leaves].copy()

    def leaving(self, count: int) -> list[int]:
        """Return the first vertices where the last walk left a lexeme."""
        found: list[int] = self._leaving[:count].tolist()
        return found

    def _call(self, table: StateTable) -> bool:
        capacity = len(table.kind)
        if len(self._arrays["reached"]) < capacity:
            for name in ("reached", "is_reached"):
                known = self._arrays[name]
                grown = np.zeros(capacity, known.dtype)
                grown[: len(known)] = known
                self._arrays[name] = grown
                setattr(self._walk, name, grown.ctypes.data)
        lexer = _LexerFields(*table.addresses)
        is_unfinished: int = self._kernel.descend(
            ctypes.byref(self._trie_fields), ctypes.byref(lexer), ctypes.byref(self._walk)
        )
        return is_unfinished != 0

    def _left(self) -> tuple[Ids, Ids]:
        leaves = self._walk.leaves
        return self._arrays["leaving"][:leaves].copy(), self._arrays["kinds"][:leaves].copy()

    def _tokens(self) -> TokenSet:
        found = self._walk.found
        if found <= FEW_TOKENS:
            return TokenSet(np.sort(self._arrays["few"][:found]), None)
        return TokenSet(None, self._arrays["bits"].copy())

    def visits(self, table: StateTable, begin: Begin) -> Visits:
        """Return all vertices that a walk visits, with their states."""
        room = int(self._trie.vertices_from[begin.vertices].sum())
        visits = np.empty(room, np.int32), np.empty(room, np.int32)
        self.descend(table, begin, visits)
        count = self._walk.visits
        return visits[0][:count].copy(), visits[1][:count].copy()


def joined(parts: list[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    if len(parts) == 1:
        return parts[0]
    first, second = (
        np.concatenate([np.zeros(0, np.int32), *column])
        for column in ([part[0] for part in parts], [part[1] for part in parts])
    )
    return first, second


def by_kind(vertices: Ids, kinds: Ids, size: int) -> list[tuple[int, Ids]]:
    """Return the distinct vertices of each kind, ascending.

    Args:
        vertices: The vertices.
        kinds: The kind of each.
        size: The number of vertices of the trie.
    """
    if len(vertices) <= FEW_VERTICES:
        few: dict[int, set[int]] = {}
        for vertex, kind in zip(vertices.tolist(), kinds.tolist(), strict=True):
            few.setdefault(kind, set()).add(vertex)
        return [(kind, np.array(sorted(each), np.int32)) for kind, each in few.items()]
    present = np.flatnonzero(np.bincount(kinds)).tolist()
    parts = [(kind, vertices[kinds == kind] if len(present) > 1 else vertices) for kind in present]
    return [(kind, _distinct(part, size)) for kind, part in parts]


def _distinct(vertices: Ids, size: int) -> Ids:
    """Return the distinct vertices, ascending."""
    if len(vertices) <= MANY_VERTICES:
        ordered = np.sort(vertices)
        is_first = np.ones(len(ordered), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        found: Ids = ordered[is_first]
        return found
    is_present = np.zeros(size, np.bool_)
    is_present[vertices] = True
    return np.flatnonzero(is_present).astype(np.int32)
