"""Clause solver: members that satisfy all clauses of an object together.

The variables are member names; the value of a variable is the term of the member's value, or
absence. Variables interact: one member can satisfy several clauses if its value is in all of their
terms, two clauses can need the same name of a small language, and an absent name cannot be present.

The search is DPLL: evaluate the clauses under a partial assignment, branch on the unsatisfied
clause with the fewest branches (a unit clause has one), and backtrack. It runs in two modes:

* *Closed world*: a name without a member is absent. Only members that some clause needs are added,
  so the assignment is small, and a clause with an absent name needs no decision. Complete, but for
  ``min_members``.
* *Open world*: absence is decided as well. Needed only where ``min_members`` asks for members
  beyond those of the clauses, for then it matters which names must stay absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from state_machines.budgets import spend
from state_machines.grammar.boolean import intersection
from state_machines.grammar.node import Node
from state_machines.grammar.text_languages import contains_word, count_words, list_words
from state_machines.json_schema.algebra.names import NameCell, listed_names, name_cells
from state_machines.json_schema.algebra.object_shape import (
    Absent,
    Clause,
    Condition,
    Matching,
    ObjectShape,
    Present,
    bit_indices,
)
from state_machines.json_schema.algebra.terms import TRUE, Term, TermTable

MAX_COMPARED = 8
"""Unsatisfied clauses, and branches of each, that are compared to pick the clause to branch on.

The open-world search compares all clauses.
"""

COMMON_NAMES_STEPS = 4
"""Steps charged for the common names of two languages."""


@dataclass(frozen=True, slots=True)
class Domain:
    """The members that an object can still be given.

    Attributes:
        listed: Listed names that may come, with the terms of their values.
        required: Those of the listed names that must come.
        cells: Languages of unlisted names.
        min_members: Smallest number of members still to come.
        max_members: Largest number of members still to come; ``None`` for no bound.
        inhabited_names: Number of listed names whose term has a value; ``None`` if not counted.
    """

    listed: Mapping[str, Term]
    required: Sequence[str]
    cells: Sequence[NameCell]
    min_members: int
    max_members: int | None
    inhabited_names: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """A partial assignment: members of an object, and names that must stay absent.

    Attributes:
        present: Names with the terms of their values.
        unnamed: Members whose name is any word of a language that always has another word left.
        absent: Names that must not come.
    """

    present: Mapping[str, Term]
    unnamed: tuple[tuple[Node, Term], ...] = ()
    absent: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.present) + len(self.unnamed)


def find_assignment(
    clauses: Sequence[Clause],
    domain: Domain,
    table: TermTable,
    has_value: Callable[[Term], bool],
    *,
    satisfied: int = 0,
    near: tuple[Assignment, int] | None = None,
    by_absence: Mapping[str, int] | None = None,
) -> Assignment | None:
    """Return members that satisfy all clauses, or ``None`` if there are none. Spends steps.

    Args:
        clauses: The clauses. They name only listed names.
        domain: The members that can be added.
        table: The terms.
        has_value: Whether a term has a value.
        satisfied: Bit set of the clauses that are satisfied already.
        near: An assignment from which the search starts, and a bit set of the clauses that it may
            not satisfy.
        by_absence: The result of :func:`clauses_by_absent_name`, if the caller has it.
    """
    solver = _Solver(clauses, domain, table, has_value, by_absence)
    if near is not None:
        assignment, doubtful = near
        found = solver.search(assignment, satisfied, list(bit_indices(doubtful & ~satisfied)))
        if found is not None and solver.reaches_min_members(found):
            return found
    start = Assignment({name: domain.listed[name] for name in domain.required})
    spend(1 + len(clauses) // 8)
    pending = [index for index in range(len(clauses)) if not satisfied >> index & 1]
    found = solver.search(start, satisfied, pending)
    if found is None or solver.reaches_min_members(found):
        return found
    return solver.search(start, satisfied, pending, open_world=True)


def object_is_inhabited(
    shape: ObjectShape, table: TermTable, has_value: Callable[[Term], bool]
) -> bool:
    """Return whether some object has the shape, given which terms have a value."""
    if shape.is_contradictory:
        return False
    if not all(has_value(shape.value_of(name, table)) for name in shape.required):
        return False
    if not shape.clauses and shape.min_members <= len(shape.required):
        return True
    return find_members(shape, table, has_value) is not None


def find_members(
    shape: ObjectShape, table: TermTable, has_value: Callable[[Term], bool]
) -> Assignment | None:
    """Return members of an object of a shape, or ``None`` if there is no such object."""
    listed = {name: shape.value_of(name, table) for name in listed_names(shape)}
    cells = name_cells(shape, table)
    domain = Domain(listed, shape.required, cells, shape.min_members, shape.max_members)
    return find_assignment(shape.clauses, domain, table, has_value)


def clauses_by_absent_name(clauses: Sequence[Clause]) -> dict[str, int]:
    """Return by name the bit set of the clauses that the absence of the name satisfies."""
    found: dict[str, int] = {}
    for index, clause in enumerate(clauses):
        spend(1 + len(clause) // 8)
        for condition in clause:
            if isinstance(condition, Absent):
                found[condition.name] = found.get(condition.name, 0) | 1 << index
    return found


class _Frame(NamedTuple):
    """A level of the search.

    Attributes:
        branches: The extensions of an assignment that are still to try.
        before: The assignment.
        satisfied: Bit set of the clauses that each extension satisfies.
        pending: The clauses to evaluate.
    """

    branches: Iterator[Assignment]
    before: Assignment
    satisfied: int
    pending: Sequence[int]


class _Solver:
    def __init__(
        self,
        clauses: Sequence[Clause],
        domain: Domain,
        table: TermTable,
        has_value: Callable[[Term], bool],
        by_absence: Mapping[str, int] | None,
    ) -> None:
        self._clauses = clauses
        self._domain = domain
        self._table = table
        self._has_value = has_value
        self._by_absence = by_absence
        self._matching: dict[tuple[Node, Node], tuple[Node, list[str] | None]] = {}

    def search(
        self,
        start: Assignment,
        satisfied: int,
        pending: Sequence[int],
        *,
        open_world: bool = False,
    ) -> Assignment | None:
        """Extend ``start`` by the fewest members until all clauses are satisfied.

        ``satisfied`` is a bit set of clauses, ``pending`` are the indices of those to evaluate;
        ``start`` satisfies the others. Depth first.
        """
        max_members, initially_satisfied = self._domain.max_members, satisfied
        frames = [_Frame(iter((start,)), start, satisfied, pending)]
        while frames:
            frame = frames[-1]
            assignment = next(frame.branches, None)
            if assignment is None:
                frames.pop()
                continue
            pending = frame.pending
            if not open_world:
                pending = [*pending, *self._falsified(frame.before, assignment)]
            spend(1 + (len(pending) + len(assignment.present)) // 16)
            if max_members is not None and assignment.size > max_members:
                continue
            unsatisfied, unread = self._first_unsatisfied(
                pending, frame.satisfied, assignment, open_world
            )
            if unsatisfied:
                index, branches = self._fewest_branches(unsatisfied, assignment, open_world)
                satisfied = frame.satisfied | 1 << index
                frames.append(_Frame(branches, assignment, satisfied, [*unsatisfied, *unread]))
            elif not open_world:
                return self._with_absent_names(assignment, initially_satisfied)
            elif self.reaches_min_members(assignment):
                return assignment
        return None

    def _first_unsatisfied(
        self, pending: Sequence[int], satisfied: int, assignment: Assignment, open_world: bool
    ) -> tuple[list[int], Sequence[int]]:
        """Return the first clauses that are not satisfied, and the pending clauses after them.

        In the open world all clauses are compared, since one without a branch ends the search.
        """
        found: list[int] = []
        limit = len(pending) if open_world else MAX_COMPARED
        position = 0
        while position < len(pending) and len(found) < limit:
            index = pending[position]
            position += 1
            if not (
                satisfied >> index & 1
                or self._is_satisfied(self._clauses[index], assignment, open_world)
            ):
                found.append(index)
        spend(position // 4)
        return found, pending[position:]

    def reaches_min_members(self, assignment: Assignment) -> bool:
        """Return whether enough names may still be added to the assignment."""
        domain = self._domain
        available, needed = assignment.size, domain.min_members
        if available >= needed:
            return True
        if domain.inhabited_names is not None and not assignment.absent:
            available = domain.inhabited_names
        else:
            spend(len(domain.listed) // 8)
            available = sum(
                name not in assignment.absent
                and (name in assignment.present or self._has_value(term))
                for name, term in domain.listed.items()
            )
        for cell in domain.cells:
            if available < needed and self._has_value(cell.term):
                available += count_words(cell.names, needed - available)
        return available >= needed

    def _is_satisfied(self, clause: Clause, assignment: Assignment, open_world: bool) -> bool:
        """Return whether a condition of the clause is true, comparing terms by identity."""
        present, listed = assignment.present, self._domain.listed
        for condition in clause:
            match condition:
                case Absent(name):
                    if open_world:
                        if name in assignment.absent:
                            return True
                    elif name in listed and name not in present:
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

    def _falsified(self, before: Assignment, after: Assignment) -> Iterator[int]:
        """Yield the clauses that may have been satisfied by a name that is no longer absent."""
        if self._by_absence is None:
            self._by_absence = clauses_by_absent_name(self._clauses)
        for name in after.present:
            if name not in before.present:
                yield from bit_indices(self._by_absence.get(name, 0))

    def _fewest_branches(
        self, unsatisfied: Sequence[int], assignment: Assignment, open_world: bool
    ) -> tuple[int, Iterator[Assignment]]:
        """Return the clause with the fewest branches, counted up to a limit, and its branches."""
        fewest: tuple[int, list[Assignment], Iterator[Assignment]] | None = None
        for index in unsatisfied:
            branches: Iterator[Assignment] = chain.from_iterable(
                self._branches(condition, assignment)
                for condition in self._clauses[index]
                if open_world or not isinstance(condition, Absent)
            )
            limit = MAX_COMPARED if fewest is None else len(fewest[1])
            first = list(islice(branches, limit))
            spend(1 + len(first))
            if fewest is None or len(first) < limit:
                fewest = index, first, branches
            if len(first) < (1 if open_world else 2):
                break
        assert fewest is not None, "there is an unsatisfied clause"
        index, first, others = fewest
        return index, chain(first, others)

    def _branches(self, condition: Condition, assignment: Assignment) -> Iterator[Assignment]:
        """Yield the extensions of the assignment under which the condition is true."""
        listed, present = self._domain.listed, assignment.present
        match condition:
            case Absent(name):
                if name in listed and name not in present:
                    absent = assignment.absent | {name}
                    yield Assignment(present, assignment.unnamed, absent)
            case Present(name, term):
                if name in listed:
                    yield from self._with_member(name, listed[name], term, assignment)
            case Matching(names, term):
                spend(len(listed) // 16 + len(assignment.unnamed) // 2)
                for index, (words, known) in enumerate(assignment.unnamed):
                    others = assignment.unnamed[:index] + assignment.unnamed[index + 1 :]
                    without = Assignment(present, others, assignment.absent)
                    yield from self._with_name_in(words, known, condition, without)
                for name, known in listed.items():
                    if contains_word(names, name):
                        yield from self._with_member(name, known, term, assignment)
                for cell in self._domain.cells:
                    yield from self._with_name_in(cell.names, cell.term, condition, assignment)

    def _with_member(
        self, name: str, known: Term, term: Term, assignment: Assignment
    ) -> Iterator[Assignment]:
        """Yield the assignment with the value of a name, ``known`` so far, also in ``term``."""
        present, absent = assignment.present, assignment.absent
        value = self._table.all_of((present.get(name, known), term))
        if name not in absent and (value is present.get(name) or self._has_value(value)):
            yield Assignment({**present, name: value}, assignment.unnamed, absent)

    def _with_name_in(
        self, names: Node, known: Term, condition: Matching, assignment: Assignment
    ) -> Iterator[Assignment]:
        """Yield the assignment with a member whose name is in ``names``, value in ``known``."""
        matching, words = self._common(names, condition.names)
        if words is not None:
            for word in words:
                yield from self._with_member(word, known, condition.term, assignment)
            return
        value = self._table.all_of((known, condition.term))
        if self._has_value(value):
            unnamed = (*assignment.unnamed, (matching, value))
            yield Assignment(assignment.present, unnamed, assignment.absent)

    def _common(self, names: Node, others: Node) -> tuple[Node, list[str] | None]:
        """Return the common names of two languages, and their list.

        The list is ``None`` if there are more names than clauses, so that one is left whatever the
        other clauses take.
        """
        known = self._matching.get((names, others))
        if known is None:
            spend(COMMON_NAMES_STEPS)
            common = intersection((names, others))
            words = [] if common.is_empty else list_words(common, len(self._clauses) + 1)
            known = self._matching[names, others] = common, words
        return known

    def _with_absent_names(self, assignment: Assignment, satisfied: int) -> Assignment:
        """Return a closed-world assignment with the absent names that its clauses rely on.

        Only needed if the object must have more members than that.
        """
        present, listed = assignment.present, self._domain.listed
        if assignment.size >= self._domain.min_members:
            return assignment
        spend(len(self._clauses) // 8)
        absent: set[str] = set()
        for index, clause in enumerate(self._clauses):
            if satisfied >> index & 1:
                continue
            free = [
                c.name
                for c in clause
                if isinstance(c, Absent) and c.name in listed and c.name not in present
            ]
            if free and absent.isdisjoint(free):
                others = tuple(c for c in clause if not isinstance(c, Absent))
                if not self._is_satisfied(others, assignment, open_world=False):
                    absent.add(free[0])
        return Assignment(present, assignment.unnamed, frozenset(absent))
