"""Clause tracking: which clauses of an object shape the members written so far satisfy.

The state of an object being written holds the satisfied clauses as a bit set. Two invariants make
this correct, with the clause solver (:mod:`state_machines.json_schema.emptiness.clause_solver`):

* A clause in the set is satisfied whatever follows: a member that was written satisfies it, or the
  absence of a name that can no longer come. So bits are only ever added.
* The residual clauses, those not in the set, have an assignment among the members that can still
  come. A shape without one is empty and gets no node. A member is offered only with values after
  which an assignment remains, so a state without one, a dead end, is never entered.

At the closing bracket every name that has not come is absent, which decides all clauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.text_languages import contains_word, count_words
from state_machines.json_schema.algebra.names import ListedNames, NameCell
from state_machines.json_schema.algebra.object_shape import (
    Absent,
    Clause,
    Condition,
    Matching,
    ObjectShape,
    Present,
    bit_indices,
    residual_clause,
)
from state_machines.json_schema.algebra.terms import Term, TermTable
from state_machines.json_schema.emptiness.clause_solver import (
    Assignment,
    Domain,
    clauses_by_absent_name,
    find_assignment,
)
from state_machines.json_schema.emptiness.evaluation import is_empty
from state_machines.json_schema.grammar.translator import Translator
from state_machines.limits import LIMITS


@dataclass(frozen=True, slots=True)
class MemberEffect:
    """The clauses that a member can satisfy, as bit sets.

    Attributes:
        always: Clauses that any value of the member satisfies.
        by_value: Terms, each with the clauses that a value in the term satisfies.
    """

    always: int = 0
    by_value: tuple[tuple[Term, int], ...] = ()


class ClauseTracker:
    """The clauses of a shape that its terms leave undecided, and the members that satisfy them.

    Args:
        terms: The terms of the listed names.
        translator: Decides which terms have values that can be generated.

    Attributes:
        table: Builds terms.
        has_value: Whether a term has a value that can be generated.
        clauses: The undecided clauses; bit *k* of a bit set stands for clause *k*.
        all_clauses: The bit set of all of them.
        by_absence: By name, the bit set of the clauses that its absence satisfies.
        names: The names in conditions.
        languages: The languages of names in conditions.
    """

    def __init__(
        self, shape: ObjectShape, terms: Mapping[str, Term], translator: Translator
    ) -> None:
        self.table: TermTable = translator.context.terms
        self.has_value = translator.has_value
        self._is_empty = partial(is_empty, translator.context)
        evaluate = partial(self._evaluate, terms=terms, required=frozenset(shape.required))
        residuals = (residual_clause(clause, evaluate) for clause in shape.clauses)
        self.clauses: tuple[Clause, ...] = tuple(c for c in residuals if c is not None)
        self.all_clauses = (1 << len(self.clauses)) - 1
        self.by_absence = clauses_by_absent_name(self.clauses)
        self._by_name: dict[str, dict[Term, int]] = {}
        self._by_language: dict[tuple[Node, Term], int] = {}
        self._mentioning: dict[str, int] = {}
        self._with_language = 0
        for index, clause in enumerate(self.clauses):
            spend()
            bit = 1 << index
            for condition in clause:
                if isinstance(condition, Matching):
                    self._with_language |= bit
                else:
                    name = condition.name
                    self._mentioning[name] = self._mentioning.get(name, 0) | bit
                match condition:
                    case Present(name, term):
                        terms_of_name = self._by_name.setdefault(name, {})
                        terms_of_name[term] = terms_of_name.get(term, 0) | bit
                    case Matching(names, term):
                        key = names, term
                        self._by_language[key] = self._by_language.get(key, 0) | bit
        self.names = frozenset(self._mentioning)
        self.languages = list(dict.fromkeys(names for names, _ in self._by_language))

    def _evaluate(
        self, condition: Condition, terms: Mapping[str, Term], required: frozenset[str]
    ) -> bool | None:
        """Return the truth value of a condition before any member is written, if decided."""
        match condition:
            case Absent(name):
                if self._is_empty(terms[name]):
                    return True
                return False if name in required else None
            case Present(name, term):
                if self._excludes(terms[name], term):
                    return False
                return True if name in required and self._implies(terms[name], term) else None
            case Matching():
                return None

    def _excludes(self, known: Term, term: Term) -> bool:
        """Return whether no value of a term is offered that is in another."""
        return not self.has_value(self.table.all_of((known, term)))

    def _implies(self, known: Term, term: Term) -> bool:
        """Return whether a term's values surely are values of another term."""
        return self._is_surely_empty(self.table.all_of((known, self.table.negation(term))))

    def _is_surely_empty(self, term: Term) -> bool:
        """Return whether a term is empty; ``False`` if that cannot be decided.

        Then more alternatives are tried than necessary.
        """
        try:
            return self._is_empty(term)
        except UnsupportedSchemaError:
            return False

    def residual(self, satisfied: int) -> list[Clause]:
        """Return the clauses that are not in a bit set."""
        return [clause for k, clause in enumerate(self.clauses) if not satisfied >> k & 1]

    def mentioning(self, name: str) -> int:
        """Return the bit set of the clauses with the name or any language of names."""
        return self._mentioning.get(name, 0) | self._with_language

    def effect_of(self, name: str, known: Term) -> MemberEffect:
        """Return the clauses that a member of a name can satisfy, its value being in ``known``."""
        by_term = dict(self._by_name.get(name, {}))
        spend(len(self._by_language) // 8)
        for (names, term), bits in self._by_language.items():
            if contains_word(names, name):
                by_term[term] = by_term.get(term, 0) | bits
        always, by_value = 0, []
        for term, bits in by_term.items():
            if self._implies(known, term):
                always |= bits
            elif not self._excludes(known, term):
                by_value.append((term, bits))
        return MemberEffect(always, tuple(by_value))

    def alternatives(
        self, known: Term, effect: MemberEffect, satisfied: int
    ) -> Iterator[tuple[Term, int]]:
        """Split the values of a member by the residual clauses that they satisfy.

        A text stays possible in every alternative whose term holds its value. The terms are
        positive only: a term says which clauses its values satisfy, not which they falsify, so it
        can include values of an alternative that satisfies more.

        Yields:
            The term of the values, and the bit set of the clauses that are satisfied after it;
            alternatives that satisfy more clauses come first.
        """
        # Depth first. ``values`` is the term to yield; ``cell`` excludes the rejected terms too.
        stack: list[tuple[int, Term, Term, int]] = [(0, known, known, satisfied | effect.always)]
        while stack:
            index, values, cell, bits = stack.pop()
            if index == len(effect.by_value):
                yield values, bits
                continue
            spend()
            term, more = effect.by_value[index]
            if more & ~bits:
                inside = self.table.all_of((cell, term))
                if self.has_value(inside):
                    outside = self.table.all_of((cell, self.table.negation(term)))
                    if not self._is_surely_empty(outside):
                        stack.append((index + 1, values, outside, bits))
                    restricted = self.table.all_of((values, term))
                    stack.append((index + 1, restricted, inside, bits | more))
                    continue
            stack.append((index + 1, values, cell, bits))


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
    ) -> None:
        self._shape = shape
        self._listed = listed
        self._cells = cells
        self._tracker = tracker
        # No LRU cache: an entry is cheaper than hashing its key several times.
        self._assignments: dict[MemberState, Assignment | Literal[False]] = {}
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
            self._tracker.table,
            self._tracker.has_value,
            satisfied=state.satisfied,
            near=near,
            by_absence=self._tracker.by_absence,
        )

    @cached_property
    def _has_names_to_spare(self) -> bool:
        return not self._tracker.languages and all(
            cell.names.max_length is None for cell in self._cells
        )

    @cached_property
    def _unlisted_names(self) -> int:
        """The number of unlisted names whose term has a value, at most ``min_members``."""
        found, most = 0, self._shape.min_members
        for cell in self._cells:
            if found < most and self._tracker.has_value(cell.term):
                found += count_words(cell.names, most - found)
        return found

    @cached_property
    def inhabited_names(self) -> int:
        """The bit set of the listed names whose term has a value."""
        spend(len(self._listed))
        terms = enumerate(self._listed.terms)
        return sum(1 << i for i, term in terms if self._tracker.has_value(term))

    def _essential(self, state: MemberState) -> MemberState:
        """Return the state without the written names, where they do not affect later members."""
        return state._replace(unlisted=frozenset()) if self._has_names_to_spare else state
