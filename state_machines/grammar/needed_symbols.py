"""A cheap proof that an intersection is empty: a member needs a symbol that another never has.

Without it, a search visits every state of the one member: all leap seconds of ``date-time``, say,
for a pattern that needs a ``T`` after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from state_machines.budgets import spend
from state_machines.grammar.lazy import Reference
from state_machines.grammar.node import EMPTY, EPSILON, Node, Symbols
from state_machines.grammar.nodes import Branch, Concatenation, Repetition, SymbolNode, Union
from state_machines.grammar.symbols import is_whole_alphabet
from state_machines.grammar.word_lists import Interval, Word, symbol_set

_LISTED_WORDS = 64
"""Words of a list up to which their symbols are collected."""


def lack_needed_symbol(members: Sequence[Node]) -> bool:
    """Return whether no word can be in all members, because one lacks a symbol that another needs.

    ``False`` where the parts of the members do not show it.
    """
    needed = set[Symbols]().union(*map(_needed, members))
    if not needed:
        return False
    for member in members:
        spend(4)
        found = _occurring(member)
        if found is not None and any(all(not each & s for each in found) for s in needed):
            return True
    return False


def _needed(node: Node) -> set[Symbols]:
    """Return sets of symbols, of each of which every word has a symbol."""
    match node:
        case SymbolNode():
            return {node.symbols}
        case Concatenation():
            return _needed(node.head) | _needed(node.tail)
        case Union():
            return set.intersection(*map(_needed, node.members))
        case Repetition() if node.min_count:
            return _needed(node.body)
        case Word():
            return {symbol_set(node.text, at) for at in range(node.start, len(node.text))}
    return set()


def _occurring(start: Node) -> set[Symbols] | None:
    """Return sets whose union has all symbols of the words; ``None`` if they are not known."""
    found: set[Symbols] = set()
    pending, seen = [start], {start}
    while pending:
        node = pending.pop()
        parts: Iterable[Node] = ()
        match node:
            case SymbolNode():
                found.add(node.symbols)
            case Reference() if node.symbols is not None:
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
            case Word():
                found |= _needed(node)
                parts = (node.end,)
            case Interval() if node.last - node.first <= _LISTED_WORDS:
                texts = node.words.texts[node.first : node.last]
                found |= {symbol_set(text, at) for text in texts for at in range(len(text))}
                parts = node.words.different_ends
            case _ if node is not EPSILON and node is not EMPTY:
                return None
        new = [part for part in parts if part not in seen]
        pending += new
        seen.update(new)
    return None if any(map(is_whole_alphabet, found)) else found
