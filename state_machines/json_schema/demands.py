"""Whether members that an object can still be given meet all clauses together.

One member may answer several clauses, but then its value must be in all of their terms; where
names are few, two clauses can be after the same one; and what must be absent cannot be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from state_machines.effort import spend
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.json_schema.conditions import Absent, Clause, Condition, Matching, Present
from state_machines.json_schema.names import count_words, few_words
from state_machines.json_schema.object_shape import word_in
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["Offer", "can_all_be_met"]


@dataclass(frozen=True, slots=True)
class Offer:
    """The members that an object can still be given: ``least`` to ``most`` of them.

    ``listed`` are names, each with the term of its values; ``missing`` are those of them that must
    be given. ``cells`` are languages of further names.
    """

    listed: Mapping[str, Term]
    missing: Sequence[str]
    cells: Sequence[tuple[Node, Term]]
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Members:
    """Members chosen so far: by name, by language of names (each another one), and not at all."""

    present: Mapping[str, Term]
    unnamed: tuple[tuple[Node, Term], ...] = ()
    absent: frozenset[str] = frozenset()


def can_all_be_met(
    clauses: Sequence[Clause], offer: Offer, table: TermTable, ask: Callable[[Term], bool]
) -> bool:
    """Whether members exist that meet all clauses; ``ask`` tells whether a term has a value.

    A search; it spends steps.
    """
    present = {name: offer.listed[name] for name in offer.missing}
    search = _Search(offer, len(clauses) + 1, table, ask)
    return search.meets(sorted(clauses, key=len), _Members(present))


class _Search:
    """``few`` is a number of words that always leaves one to take."""

    def __init__(
        self, offer: Offer, few: int, table: TermTable, ask: Callable[[Term], bool]
    ) -> None:
        self._offer = offer
        self._few = few
        self._table = table
        self._ask = ask

    def meets(self, clauses: Sequence[Clause], members: _Members) -> bool:
        """Whether members can be added that meet the clauses."""
        spend()
        chosen = len(members.present) + len(members.unnamed)
        if self._offer.most is not None and chosen > self._offer.most:
            return False
        if not clauses:
            return self._are_enough(members)
        return any(
            self.meets(clauses[1:], more)
            for condition in clauses[0]
            for more in self._ways(condition, members)
        )

    def _are_enough(self, members: _Members) -> bool:
        needed = self._offer.least
        available = len(members.present) + len(members.unnamed)
        if available >= needed:
            return True
        available = sum(
            name not in members.absent and (name in members.present or self._ask(term))
            for name, term in self._offer.listed.items()
        )
        for names, term in self._offer.cells:
            if available < needed and self._ask(term):
                available += count_words(names, needed - available)
        return available >= needed

    def _ways(self, condition: Condition, members: _Members) -> Iterator[_Members]:
        match condition:
            case Absent(name):
                if name in self._offer.listed and name not in members.present:
                    yield _Members(members.present, members.unnamed, members.absent | {name})
            case Present(name, term):
                if name in self._offer.listed:
                    yield from self._named(name, self._offer.listed[name], term, members)
            case Matching():
                yield from self._matching(condition, members)

    def _named(self, name: str, known: Term, term: Term, members: _Members) -> Iterator[_Members]:
        """Yield the members with one of a name, whose value is in a term."""
        if name in members.absent:
            return
        both = self._table.all_of((members.present.get(name, known), term))
        if self._ask(both):
            yield _Members({**members.present, name: both}, members.unnamed, members.absent)

    def _matching(self, condition: Matching, members: _Members) -> Iterator[_Members]:
        for index, (names, term) in enumerate(members.unnamed):
            others = members.unnamed[:index] + members.unnamed[index + 1 :]
            without = _Members(members.present, others, members.absent)
            yield from self._out_of(names, term, condition, without)
        for name, term in self._offer.listed.items():
            if word_in(condition.names, name):
                yield from self._named(name, term, condition.term, members)
        for names, term in self._offer.cells:
            yield from self._out_of(names, term, condition, members)

    def _out_of(
        self, names: Node, term: Term, condition: Matching, members: _Members
    ) -> Iterator[_Members]:
        """Yield the members with one whose name is out of a language."""
        matching = intersection((names, condition.names))
        if matching.is_empty:
            return
        words = few_words(matching, self._few)
        if words is not None:
            for word in words:
                yield from self._named(word, term, condition.term, members)
            return
        both = self._table.all_of((term, condition.term))
        if self._ask(both):
            unnamed = (*members.unnamed, (matching, both))
            yield _Members(members.present, unnamed, members.absent)
