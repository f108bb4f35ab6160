"""Automata of grammars over lexemes: a lexer, and a parser that reads its terminals.

A state is a state of the lexer and one of the parser, which is a set of stacks. The kernel walks
over the ends of lexemes (``descend_lexemes`` in ``walk.c``). It calls back
for rows of either part, for the lexer's state in front of a set of terminals, and for liveness.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Hashable

import numpy as np

from state_machines.grammar.lexer import LexerState, terminals_in
from state_machines.grammar.lexicon import Lexicon
from state_machines.grammar.lexing import is_live_at
from state_machines.masks.stack_automaton import StackAutomaton, lazy_zeros
from state_machines.masks.state_table import StateTable

_MAX_SETS = 1 << 12
_MAX_PAIRS = 1 << 18

_ASK_ROW, _ASK_SYMBOL, _ASK_START, _ASK_SAFETY, _ASK_LIVE = range(1, 6)
_SAFE = 1
_IS_LIVE, _IS_DEAD = 1, 2
_IGNORED = -1
_WORD_BITS = 64

_PAIR_BYTES = 20
"""Approximate bytes of a pair with its slots."""

_POINTERS = (
    *("parser", "target", "kind", "loops", "first_terminal", "terminals", "sets"),
    *("set_slots", "set_of", "starts", "safety", "pairs", "pair_slots"),
)
_NUMBERS = (
    *("set_words", "set_count", "max_sets", "pair_count", "max_pairs"),
    *("resume", "missing", "above", "answer"),
)


class _LexemeFields(ctypes.Structure):
    """``lexeme_automaton`` of ``walk.c``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int32) for name in _NUMBERS),
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
