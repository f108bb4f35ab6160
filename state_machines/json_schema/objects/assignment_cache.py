"""Whether an object can be completed from a state, decided by the clause solver and cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from state_machines.budgets import spend
from state_machines.caches import LruCache
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.grammar.words import contains_word, count_words
from state_machines.json_schema.objects.clause_solver import Assignment, Domain, find_assignment
from state_machines.json_schema.objects.clause_tracker import ClauseTracker
from state_machines.json_schema.objects.clauses import bit_indices
from state_machines.json_schema.objects.names import ListedNames, NameCell
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable
from state_machines.limits import LIMITS

PLENTY_OF_NAMES = 64
"""Number of names of a kind from which on taking one of them changes nothing."""


class MemberState(NamedTuple):
    """The state of an object after some members.

    Attributes:
        allowed: Bit set of the listed names that may still come.
        missing: Bit set of the required names that must still come.
        unlisted: Unlisted names that were written.
        satisfied: Bit set of the satisfied clauses.
        member_count: Number of members, counted up to the largest bound of the shape.
        is_first: Whether no member was written.
    """

    allowed: int
    missing: int
    unlisted: frozenset[str] = frozenset()
    satisfied: int = 0
    member_count: int = 0
    is_first: bool = True


class AssignmentCache:
    """For each state of an object the members that complete it, found by the clause solver.

    The search for a state starts from the assignment of the state before, without the member that
    was written. In general that still satisfies all clauses.
    """

    def __init__(
        self,
        shape: ObjectShape,
        listed: ListedNames,
        cells: Sequence[NameCell],
        tracker: ClauseTracker,
        table: TermTable,
        is_empty_or_unenforceable: Callable[[Term], bool],
    ) -> None:
        self._shape = shape
        self._listed = listed
        self._cells = cells
        self._tracker = tracker
        self._table = table
        self._is_empty_or_unenforceable = is_empty_or_unenforceable
        # No LRU cache: an entry is cheaper than hashing its key several times.
        self._assignments: dict[MemberState, Assignment | Literal[False]] = {}
        self._relevant: LruCache[str, bool] = LruCache(LIMITS.member_facts)
        self._scarce: dict[tuple[int, tuple[bool, ...]], bool] = {}
        self.ample = shape.min_members + len(tracker.clauses) + 3
        """A number of names that cannot run out, since an object needs fewer to be completed."""

    def can_complete(self, state: MemberState, before: MemberState, written: str) -> bool:
        """Return whether members exist that complete the object.

        Args:
            state: The state to complete.
            before: The state before the last member.
            written: The name of the last member.
        """
        if not self._tracker.clauses:
            return self._has_enough_names(state)
        state, before = self._essential(state), self._essential(before)
        if self._assignments.get(state) is not None:
            return self._assignment(state) is not None
        known = None if before.unlisted else self._assignment(before)
        if known is None:
            return self._assignment(state) is not None
        allowed = self._listed.subset(state.allowed)
        near = {n: term for n, term in known.present.items() if n != written and n in allowed}
        doubtful = self._tracker.mentioning(written)
        for name in known.present.keys() - near.keys():
            doubtful |= self._tracker.mentioning(name)
        return self._assignment(state, (Assignment(near), doubtful)) is not None

    def _has_enough_names(self, state: MemberState) -> bool:
        """Return whether an object without clauses can be completed: its names are only counted."""
        shape, missing = self._shape, state.missing.bit_count()
        if shape.max_members is not None and missing > shape.max_members - state.member_count:
            return False
        needed = shape.min_members - state.member_count
        # At most as many unlisted names are written as members.
        unlisted = self._unlisted_names - len(state.unlisted)
        return needed <= missing or (
            needed <= (state.allowed & self.inhabited_names).bit_count() + unlisted
        )

    def _assignment(
        self, state: MemberState, near: tuple[Assignment, int] | None = None
    ) -> Assignment | None:
        found = self._assignments.get(state)
        if found is None:
            found = self._find(state, near) or False
            if not state.unlisted:
                if len(self._assignments) >= LIMITS.member_facts:
                    self._assignments.clear()
                self._assignments[state] = found
        return found or None

    def _find(
        self, state: MemberState, near: tuple[Assignment, int] | None = None
    ) -> Assignment | None:
        shape, listed = self._shape, self._listed
        max_members = None if shape.max_members is None else shape.max_members - state.member_count
        if max_members is not None and state.missing.bit_count() > max_members:
            return None
        min_members = max(0, shape.min_members - state.member_count)
        spend()
        cells = self._cells
        if state.unlisted:
            cells = [cell.without(state.unlisted) for cell in cells]
        domain = Domain(
            listed.subset(state.allowed),
            [listed.names[index] for index in bit_indices(state.missing)],
            cells,
            min_members,
            max_members,
            (state.allowed & self.inhabited_names).bit_count() if min_members else None,
        )
        return find_assignment(
            self._tracker.clauses,
            domain,
            self._table,
            lambda term: not self._is_empty_or_unenforceable(term),
            satisfied=state.satisfied,
            near=near,
            by_absence=self._tracker.by_absence,
        )

    @cached_property
    def _unlisted_names(self) -> int:
        """The number of unlisted names whose term has a value, at most ``min_members``."""
        found, most = 0, self._shape.min_members
        for cell in self._cells:
            if found < most and not self._is_empty_or_unenforceable(cell.term):
                found += count_words(cell.names, most - found)
        return found

    @cached_property
    def inhabited_names(self) -> int:
        """The bit set of the listed names whose term has a value."""
        spend(len(self._listed))
        terms = enumerate(self._listed.terms)
        return sum(1 << i for i, term in terms if not self._is_empty_or_unenforceable(term))

    def _essential(self, state: MemberState) -> MemberState:
        """Return the state without the written names that do not affect later members."""
        if not state.unlisted or len(state.unlisted) + self.ample > PLENTY_OF_NAMES:
            return state
        return state._replace(unlisted=frozenset(filter(self._is_relevant, state.unlisted)))

    def _is_relevant(self, name: str) -> bool:
        """Return whether a clause names an unlisted name, or there are few names of its kind."""
        known = self._relevant.peek(name)
        if known is None:
            known = name in self._tracker.names or self._is_scarce(name)
            self._relevant.put(name, known)
        return known

    def _is_scarce(self, name: str) -> bool:
        """Return whether few names of the same cell are in the same languages of the clauses."""
        languages = self._tracker.languages
        membership = tuple(contains_word(language, name) for language in languages)
        for index, cell in enumerate(self._cells):
            if not contains_word(cell.names, name):
                continue
            if (index, membership) not in self._scarce:
                kind = cell.names
                for language, is_member in zip(languages, membership, strict=True):
                    other = language if is_member else complement(language, ANY_CODE_POINT)
                    kind = intersection((kind, other))
                is_scarce = count_words(kind, PLENTY_OF_NAMES) < PLENTY_OF_NAMES
                self._scarce[index, membership] = is_scarce
            return self._scarce[index, membership]
        return True
