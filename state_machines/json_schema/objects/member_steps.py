"""The members of an object shape as steps of a small automaton."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from state_machines.budgets import spend
from state_machines.grammar.boolean import complement, difference, intersection
from state_machines.grammar.node import Node
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.words import (
    contains_word,
    count_words,
    list_words,
    shortest_text,
    without_words,
    word_language,
)
from state_machines.json_schema.objects.claims import Claims, MemberClaims
from state_machines.json_schema.objects.conditions import Absent, Matching, Present
from state_machines.json_schema.objects.demands import Members, Offer, members_that_meet, numbers
from state_machines.json_schema.objects.names import NameCell, listed_names, name_cells
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable
from state_machines.limits import LIMITS

__all__ = ["MemberState", "MemberSteps", "numbers"]


MANY_NAMES = 64
"""Names of a kind, from which on taking one leaves enough."""


NOT_ASKED = Members({})
"""Stands for an end that was not looked for."""


class MemberState(NamedTuple):
    """What the members written so far leave open.

    ``allowed`` and ``missing`` are sets of listed names as bits: those that may still come, and
    the required ones that must. ``unlisted`` are the other names already taken. ``met`` holds,
    as bits, which clauses are met. ``counted`` members are counted as far as bounds need it.
    """

    allowed: int
    missing: int
    unlisted: frozenset[str] = frozenset()
    met: int = 0
    counted: int = 0
    is_first: bool = True


class MemberSteps:
    """How an object of a shape goes on: which members may come next, and when it may end.

    ``names`` are the listed ones, ``terms`` those of their values.
    """

    def __init__(
        self,
        shape: ObjectShape,
        *,
        table: TermTable,
        any_order: bool,
        is_empty: Callable[[Term], bool],
        is_empty_or_unenforceable: Callable[[Term], bool],
    ) -> None:
        self.shape = shape
        self.any_order = any_order
        self._table = table
        self._is_empty_or_unenforceable = is_empty_or_unenforceable
        self.names = listed_names(shape)
        self.terms = [shape.value_of(name, table) for name in self.names]
        self.cells = [cell for cell in name_cells(shape, table) if not is_empty(cell.term)]
        self._index = {name: index for index, name in enumerate(self.names)}
        self._claims = Claims(
            shape,
            dict(zip(self.names, self.terms, strict=True)),
            table,
            is_empty,
            is_empty_or_unenforceable,
        )
        if self._claims.clauses:
            self._listed_claims = list(map(self._claims.of, self.names, self.terms))
            self._lacks = [self._claims.without(name) for name in self.names]
        else:
            self._listed_claims = [MemberClaims(0, ())] * len(self.names)
            self._lacks = [0] * len(self.names)
        self._counts_to = max(shape.least, shape.most or 0)
        self.is_bounded = bool(self._counts_to or self._claims.all)
        """Whether the end depends on more than the required names: clauses, or a count."""
        self._ends: dict[MemberState, Members | None] = {}
        self._with_values: int | None = None
        self._unlisted_claims: dict[tuple[object, ...], MemberClaims] = {}
        self._mattering: dict[str, bool] = {}
        self._scarce: dict[tuple[int, tuple[bool, ...]], bool] = {}
        present = [not is_empty(term) for term in self.terms]
        required = frozenset(shape.required)
        self.start = MemberState(
            allowed=sum(1 << index for index, there in enumerate(present) if there),
            missing=sum(1 << i for i, name in enumerate(self.names) if name in required),
        )

    @cached_property
    def _sorted_names(self) -> list[str]:
        return sorted(self.names)

    @property
    def has_clauses(self) -> bool:
        """Whether there is something that members may answer or not."""
        return bool(self._claims.clauses)

    def may_end(self, state: MemberState) -> bool:
        """Whether the object may be closed."""
        return (
            not state.missing
            and state.counted >= self.shape.least
            and self._passed(state, state.allowed) == self._claims.all
        )

    def _passed(self, state: MemberState, names: int) -> int:
        """Return the clauses that are met once some listed names, as bits, do not come."""
        met = state.met
        if met != self._claims.all:
            spend(names.bit_count() // 32)
            for index in numbers(names):
                met |= self._lacks[index]
        return met

    def candidates(self, state: MemberState) -> int:
        """Return the listed names, as bits, that may come next."""
        allowed = state.allowed
        if state.missing and not self.any_order:
            first = state.missing & -state.missing
            allowed &= (first << 1) - 1
        if not self.is_bounded:
            return allowed
        kept = 0
        for index in numbers(allowed):
            spend()
            if any(True for _ in self.after_listed(state, index)):
                kept |= 1 << index
        return kept

    def seen_from(self, state: MemberState) -> MemberState:
        """Return a state in which the same follows each listed name that may come next.

        Where names come in order, what follows one does not depend on those before it, so that
        what is made for a name serves all states in which it may come.
        """
        if self.is_bounded or self.any_order:
            return state
        return MemberState(self.start.allowed, state.missing, state.unlisted, is_first=False)

    def unlisted(self, state: MemberState) -> Iterator[tuple[NameCell, Node, str | None]]:
        """Yield the names that may come next and are not yet taken: (cell, names, example).

        The example stands for all the names, where the same follows each of them, and taking one
        leaves enough. ``None`` where that is not so.
        """
        if state.missing and not self.any_order:
            return
        for cell in self.cells:
            names = without_words(cell.names, state.unlisted) if state.unlisted else cell.names
            if not self.is_bounded:
                if not names.is_empty:
                    yield cell, names, "" if self._has_names_to_spare(state, cell) else None
                continue
            single = []
            for part, taken, example in self._parts(state, names):
                if any(True for _ in self.after_unlisted(state, cell, taken, example)):
                    if taken is None:
                        yield cell, part, example
                    else:
                        single.append(taken)
            if single:
                yield cell, word_language(single), None

    def any_name(self, state: MemberState) -> NameCell | None:
        """Return the cell of unlisted names, if any at all may come next and all in one way."""
        if self.is_bounded or len(self.cells) != 1 or (state.missing and not self.any_order):
            return None
        return self.cells[0] if self.cells[0].holds_all_others else None

    def index_of(self, name: str) -> int | None:
        """Return the number of a listed name."""
        return self._index.get(name)

    def names_from(self, prefix: str) -> Iterator[str]:
        """Yield the listed names that begin with a prefix."""
        for name in islice(self._sorted_names, bisect_left(self._sorted_names, prefix), None):
            if not name.startswith(prefix):
                return
            yield name

    def _parts(self, state: MemberState, names: Node) -> Iterator[tuple[Node, str | None, str]]:
        """Tell names apart as far as it matters which is taken: (language, name, one of them).

        Of a language with names to spare no name is taken.
        """
        parts = [names]
        for condition in self._matching(state):
            inside = [intersection((part, condition.names)) for part in parts]
            parts = [
                *(part for part in inside if not part.is_empty),
                *(difference(part, condition.names, ANY_CODE_POINT) for part in parts),
            ]
        for part in parts:
            if part.is_empty:
                continue
            words = list_words(part, self.shape.least + len(self._claims.clauses) + 3)
            if words is None:
                yield part, None, shortest_text(part)
            else:
                yield from ((word_language((word,)), word, word) for word in words)

    def _matching(self, state: MemberState) -> list[Matching]:
        """Return the conditions on members by languages of names, of clauses that are not met."""
        return [
            condition
            for clause in self._claims.unmet(state.met)
            for condition in clause
            if isinstance(condition, Matching)
        ]

    def _has_names_to_spare(self, state: MemberState, cell: NameCell) -> bool:
        """Whether taking one more name of a cell cannot change what may follow."""
        if cell.names.max_length is None:
            return True
        spare = len(state.unlisted) + self.shape.least + 3
        return count_words(cell.names, spare) >= spare

    def after_listed(self, state: MemberState, index: int) -> Iterator[tuple[Term, MemberState]]:
        bit = 1 << index
        left = state.allowed & ~bit if self.any_order else state.allowed & ~((bit << 1) - 1)
        missing = state.missing & ~bit
        if not self.is_bounded:
            yield self.terms[index], MemberState(left, missing, state.unlisted, is_first=False)
            return
        met = self._passed(state, state.allowed & ~left & ~bit)
        target = state._replace(allowed=left, missing=missing, met=met)
        yield from self._after_member(
            state, target, self.names[index], self._listed_claims[index], self.terms[index]
        )

    def after_unlisted(
        self, state: MemberState, cell: NameCell, taken: str | None, example: str
    ) -> Iterator[tuple[Term, MemberState]]:
        """Yield what may follow an unlisted name; ``taken`` is it, if it is to be remembered."""
        allowed = state.allowed if self.any_order else 0
        unlisted = state.unlisted if taken is None else state.unlisted | {taken}
        if not self.is_bounded:
            yield cell.term, MemberState(allowed, state.missing, unlisted, is_first=False)
            return
        met = state.met if self.any_order else self._passed(state, state.allowed)
        target = state._replace(allowed=allowed, unlisted=unlisted, met=met)
        claims = self._claims_of(example, cell)
        yield from self._after_member(state, target, example, claims, cell.term)

    def _claims_of(self, name: str, cell: NameCell) -> MemberClaims:
        """Return the clauses that a member of an unlisted name answers."""
        own = name if name in self._named else None
        kind = (cell, own, *(contains_word(language, name) for language in self._languages))
        known = self._unlisted_claims.get(kind)
        if known is None:
            if len(self._unlisted_claims) >= LIMITS.member_facts:
                self._unlisted_claims.clear()
            known = self._unlisted_claims[kind] = self._claims.of(name, cell.term)
        return known

    def _after_member(
        self,
        before: MemberState,
        state: MemberState,
        name: str,
        claims: MemberClaims,
        term: Term,
    ) -> Iterator[tuple[Term, MemberState]]:
        """Yield the ways in which a member may answer some of the clauses."""
        count = min(state.counted + 1, self._counts_to)
        for value, met in self._claims.values(term, claims, state.met):
            target = state._replace(is_first=False, counted=count, met=met)
            if not self.is_bounded or self._can_finish(target, before, name):
                yield value, target

    def _can_finish(self, state: MemberState, before: MemberState, written: str) -> bool:
        """Whether members that make the object complete are still to be had.

        ``before`` is the state before the member ``written``: what could complete the object then
        often still can.
        """
        state, before = self._essential(state), self._essential(before)
        end = self._ends.get(state, NOT_ASKED)
        if end is not NOT_ASKED:
            return end is not None
        known, near = self._known_end(before), None
        if known is not None:
            allowed = self._allowed(state)
            left = {n: t for n, t in known.present.items() if n != written and n in allowed}
            gone = [n for n in known.present if n not in left]
            doubtful = self._claims.doubtful_after(written)
            for name in gone:
                doubtful |= self._claims.doubtful_after(name)
            near = Members(left), doubtful
        end = self._end(state, near)
        if not state.unlisted:
            self._keep_end(state, end)
        return end is not None

    def _keep_end(self, state: MemberState, end: Members | None) -> None:
        if len(self._ends) >= LIMITS.member_facts:
            self._ends.clear()
        self._ends[state] = end

    def _essential(self, state: MemberState) -> MemberState:
        """Return a state without the names that are taken and play no part in what may follow."""
        spare = len(state.unlisted) + self.shape.least + len(self._claims.clauses) + 3
        if not state.unlisted or spare > MANY_NAMES:
            return state
        return state._replace(unlisted=frozenset(filter(self._matters, state.unlisted)))

    def _matters(self, name: str) -> bool:
        """Whether a clause speaks of a name by itself, or there are few of its kind."""
        known = self._mattering.get(name)
        if known is None:
            if len(self._mattering) >= LIMITS.member_facts:
                self._mattering.clear()
            known = self._mattering[name] = name in self._named or self._is_scarce(name)
        return known

    @cached_property
    def _named(self) -> frozenset[str]:
        conditions = (c for clause in self._claims.clauses for c in clause)
        return frozenset(c.name for c in conditions if isinstance(c, Absent | Present))

    @cached_property
    def _languages(self) -> list[Node]:
        """The languages of names that clauses speak of."""
        conditions = (c for clause in self._claims.clauses for c in clause)
        return list(dict.fromkeys(c.names for c in conditions if isinstance(c, Matching)))

    def _is_scarce(self, name: str) -> bool:
        """Whether few names of the same cell are in just the languages that this one is in."""
        among = tuple(contains_word(language, name) for language in self._languages)
        for index, cell in enumerate(self.cells):
            if contains_word(cell.names, name):
                if (index, among) not in self._scarce:
                    kind = cell.names
                    for language, is_in in zip(self._languages, among, strict=True):
                        other = language if is_in else complement(language, ANY_CODE_POINT)
                        kind = intersection((kind, other))
                    is_scarce = count_words(kind, MANY_NAMES) < MANY_NAMES
                    self._scarce[index, among] = is_scarce
                return self._scarce[index, among]
        return True

    def _known_end(self, state: MemberState) -> Members | None:
        known = self._ends.get(state, NOT_ASKED)
        if known is not NOT_ASKED:
            return known
        if state.unlisted:
            return None
        known = self._end(state)
        self._keep_end(state, known)
        return known

    def _allowed(self, state: MemberState) -> Mapping[str, Term]:
        """Return the listed names that may still come, with the terms of their values."""
        return _Allowed(self, state.allowed)

    @property
    def _offered(self) -> int:
        """The listed names, as bits, that have a value."""
        known = self._with_values
        if known is None:
            known = 0
            for index, term in enumerate(self.terms):
                spend()
                if not self._is_empty_or_unenforceable(term):
                    known |= 1 << index
            self._with_values = known
        return known

    def _end(self, state: MemberState, near: tuple[Members, int] | None = None) -> Members | None:
        """Return members that complete an object, if there are such."""
        shape = self.shape
        most = None if shape.most is None else shape.most - state.counted
        if most is not None and state.missing.bit_count() > most:
            return None
        needed = max(0, shape.least - state.counted)
        spend()
        offer = Offer(
            self._allowed(state),
            [self.names[index] for index in numbers(state.missing)],
            [cell.without(state.unlisted) for cell in self.cells] if state.unlisted else self.cells,
            needed,
            most,
            (state.allowed & self._offered).bit_count() if needed else None,
        )
        return members_that_meet(
            self._claims.clauses,
            offer,
            self._table,
            self._is_offered,
            met=state.met,
            near=near,
            lacking=self._claims.lacking,
        )

    def _is_offered(self, term: Term) -> bool:
        return not self._is_empty_or_unenforceable(term)

    def bits_of(self, name: str) -> int:
        """Return a listed name as a bit, 0 for another."""
        index = self._index.get(name)
        return 0 if index is None else 1 << index


class _Allowed(Mapping[str, Term]):
    """The listed names among some bits, with their terms."""

    __slots__ = ("_bits", "_steps")

    def __init__(self, steps: MemberSteps, bits: int) -> None:
        self._steps = steps
        self._bits = bits

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self._steps.bits_of(name) & self._bits)

    def __getitem__(self, name: str) -> Term:
        bit = self._steps.bits_of(name) & self._bits
        if not bit:
            raise KeyError(name)
        return self._steps.terms[bit.bit_length() - 1]

    def __iter__(self) -> Iterator[str]:
        return (self._steps.names[index] for index in numbers(self._bits))

    def __len__(self) -> int:
        return self._bits.bit_count()
