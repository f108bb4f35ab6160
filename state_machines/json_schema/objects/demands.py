"""Whether members that an object can still be given meet all clauses together.

One member may answer several clauses, but then its value must be in all of their terms; where
names are few, two clauses can be after the same one; and what must be absent cannot be present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from state_machines.budgets import spend
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.grammar.words import contains_word, count_words, list_words
from state_machines.json_schema.objects.conditions import (
    Absent,
    Clause,
    Condition,
    Matching,
    Present,
)
from state_machines.json_schema.objects.names import NameCell
from state_machines.json_schema.terms import TRUE, Term, TermTable

MANY_UNMET = 8
"""Clauses that are compared by the ways to meet them."""

__all__ = [
    "Members",
    "Offer",
    "can_all_be_met",
    "members_that_meet",
    "numbers",
    "wanting_absent",
]


@dataclass(frozen=True, slots=True)
class Offer:
    """The members that an object can still be given: ``least`` to ``most`` of them.

    ``listed`` are names, each with the term of its values; ``missing`` are those of them that must
    be given. ``cells`` are languages of further names. ``offered`` is how many of the listed names
    have a value, if that is known.
    """

    listed: Mapping[str, Term]
    missing: Sequence[str]
    cells: Sequence[NameCell]
    least: int
    most: int | None
    offered: int | None = None


@dataclass(frozen=True, slots=True)
class Members:
    """Members chosen so far: by name, by language of names (each another one), and not at all."""

    present: Mapping[str, Term]
    unnamed: tuple[tuple[Node, Term], ...] = ()
    absent: frozenset[str] = frozenset()


def can_all_be_met(
    clauses: Sequence[Clause], offer: Offer, table: TermTable, ask: Callable[[Term], bool]
) -> bool:
    """Whether members exist that meet all clauses; ``ask`` tells whether a term has a value."""
    return members_that_meet(clauses, offer, table, ask) is not None


def members_that_meet(
    clauses: Sequence[Clause],
    offer: Offer,
    table: TermTable,
    ask: Callable[[Term], bool],
    *,
    met: int = 0,
    near: tuple[Members, int] | None = None,
    lacking: Mapping[str, int] | None = None,
) -> Members | None:
    """Return members that meet all clauses, if there are such. A search; it spends steps.

    ``met`` are the clauses, as bits, that are met already. ``near`` are members that meet all
    others but some, given as bits: the search begins with them. ``lacking`` is what
    :func:`wanting_absent` returns for the clauses, if that is known.
    """
    search = _Search(clauses, offer, table, ask, lacking)
    if near is not None:
        members, doubtful = near
        found = search.grow(members, met, list(numbers(doubtful & ~met)))
        if found is not None and search.are_enough(found):
            return found
    start = Members({name: offer.listed[name] for name in offer.missing})
    spend(1 + len(clauses) // 8)
    fewest = search.grow(start, met, [k for k in range(len(clauses)) if not met >> k & 1])
    if fewest is None or search.are_enough(fewest):
        return fewest
    # Members that no clause asks for have to be added, so it matters which are absent.
    return search.meet([c for k, c in enumerate(clauses) if not met >> k & 1], start)


def wanting_absent(clauses: Sequence[Clause]) -> dict[str, int]:
    """Return by name, as bits, the clauses that are met if it is absent."""
    found: dict[str, int] = {}
    for index, clause in enumerate(clauses):
        spend(1 + len(clause) // 8)
        for condition in clause:
            if isinstance(condition, Absent):
                found[condition.name] = found.get(condition.name, 0) | 1 << index
    return found


def numbers(bits: int) -> Iterator[int]:
    """Yield the numbers that a set holds as bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


class _Search:
    """``_few`` is a number of words that always leaves one to take."""

    def __init__(
        self,
        clauses: Sequence[Clause],
        offer: Offer,
        table: TermTable,
        ask: Callable[[Term], bool],
        lacking: Mapping[str, int] | None,
    ) -> None:
        self._clauses = clauses
        self._lacking = lacking
        self._offer = offer
        self._few = len(clauses) + 1
        self._table = table
        self._ask = ask

    def grow(self, start: Members, met: int, doubtful: Sequence[int]) -> Members | None:
        """Return a least set of members that meets all clauses, if there is one.

        Clauses are given by number: those ``met`` need no member, those ``doubtful`` may not be
        met. Other members are absent. Where all that a clause wants absent is present, a member has
        to be added or its value narrowed, so only what clauses ask for is ever added. The search is
        depth first, over the clauses that are not met; it spends steps.
        """
        clauses, first_met = self._clauses, met
        # Members, satisfied clauses, and clauses that may be unsatisfied.
        stack: list[tuple[Members, int, Sequence[int]]] = [(start, met, doubtful)]
        while stack:
            members, met, doubtful = stack.pop()
            spend(1 + (len(doubtful) + len(members.present)) // 16)
            if not self._are_few_enough(members):
                continue
            unmet = [
                index
                for index in doubtful
                if not met >> index & 1 and not self._holds(clauses[index], members)
            ]
            if not unmet:
                return self._with_absent(first_met, members)
            index, ways = self._fewest_ways(unmet, members)
            if self._lacking is None:
                self._lacking = wanting_absent(clauses)
            for more in reversed(ways):
                added = [name for name in more.present if name not in members.present]
                broken = [k for name in added for k in numbers(self._lacking.get(name, 0))]
                stack.append((more, met | 1 << index, [*unmet, *broken]))
        return None

    def _fewest_ways(self, unmet: Sequence[int], members: Members) -> tuple[int, list[Members]]:
        """Return one of the unmet clauses that can be met in few ways, and these."""
        fewest: tuple[int, list[Members]] | None = None
        for index in unmet[:MANY_UNMET]:
            ways = [
                more
                for condition in self._clauses[index]
                if not isinstance(condition, Absent)
                for more in self._ways(condition, members)
            ]
            spend(1 + len(ways))
            if fewest is None or len(ways) < len(fewest[1]):
                fewest = index, ways
            if len(ways) < 2:
                break
        assert fewest is not None, "some clause is unmet"
        return fewest

    def _holds(self, clause: Clause, members: Members) -> bool:
        """Whether a clause is plainly met, if all other members are absent."""
        present, listed = members.present, self._offer.listed
        for condition in clause:
            match condition:
                case Absent(name):
                    if name in listed and name not in present:
                        return True
                case Present(name, term):
                    if name in present and self._is_within(present[name], term):
                        return True
                case Matching(names, term):
                    if any(
                        contains_word(names, name) and self._is_within(known, term)
                        for name, known in present.items()
                    ):
                        return True
        return False

    def _is_within(self, known: Term, term: Term) -> bool:
        return term is TRUE or self._table.all_of((known, term)) is known

    def _with_absent(self, met: int, members: Members) -> Members:
        """Return the members with those named that must stay absent."""
        present, listed = members.present, self._offer.listed
        if self._offer.least <= len(present) + len(members.unnamed):
            return members
        spend(len(self._clauses) // 8)
        absent: set[str] = set()
        for index, clause in enumerate(self._clauses):
            if met >> index & 1:
                continue
            free = [
                condition.name
                for condition in clause
                if isinstance(condition, Absent)
                and condition.name in listed
                and condition.name not in present
            ]
            if free and absent.isdisjoint(free) and not self._is_met_present(clause, members):
                absent.add(free[0])
        return Members(present, members.unnamed, frozenset(absent))

    def _is_met_present(self, clause: Clause, members: Members) -> bool:
        rest = tuple(c for c in clause if not isinstance(c, Absent))
        return bool(rest) and self._holds(rest, members)

    def _are_few_enough(self, members: Members) -> bool:
        chosen = len(members.present) + len(members.unnamed)
        return self._offer.most is None or chosen <= self._offer.most

    def meet(self, clauses: Sequence[Clause], members: Members) -> Members | None:
        """Return the members with others that meet the clauses.

        The clause with the fewest ways out comes first, so that what cannot be is soon seen.
        """
        spend()
        if not self._are_few_enough(members):
            return None
        fewest: list[Members] | None = None
        waiting: list[Clause] = []
        for clause in clauses:
            ways = self._ways_out(clause, members)
            if not ways:
                return None
            if ways[-1] is members:
                continue
            if fewest is None or len(ways) < len(fewest):
                fewest = ways
                waiting.insert(0, clause)
            else:
                waiting.append(clause)
        if fewest is None:
            return members if self.are_enough(members) else None
        for more in fewest:
            found = self.meet(waiting[1:], more)
            if found is not None:
                return found
        return None

    def are_enough(self, members: Members) -> bool:
        """Whether members that are not absent can be added until there are enough."""
        needed = self._offer.least
        available = len(members.present) + len(members.unnamed)
        if available >= needed:
            return True
        if self._offer.offered is not None and not members.absent:
            available = self._offer.offered
        else:
            spend(len(self._offer.listed) // 8)
            available = sum(
                name not in members.absent and (name in members.present or self._ask(term))
                for name, term in self._offer.listed.items()
            )
        for cell in self._offer.cells:
            if available < needed and self._ask(cell.term):
                available += count_words(cell.names, needed - available)
        return available >= needed

    def _ways_out(self, clause: Clause, members: Members) -> list[Members]:
        """Return the members with others that meet a clause; last themselves if they meet it."""
        ways = []
        for condition in clause:
            for more in self._ways(condition, members):
                ways.append(more)
                if more is members:
                    return ways
        return ways

    def _ways(self, condition: Condition, members: Members) -> Iterator[Members]:
        match condition:
            case Absent(name):
                if name in members.absent:
                    yield members
                elif name in self._offer.listed and name not in members.present:
                    yield Members(members.present, members.unnamed, members.absent | {name})
            case Present(name, term):
                if name in self._offer.listed:
                    yield from self._named(name, self._offer.listed[name], term, members)
            case Matching():
                yield from self._matching(condition, members)

    def _named(self, name: str, known: Term, term: Term, members: Members) -> Iterator[Members]:
        """Yield the members with one of a name, whose value is in a term."""
        if name in members.absent:
            return
        taken = members.present.get(name)
        both = self._table.all_of((known if taken is None else taken, term))
        if both is taken:
            yield members
        elif self._ask(both):
            yield Members({**members.present, name: both}, members.unnamed, members.absent)

    def _matching(self, condition: Matching, members: Members) -> Iterator[Members]:
        for index, (names, term) in enumerate(members.unnamed):
            others = members.unnamed[:index] + members.unnamed[index + 1 :]
            without = Members(members.present, others, members.absent)
            yield from self._out_of(names, term, condition, without)
        for name, term in self._offer.listed.items():
            if contains_word(condition.names, name):
                yield from self._named(name, term, condition.term, members)
        for cell in self._offer.cells:
            yield from self._out_of(cell.names, cell.term, condition, members)

    def _out_of(
        self, names: Node, term: Term, condition: Matching, members: Members
    ) -> Iterator[Members]:
        """Yield the members with one whose name is out of a language."""
        matching = intersection((names, condition.names))
        if matching.is_empty:
            return
        words = list_words(matching, self._few)
        if words is not None:
            for word in words:
                yield from self._named(word, term, condition.term, members)
            return
        both = self._table.all_of((term, condition.term))
        if self._ask(both):
            unnamed = (*members.unnamed, (matching, both))
            yield Members(members.present, unnamed, members.absent)
