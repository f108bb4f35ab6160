"""Automata whose states are sets of stacks, which the kernel makes as it walks.

A state of a recursive grammar is a union of concatenations, and the derivative of a concatenation
replaces its head. So the heads are the symbols of a stack, and the rest of a concatenation is below
its head. A grammar has few heads, however deep its stacks are. Python computes one row for each.

:class:`StackAutomaton` reads the bytes of recursive rules, or the terminals of a parser.
:class:`LexemeAutomaton` is a lexer, and a parser that reads its terminals: a state is a state of
the lexer and one of the parser. The kernel walks over the ends of lexemes (``descend_lexemes`` in
``walk.c``). It calls back for rows of either part, for the lexer's state in front of a set of
terminals, and for liveness.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from array import array
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from state_machines.budgets import spend
from state_machines.grammar.lexer import LexerState, terminals_in
from state_machines.grammar.lexicon import Lexicon
from state_machines.grammar.lexing import is_live_at
from state_machines.grammar.node import EPSILON, Node
from state_machines.grammar.nodes import Concatenation, Union, concatenation, union
from state_machines.grammar.symbols import byte_ranges
from state_machines.masks.state_table import StateTable, looped_classes

_MAX_STATES = 1 << 14
_MAX_STACKS = 1 << 17
_MAX_ITEMS = 1 << 18
_MAX_STACKS_OF_A_STATE = 1_024

_MAY_BE_EMPTY, _ROW_IS_KNOWN, _IS_CLOSED, _IS_UNION = 1, 2, 4, 8
_DEAD_STATE = 1
_ROW_BYTES = 1_024
_STACK_BYTES = 20
_SYMBOL_BYTES = 2_000
"""Approximate bytes of a symbol beside its row."""

_POINTERS = (
    *("row", "flags", "loops", "first_word", "words", "symbol", "parent", "stack_slots"),
    *("first_item", "items", "state_slots", "target", "skips", "is_ready", "gathered", "marks"),
)
_NUMBERS = (
    *("stacks", "max_stacks", "states", "max_states", "max_items", "max_gathered"),
    *("mark", "missing", "steps", "width"),
)


class _StackFields(ctypes.Structure):
    """``stack_automaton`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int32) for name in _NUMBERS),
    )


def lazy_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """Return zeros whose memory is taken page by page, when it is written to.

    NumPy asks for huge pages for large arrays, and ``calloc`` clears memory that is used again.
    Both take longer than most first masks.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, size, access=mmap.ACCESS_COPY)
    return np.frombuffer(memory, dtype).reshape(shape)


class StackAutomaton:
    """The automaton of one grammar's states, with room for a bounded number of them.

    It is used by one thread at a time.

    Args:
        width: The number of symbols of the alphabet.

    Attributes:
        fields: The arrays and numbers that the kernel reads and writes.
        rows: The number of rows that were computed.
    """

    def __init__(self, width: int = 256) -> None:
        self.rows = 0
        self._width = width
        self._symbols: dict[Node, int] = {}
        self._nodes: list[Node] = []
        self._targets: dict[Node, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        # Target 0 is dead.
        self._words = array("i", (0,))
        self._first_words = array("i", (0, 1))
        self._row = np.zeros((0, width), np.int32)
        self._flags = np.zeros(0, np.uint8)
        self._loops = np.zeros(0, np.uint64)
        self._arrays = {
            "symbol": lazy_zeros((_MAX_STACKS,)),
            "parent": lazy_zeros((_MAX_STACKS,)),
            "stack_slots": lazy_zeros((2 * _MAX_STACKS,)),
            "first_item": lazy_zeros((_MAX_STATES + 1,)),
            "items": lazy_zeros((_MAX_ITEMS,)),
            "state_slots": lazy_zeros((2 * _MAX_STATES,)),
            "target": lazy_zeros((_MAX_STATES, 256)),
            "skips": lazy_zeros((_MAX_STATES,), np.uint64),
            "is_ready": lazy_zeros((_MAX_STATES,), np.uint8),
            "gathered": lazy_zeros((_MAX_STACKS_OF_A_STATE,)),
            "marks": lazy_zeros((_MAX_STACKS,)),
        }
        self.fields = _StackFields(
            stacks=1,
            max_stacks=_MAX_STACKS,
            states=_DEAD_STATE + 1,
            max_states=_MAX_STATES,
            max_items=_MAX_ITEMS,
            max_gathered=_MAX_STACKS_OF_A_STATE,
            width=width,
        )
        self._resize(64)
        for name, found in self._arrays.items():
            setattr(self.fields, name, found.ctypes.data)

    def _resize(self, capacity: int) -> None:
        """Make room for symbols."""
        self._row.resize((capacity, self._width), refcheck=False)
        self._flags.resize(capacity, refcheck=False)
        self._loops.resize(capacity, refcheck=False)
        self.fields.row, self.fields.flags = self._row.ctypes.data, self._flags.ctypes.data
        self.fields.loops = self._loops.ctypes.data

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        states, stacks = int(self.fields.states), int(self.fields.stacks)
        symbols = (_ROW_BYTES + _SYMBOL_BYTES) * len(self._nodes)
        return _ROW_BYTES * states + _STACK_BYTES * stacks + symbols

    def target(self, node: Node) -> int:
        """Return the number of the stacks that a language begins with."""
        number = self._targets.get(node)
        if number is None:
            number = self._add_target([symbols_of(each) for each in alternatives(node)])
            self._targets[node] = number
        return number

    def stack_target(self, heads: list[Node]) -> int:
        """Return the number of a target that is one stack."""
        key = tuple(map(self._symbol, heads))
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = self._add_target([heads])
        return number

    def _add_target(self, stacks: list[list[Node]]) -> int:
        # A new symbol may add targets itself, so the numbers are found first.
        numbers = [[self._symbol(head) for head in reversed(heads)] for heads in stacks]
        self._words.append(len(stacks))
        for symbols in numbers:
            self._words.append(len(symbols))
            self._words.extend(symbols)
        self._first_words.append(len(self._words))
        # Appending may have moved the arrays.
        self.fields.words = self._words.buffer_info()[0]
        self.fields.first_word = self._first_words.buffer_info()[0]
        return len(self._first_words) - 2

    def _symbol(self, node: Node) -> int:
        number = self._symbols.get(node)
        if number is None:
            number = len(self._nodes)
            if number == len(self._flags):
                self._resize(2 * number)
            self._symbols[node] = number
            self._nodes.append(node)
            self._flags[number] = _MAY_BE_EMPTY * node.nullable | _IS_CLOSED * node.is_closed
            if isinstance(node, Union):
                # Its members replace it, since merging their rows takes Python much longer.
                self._flags[number] |= _IS_UNION
                members = self.target(node)
                self._row[number, 0] = members
        return number

    def language(self, state: int) -> Node:
        """Return the language of a state of the kernel."""
        first, end = self._arrays["first_item"][state : state + 2].tolist()
        symbol, parent = self._arrays["symbol"], self._arrays["parent"]
        found = []
        for stack in self._arrays["items"][first:end].tolist():
            parts = []
            while stack:
                parts.append(self._nodes[symbol[stack]])
                stack = int(parent[stack])
            found.append(concatenation(*parts))
        return union(found)

    def add_missing_row(self) -> None:
        """Compute the row of the symbol that the kernel misses."""
        number = int(self.fields.missing)
        node = self._nodes[number]
        transitions = node.transitions
        spend(1 + len(transitions))
        self.rows += 1
        found = [(symbols, target, self.target(target)) for symbols, target in transitions]
        # Numbers are known, so the array does not move any more.
        row = self._row[number]
        for symbols, target, target_number in found:
            for first, last in byte_ranges(symbols):
                row[first : last + 1] = target_number
            if target is node and self._width == 256:
                self._loops[number] = looped_classes(node, symbols)
        self._flags[number] |= _ROW_IS_KNOWN


def alternatives(node: Node) -> tuple[Node, ...]:
    """Return the members of a union; otherwise the node itself."""
    return node.members if isinstance(node, Union) else (node,)


def symbols_of(node: Node) -> list[Node]:
    """Return the heads of a concatenation."""
    found = []
    while isinstance(node, Concatenation):
        found.append(node.head)
        node = node.tail
    return found if node is EPSILON else [*found, node]


def segments(node: Node) -> Iterator[tuple[list[Node], Node]]:
    """Yield the alternatives of a state, each up to a head that is required, and with the rest.

    Up to that head, tokens do not depend on the rest.
    """
    for each in alternatives(node):
        heads: list[Node] = []
        rest = each
        while isinstance(rest, Concatenation):
            heads.append(rest.head)
            rest = rest.tail
            if not heads[-1].nullable:
                break
        else:
            heads.append(rest)
            rest = EPSILON
        yield heads, rest


_MAX_SETS = 1 << 12
_MAX_PAIRS = 1 << 18

_ASK_ROW, _ASK_SYMBOL, _ASK_START, _ASK_SAFETY, _ASK_LIVE = range(1, 6)
_SAFE = 1
_IS_LIVE, _IS_DEAD = 1, 2
_IGNORED = -1
_WORD_BITS = 64

_PAIR_BYTES = 20
"""Approximate bytes of a pair with its slots."""

_LEXEME_POINTERS = (
    *("parser", "target", "kind", "loops", "first_terminal", "terminals", "sets"),
    *("set_slots", "set_of", "starts", "safety", "pairs", "pair_slots"),
)
_LEXEME_NUMBERS = (
    *("set_words", "set_count", "max_sets", "pair_count", "max_pairs"),
    *("resume", "missing", "above", "answer"),
)


class _LexemeFields(ctypes.Structure):
    """``lexeme_automaton`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _LEXEME_POINTERS),
        *((name, ctypes.c_int32) for name in _LEXEME_NUMBERS),
    )


class LexemeAutomaton:
    """The automaton of a grammar without nested terminals, with room for some states.

    It is used by one thread at a time.

    Attributes:
        parser: The automaton of the parser.
        fields: The arrays and numbers that the kernel reads and writes.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._table = StateTable()
        self.parser = StackAutomaton(max(1, len(lexicon.terminals)))
        # Terminals that match a lexeme, by kind of state of the lexer; kind 0 has none.
        self._terminals = array("i")
        self._first_terminals = array("i", (0, 0))
        words = len(lexicon.terminals) // _WORD_BITS + 1
        self._safety = np.zeros(0, np.int32)
        self._ends: dict[Hashable, int] = {}
        self._arrays = {
            "sets": lazy_zeros((_MAX_SETS + 1, words), np.uint64),
            "set_slots": lazy_zeros((2 * _MAX_SETS,)),
            "set_of": lazy_zeros((self.parser.fields.max_states,)),
            "starts": lazy_zeros((_MAX_SETS,)),
            "pairs": lazy_zeros((_MAX_PAIRS, 3)),
            "pair_slots": lazy_zeros((2 * _MAX_PAIRS,)),
        }
        self.fields = _LexemeFields(set_words=words, max_sets=_MAX_SETS, max_pairs=_MAX_PAIRS)
        self.fields.parser = ctypes.addressof(self.parser.fields)
        for name, found in self._arrays.items():
            setattr(self.fields, name, found.ctypes.data)
        self._update_lexer()

    @property
    def rows(self) -> int:
        """The number of rows that were computed."""
        return self._table.rows + self.parser.rows

    @property
    def weight(self) -> int:
        """The approximate size in bytes."""
        return self._table.weight + self.parser.weight + _PAIR_BYTES * int(self.fields.pair_count)

    def take_steps(self) -> int:
        """Return the transitions of stacks since the last call."""
        steps, self.parser.fields.steps = int(self.parser.fields.steps), 0
        self.fields.resume = self.fields.answer = 0
        return steps

    def kind(self, complete: int) -> int:
        """Return the kind of the states of the lexer that match some terminals, given as a set."""
        kind = self._table.kind_of(complete)
        self._update_lexer()
        return kind

    def answer(self, status: int) -> None:
        """Compute the row, state or answer that the kernel has stopped for.

        Args:
            status: The kind of request, ``_ASK_ROW`` to ``_ASK_LIVE``.
        """
        missing = int(self.fields.missing)
        if status == _ASK_ROW:
            self._table.expand((missing,))
            self._update_lexer()
        elif status == _ASK_SYMBOL:
            self.parser.add_missing_row()
        elif status == _ASK_START:
            allowed = int.from_bytes(self._arrays["sets"][missing].tobytes(), "little")
            start = self._lexicon.start(allowed | self._lexicon.ignored if allowed else 0)
            number = self._table.number(start)
            self._arrays["starts"][missing] = number + 1
            self._table.expand((number,))
            self._update_lexer()
        else:
            lexer = self._table.nodes[missing]
            assert isinstance(lexer, LexerState)
            if status == _ASK_SAFETY:
                self._safety[missing] = self._safety_of(lexer)
            else:
                assert status == _ASK_LIVE
                parser = self.parser.language(int(self.fields.above))
                is_live = is_live_at(self._lexicon, parser, lexer)
                self.fields.answer = _IS_LIVE if is_live else _IS_DEAD

    def _safety_of(self, lexer: LexerState) -> int:
        if self._lexicon.safe_ends.is_safe(lexer):
            return _SAFE
        near = lexer.near_ends
        ends = near if lexer.has_all_ends else lexer
        return self._ends.setdefault(ends, _SAFE + 1 + len(self._ends))

    def _update_lexer(self) -> None:
        """Announce states of the lexer that were added to the table."""
        fields, table = self.fields, self._table
        fields.target, fields.kind, fields.loops = table.addresses
        if len(self._safety) != len(table.kind):
            self._safety.resize(len(table.kind), refcheck=False)
            fields.safety = self._safety.ctypes.data
        for complete in table.completes[len(self._first_terminals) - 1 :]:
            ignored = complete & self._lexicon.ignored
            # An ignored terminal may be one of the grammar's as well.
            self._terminals.extend(terminals_in(complete))
            if ignored:
                self._terminals.append(_IGNORED)
            self._first_terminals.append(len(self._terminals))
        fields.terminals = self._terminals.buffer_info()[0]
        fields.first_terminal = self._first_terminals.buffer_info()[0]
