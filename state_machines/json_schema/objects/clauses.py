"""Clauses about the members of an object: literals, residual clauses and unit propagation.

A condition is a literal in SAT terms, a clause is a disjunction of conditions. The complement of
an object shape is a set of clauses: an object lacks the shape if a required member is absent or a
member has a value that the shape does not admit.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeAlias, TypeVar

from state_machines.budgets import spend
from state_machines.grammar.node import Node
from state_machines.json_schema.terms import Term, TermTable


@dataclass(frozen=True, slots=True)
class Absent:
    """No member has the name."""

    name: str


@dataclass(frozen=True, slots=True)
class Present:
    """A member has the name, and its value is in ``term``."""

    name: str
    term: Term


@dataclass(frozen=True, slots=True)
class Matching:
    """Some member has a name in ``names``, a language of code points, and a value in ``term``."""

    names: Node
    term: Term


Condition: TypeAlias = Absent | Present | Matching

Clause: TypeAlias = tuple[Condition, ...]


class PartialAssignment(Protocol):
    """Facts about members, under which a condition is true, false or undecided."""

    def evaluate(self, condition: Condition, table: TermTable) -> bool | None:
        """Return the truth value of a condition; ``None`` if it is undecided."""
        ...

    def assign(self, condition: Absent | Present, table: TermTable) -> Self:
        """Return the facts with one more true condition."""
        ...


_Facts = TypeVar("_Facts", bound=PartialAssignment)


def mentions(clause: Clause, names: Container[str]) -> bool:
    """Return whether a condition of the clause names one of the given names."""
    return any(not isinstance(c, Matching) and c.name in names for c in clause)


def residual_clause(clause: Clause, evaluate: Callable[[Condition], bool | None]) -> Clause | None:
    """Return the clause without its false conditions; ``None`` if a condition is true."""
    undecided: list[Condition] = []
    for condition in clause:
        value = evaluate(condition)
        if value:
            return None
        if value is None:
            undecided.append(condition)
    return tuple(undecided)


def propagate_unit_clauses(
    facts: _Facts, residual: Iterable[Clause], pending: Iterable[Clause], table: TermTable
) -> tuple[_Facts, tuple[Clause, ...]]:
    """Simplify clauses and assign the only condition of each unit clause, up to a fixed point.

    A unit clause with a :class:`Matching` condition stays a clause, since it names no member.

    Args:
        facts: Facts about the members.
        residual: Clauses that ``facts`` cannot simplify.
        pending: Clauses to evaluate.
        table: The terms.

    Returns:
        The facts with the assigned conditions, and the residual clauses.
    """
    settled, waiting = list(residual), list(pending)
    while waiting:
        spend()
        clause = residual_clause(waiting.pop(), partial(facts.evaluate, table=table))
        if clause is None:
            continue
        if len(clause) != 1 or isinstance(clause[0], Matching):
            settled.append(clause)
            continue
        unit = clause[0]
        facts = facts.assign(unit, table)
        spend(len(settled) // 16)
        names = {unit.name}
        waiting.extend(other for other in settled if mentions(other, names))
        settled = [other for other in settled if not mentions(other, names)]
    return facts, tuple(dict.fromkeys(settled))


def bit_indices(bits: int) -> Iterator[int]:
    """Yield the indices of the set bits, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
