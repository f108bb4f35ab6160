"""Whether an object's members can meet several demands together.

A demand is a :class:`~state_machines.json_schema.object_shape.NameRule`: there is a member whose
name and value match it. One member may meet several demands, but then its value must match all of
them; and where names are few, two demands can be after the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema.names import few_words
from state_machines.json_schema.object_shape import NameRule, word_in
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["can_all_be_met"]

_Ask = Callable[[Term], bool]


def can_all_be_met(
    demands: Sequence[NameRule],
    listed: Sequence[tuple[str, Term]],
    cells: Sequence[tuple[Node, Term]],
    table: TermTable,
    ask: _Ask,
) -> bool:
    """Whether members exist that meet all demands.

    ``listed`` are the names that may be taken, each with the term of its values, and ``cells``
    languages of further names; ``ask`` tells whether a term has a value.
    """
    contested = []
    for demand in demands:
        options = _options(demand, listed, cells, len(demands), table, ask)
        # With as many members to choose from as there are demands, one is always left.
        if options is not None:
            contested.append((demand, options))
    return _assign(contested, {}, table, ask)


def _options(
    demand: NameRule,
    listed: Sequence[tuple[str, Term]],
    cells: Sequence[tuple[Node, Term]],
    most: int,
    table: TermTable,
    ask: _Ask,
) -> dict[str, Term] | None:
    """Return the members that can meet a demand; ``None`` if they are ``most`` or more."""
    options: dict[str, Term] = {}
    for name, term in listed:
        if word_in(demand.names, name) and ask(table.all_of((term, demand.term))):
            options[name] = term
            if len(options) >= most:
                return None
    for names, term in cells:
        matching = intersection((names, demand.names))
        if not matching.is_empty and ask(table.all_of((term, demand.term))):
            words = few_words(matching, most - len(options))
            if words is None:
                return None
            options.update(dict.fromkeys(words, term))
    return options


def _assign(
    contested: Sequence[tuple[NameRule, dict[str, Term]]],
    taken: dict[str, Term],
    table: TermTable,
    ask: _Ask,
) -> bool:
    """Try every way of giving each demand a member; whose term shrinks with each it has to meet."""
    if not contested:
        return True
    demand, options = contested[0]
    for name, term in options.items():
        both = table.all_of((taken.get(name, term), demand.term))
        if ask(both) and _assign(contested[1:], taken | {name: both}, table, ask):
            return True
    return False
