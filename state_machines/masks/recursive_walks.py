"""Masks of recursive rules over bytes: a state is walked as a whole, by its automaton.

All states of a grammar share one table. States that are reached above few tokens only get no row.
"""

from __future__ import annotations

from collections.abc import Callable

from state_machines.caches import WeakKeyLruCache
from state_machines.grammar.node import Lifetime, Node
from state_machines.masks.descent import Descents, below
from state_machines.masks.state_table import StateTable
from state_machines.masks.token_sets import TokenSet

_TABLE_BYTES = 32 << 20
"""Bytes of tables of states; a table of more is made anew."""


class RecursiveWalks:
    """Walks the states of recursive grammars. Safe to use from several threads."""

    def __init__(self, descents: Descents, scalar: Callable[[Node, int], list[int]]) -> None:
        self._descents = descents
        self._scalar = scalar
        self._tables: WeakKeyLruCache[Lifetime, StateTable] = WeakKeyLruCache(_TABLE_BYTES)

    def tokens(self, state: Node) -> tuple[TokenSet, list[int]]:
        """Return the tokens that a state with a :attr:`~Node.rule_book` allows, in two parts."""
        assert state.rule_book is not None, "asked for with a rule book only"
        lifetime = state.rule_book.lifetime
        table = self._tables.get(lifetime)
        if table is None or table.weight > _TABLE_BYTES:
            table = StateTable()
        few: list[int] = []
        with table.lock:
            found = self._descents.descend(
                table,
                below(0, table.number(state)),
                lambda node, vertex: few.extend(self._scalar(node, vertex)),
            )
        self._tables.put(lifetime, table, table.weight)
        return found.tokens, few
