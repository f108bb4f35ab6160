"""Clause tracking: which clauses of an object shape the members written so far satisfy.

The state of an object being written holds the satisfied clauses as a bit set. Two invariants make
this correct, with the clause solver (:mod:`state_machines.json_schema.objects.clause_solver`):

* A clause in the set is satisfied whatever follows: a member that was written satisfies it, or the
  absence of a name that can no longer come. So bits are only ever added.
* The residual clauses, those not in the set, have an assignment among the members that can still
  come. A shape without one is empty and gets no node. A member is offered only with values after
  which an assignment remains, so a state without one, a dead end, is never entered.

At the closing bracket every name that has not come is absent, which decides all clauses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.words import contains_word
from state_machines.json_schema.objects.clauses import (
    Absent,
    Clause,
    Condition,
    Matching,
    Present,
    residual_clause,
)
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable


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
        is_empty: Whether a term has no value.
        is_empty_or_unenforceable: Whether a term has no value that can be generated.

    Attributes:
        clauses: The undecided clauses; bit *k* of a bit set stands for clause *k*.
        all_clauses: The bit set of all of them.
        by_absence: By name, the bit set of the clauses that its absence satisfies.
        names: The names in conditions.
        languages: The languages of names in conditions.
    """

    def __init__(
        self,
        shape: ObjectShape,
        terms: Mapping[str, Term],
        table: TermTable,
        is_empty: Callable[[Term], bool],
        is_empty_or_unenforceable: Callable[[Term], bool],
    ) -> None:
        self._table = table
        self._is_empty = is_empty
        self._is_empty_or_unenforceable = is_empty_or_unenforceable
        evaluate = partial(self._evaluate, terms=terms, required=frozenset(shape.required))
        residuals = (residual_clause(clause, evaluate) for clause in shape.clauses)
        self.clauses: tuple[Clause, ...] = tuple(c for c in residuals if c is not None)
        self.all_clauses = (1 << len(self.clauses)) - 1
        self.by_absence: dict[str, int] = {}
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
                    case Absent(name):
                        self.by_absence[name] = self.by_absence.get(name, 0) | bit
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
        return self._is_empty_or_unenforceable(self._table.all_of((known, term)))

    def _implies(self, known: Term, term: Term) -> bool:
        """Return whether the values of a term are surely among those of another."""
        return self._is_surely_empty(self._table.all_of((known, self._table.negation(term))))

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
                inside = self._table.all_of((cell, term))
                if not self._is_empty_or_unenforceable(inside):
                    outside = self._table.all_of((cell, self._table.negation(term)))
                    if not self._is_surely_empty(outside):
                        stack.append((index + 1, values, outside, bits))
                    narrowed = self._table.all_of((values, term))
                    stack.append((index + 1, narrowed, inside, bits | more))
                    continue
            stack.append((index + 1, values, cell, bits))
