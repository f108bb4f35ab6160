"""A cheap proof that an intersection is empty: a member needs a symbol that another never has.

Without it, a search visits every state of the one member: all leap seconds of ``date-time``, say,
for a pattern that needs a ``T`` after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from state_machines.budgets import spend
from state_machines.grammar.lazy import Deferred
from state_machines.grammar.node import EMPTY, EPSILON, Node, Symbols
from state_machines.grammar.nodes import Branch, Concatenation, Repetition, SymbolNode, Union
from state_machines.grammar.symbols import is_whole_alphabet
from state_machines.grammar.word_lists import ListedText, ListedTexts, symbol_set

_LISTED_WORDS = 64
"""Words of a list up to which their symbols are collected."""

_MAX_PARTS = 256
"""Parts of a member up to which its symbols are collected."""

_MAX_FAILURES = 32
"""Failed attempts in a row after which a search attempts no more proofs."""

_MAX_DEPTH = 8
"""Nested unions and repetitions up to which needed symbols are collected."""


class SymbolProofs:
    """Proofs that the intersections of one search are empty."""

    def __init__(self) -> None:
        self._failures = 0
        self._needed: dict[Node, set[Symbols]] = {}
        self._occurring: dict[Node, set[Symbols] | None] = {}

    def refute(self, members: Sequence[Node]) -> bool:
        """Return whether one member lacks a symbol that all words of another have.

        ``False`` where the parts of the members do not show it.
        """
        if self._failures > _MAX_FAILURES:
            return False
        spend(4)
        needed = set[Symbols]().union(*map(self._needed_by, members))
        for found in map(self._occurring_in, members) if needed else ():
            if found is not None and any(all(not each & s for each in found) for s in needed):
                self._failures = 0
                return True
        self._failures += 1
        return False

    def _needed_by(self, member: Node) -> set[Symbols]:
        if member not in self._needed:
            self._needed[member] = _needed(member)
        return self._needed[member]

    def _occurring_in(self, member: Node) -> set[Symbols] | None:
        if member not in self._occurring:
            self._occurring[member] = _occurring(member)
        return self._occurring[member]


def _needed(node: Node, depth: int = 0) -> set[Symbols]:
    """Return sets of symbols; every word contains a symbol of each set."""
    found: set[Symbols] = set()
    if depth > _MAX_DEPTH:
        return found
    for _ in range(_MAX_PARTS):
        spend()
        head, rest = (node.head, node.tail) if isinstance(node, Concatenation) else (node, None)
        match head:
            case SymbolNode():
                found.add(head.symbols)
            case Union():
                found |= set.intersection(*(_needed(each, depth + 1) for each in head.members))
            case Repetition() if head.min_count:
                found |= _needed(head.body, depth + 1)
            case ListedText():
                found |= {symbol_set(head.text, at) for at in range(head.start, len(head.text))}
        if rest is None:
            break
        node = rest
    return found


def _occurring(start: Node) -> set[Symbols] | None:
    """Return sets whose union has all symbols of the words; ``None`` if they are not known."""
    found: set[Symbols] = set()
    pending, seen = [start], {start}
    while pending:
        if len(seen) > _MAX_PARTS:
            return None
        spend()
        node = pending.pop()
        parts: Iterable[Node] = ()
        match node:
            case SymbolNode():
                found.add(node.symbols)
            case Deferred() if node.symbols is not None:
                found.add(node.symbols)
            case Concatenation():
                parts = (node.head, node.tail)
            case Union():
                parts = node.members
            case Repetition():
                parts = (node.body,)
            case Branch():
                found.update(symbols for symbols, _ in node.transitions)
                parts = (target for _, target in node.transitions)
            case ListedText():
                found |= _needed(node)
                parts = (node.end,)
            case ListedTexts() if node.last - node.first <= _LISTED_WORDS:
                texts = node.words.texts[node.first : node.last]
                found |= {symbol_set(text, at) for text in texts for at in range(len(text))}
                parts = node.words.different_ends
            case _ if node is not EPSILON and node is not EMPTY:
                return None
        new = [part for part in parts if part not in seen]
        pending += new
        seen.update(new)
    return None if any(map(is_whole_alphabet, found)) else found
