"""Which clauses of an object shape a member answers, whatever its value, and which it may."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from state_machines.budgets import spend
from state_machines.errors import UnsupportedSchemaError
from state_machines.grammar.node import Node
from state_machines.grammar.words import contains_word
from state_machines.json_schema.objects.conditions import (
    Absent,
    Clause,
    Condition,
    Matching,
    Present,
)
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import Term, TermTable

__all__ = ["Claims", "MemberClaims"]


@dataclass(frozen=True, slots=True)
class MemberClaims:
    """What one member can do for the clauses, which are bits.

    ``always`` are answered by its being there; ``by_value`` by a value in the term beside.
    """

    always: int
    by_value: tuple[tuple[Term, int], ...]


class Claims:
    """The clauses of a shape that its terms leave undecided, and who answers them.

    ``terms`` are those of the listed names. ``is_barred`` tells of which terms no value is offered:
    they are empty, or cannot be enforced.
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
        self._terms = terms
        self._required = frozenset(shape.required)
        undecided = (self._undecided(clause) for clause in shape.clauses)
        self.clauses: tuple[Clause, ...] = tuple(c for c in undecided if c is not None)
        self.all = (1 << len(self.clauses)) - 1
        self._any_language = 0
        self._speaking: dict[str, int] = {}
        self.lacking: dict[str, int] = {}
        """By name, as bits, the clauses that its lack answers."""
        self._answers: dict[str, dict[Term, int]] = {}
        self._by_language: dict[tuple[Node, Term], int] = {}
        for index, clause in enumerate(self.clauses):
            spend()
            bit = 1 << index
            for condition in clause:
                if isinstance(condition, Matching):
                    self._any_language |= bit
                else:
                    name = condition.name
                    self._speaking[name] = self._speaking.get(name, 0) | bit
                match condition:
                    case Absent(name):
                        self.lacking[name] = self.lacking.get(name, 0) | bit
                    case Present(name, term):
                        asked = self._answers.setdefault(name, {})
                        asked[term] = asked.get(term, 0) | bit
                    case Matching(names, term):
                        key = names, term
                        self._by_language[key] = self._by_language.get(key, 0) | bit

    def _undecided(self, clause: Clause) -> Clause | None:
        """Return a clause less what cannot hold; ``None`` if it holds anyway."""
        left: list[Condition] = []
        for condition in clause:
            match condition:
                case Absent(name):
                    if self._is_empty(self._terms[name]):
                        return None
                    if name in self._required:
                        continue
                case Present(name, term):
                    if self._excludes(self._terms[name], term):
                        continue
                    if name in self._required and self._implies(self._terms[name], term):
                        return None
            left.append(condition)
        return tuple(left)

    def _excludes(self, known: Term, term: Term) -> bool:
        return self._is_empty_or_unenforceable(self._table.all_of((known, term)))

    def _implies(self, known: Term, term: Term) -> bool:
        """Whether the values of a term are surely among those of another."""
        return self._is_surely_empty(self._table.all_of((known, self._table.negation(term))))

    def _is_surely_empty(self, term: Term) -> bool:
        """Whether a term is empty; where that cannot be told, more ways are tried than needed."""
        try:
            return self._is_empty(term)
        except UnsupportedSchemaError:
            return False

    def unmet(self, met: int) -> list[Clause]:
        """Return the clauses that are not among the bits."""
        return [clause for k, clause in enumerate(self.clauses) if not met >> k & 1]

    def doubtful_after(self, name: str) -> int:
        """Return the clauses, as bits, that speak of a name or of languages of names."""
        return self._speaking.get(name, 0) | self._any_language

    def without(self, name: str) -> int:
        """Return the clauses that the lack of a name answers."""
        return self.lacking.get(name, 0)

    def of(self, name: str, known: Term) -> MemberClaims:
        """Return what a member of that name, whose value is in ``known``, answers."""
        terms = dict(self._answers.get(name, {}))
        spend(len(self._by_language) // 8)
        for (names, term), bits in self._by_language.items():
            if contains_word(names, name):
                terms[term] = terms.get(term, 0) | bits
        always, by_value = 0, []
        for term, answered in terms.items():
            if self._implies(known, term):
                always |= answered
            elif not self._excludes(known, term):
                by_value.append((term, answered))
        return MemberClaims(always, tuple(by_value))

    def values(self, known: Term, claims: MemberClaims, met: int) -> Iterator[tuple[Term, int]]:
        """Yield the sets of values that a member may be given: (term, clauses met then).

        Values are told apart by which of the open terms they are in. A set is given by those alone,
        not by those they are not in, so that it may hold another, which answers more.
        """
        # Depth first, values that answer more before others: mostly the first will do.
        stack: list[tuple[int, Term, Term, int]] = [(0, known, known, met | claims.always)]
        while stack:
            index, held, cell, answered = stack.pop()
            if index == len(claims.by_value):
                yield held, answered
                continue
            spend()
            term, bits = claims.by_value[index]
            if bits & ~answered:
                within = self._table.all_of((cell, term))
                if not self._is_empty_or_unenforceable(within):
                    outside = self._table.all_of((cell, self._table.negation(term)))
                    if not self._is_surely_empty(outside):
                        stack.append((index + 1, held, outside, answered))
                    claimed = self._table.all_of((held, term))
                    stack.append((index + 1, claimed, within, answered | bits))
                    continue
            stack.append((index + 1, held, cell, answered))
