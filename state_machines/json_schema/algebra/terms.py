"""Schemas as terms of a Boolean algebra.

A term denotes a set of JSON values. Terms combine the schemas of a document by *and*, *or* and
*not*. Building a term evaluates nothing, so a recursive schema is a finite term: it refers to its
schemas by location. The head normal form of a term is evaluated on demand. Each compilation has one
:class:`TermTable`, which interns its terms: equal terms are one object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

from state_machines.budgets import spend

PARTS_PER_STEP = 8
"""Parts of a combination that are compared in one step."""


class Term:
    """A set of JSON values; compared by identity."""

    __slots__ = ("__weakref__",)


TRUE, FALSE = Term(), Term()


@dataclass(frozen=True, eq=False, slots=True)
class Evaluated(Term):
    """The values of a head normal form, which this module treats as an opaque, hashable object."""

    values: Hashable


@dataclass(frozen=True, eq=False, slots=True)
class Conjunction(Term):
    """The values that are in all parts."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Disjunction(Term):
    """The values that are in at least one part."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Negation(Term):
    """The values that are not in the part."""

    part: Term


@dataclass(frozen=True, eq=False, slots=True)
class ExactlyOne(Term):
    """The values that are in exactly one part, for the values that are in ``within``."""

    parts: tuple[Term, ...]
    within: Term


@dataclass(frozen=True, eq=False, slots=True)
class NamedBy(Term):
    """All values, except objects with a name that is no string of the part."""

    part: Term


@dataclass(frozen=True, eq=False, slots=True)
class TextsOf(Term):
    """All values, except strings that are no JSON text of a value of the part."""

    part: Term


ConjoinEvaluated: TypeAlias = (
    "Callable[[Sequence[Evaluated], Sequence[Evaluated], TermTable], Term | None]"
)
"""Returns the values in all terms of the first sequence and in none of the second.

``None`` if the result would not be simpler than the arguments.
"""


class TermTable:
    """Builds and interns the terms of one compilation.

    Conjunctions of evaluated terms are computed, so alternatives with different constants are seen
    to be disjoint.

    Args:
        conjoin_evaluated: Computes them; by default nothing is computed.
    """

    def __init__(self, conjoin_evaluated: ConjoinEvaluated = lambda *_: None) -> None:
        self._conjoin_evaluated = conjoin_evaluated
        self._lock = Lock()
        self._known_conjunctions: dict[frozenset[Term], Term | None] = {}
        self._conjunctions: dict[frozenset[Term], Conjunction] = {}
        self._disjunctions: dict[frozenset[Term], Disjunction] = {}
        self._negations: dict[Term, Term] = {}
        self._evaluated: dict[Hashable, Evaluated] = {}
        self._complements: dict[Term, Callable[[TermTable], Term]] = {}

    def evaluated(self, values: Hashable) -> Term:
        """Return the term of a head normal form."""
        # These keys are compared by Python code, so another thread may run between a lookup and an
        # insertion. All other keys are compared by identity.
        with self._lock:
            return self._evaluated.get(values) or self._evaluated.setdefault(
                values, Evaluated(values)
            )

    def all_of(self, parts: Iterable[Term]) -> Term:
        """Return the conjunction of terms."""
        flat = _flattened(parts, Conjunction, unit=TRUE, zero=FALSE)
        if len(flat) > 1:
            flat = self._with_known_conjoined(flat)
        if len(flat) <= 1:
            return next(iter(flat), TRUE)
        key = frozenset(flat)
        return self._conjunctions.get(key) or self._conjunctions.setdefault(
            key, Conjunction(tuple(flat))
        )

    def known_conjunction(self, parts: Iterable[Term]) -> Conjunction | None:
        """Return the conjunction of exactly these parts if it was built before."""
        return self._conjunctions.get(frozenset(parts))

    def _with_known_conjoined(self, flat: dict[Term, None]) -> dict[Term, None]:
        """Replace the parts whose values are known by one term."""
        known: dict[Term, Evaluated] = {}
        for part in flat:
            inner = part.part if isinstance(part, Negation) else part
            if isinstance(inner, Evaluated):
                known[part] = inner
        if len(known) < 2:
            return flat
        key = frozenset(known)
        if key not in self._known_conjunctions:
            included = [inner for part, inner in known.items() if part is inner]
            excluded = [inner for part, inner in known.items() if part is not inner]
            self._known_conjunctions[key] = (
                self._conjoin_evaluated(included, excluded, self) if included else None
            )
        conjunction = self._known_conjunctions[key]
        if conjunction is None:
            return flat
        if conjunction is FALSE:
            return {FALSE: None}
        return {conjunction: None, **{part: None for part in flat if part not in key}}

    def any_of(self, parts: Iterable[Term]) -> Term:
        """Return the disjunction of terms."""
        flat = _flattened(parts, Disjunction, unit=FALSE, zero=TRUE)
        if len(flat) <= 1:
            return next(iter(flat), FALSE)
        key = frozenset(flat)
        return self._disjunctions.get(key) or self._disjunctions.setdefault(
            key, Disjunction(tuple(flat))
        )

    def negation(self, part: Term) -> Term:
        """Return the complement of a term."""
        if part is TRUE:
            return FALSE
        if part is FALSE:
            return TRUE
        if isinstance(part, Negation):
            return part.part
        known = self._negations.get(part)
        if known is None:
            make = self._complements.get(part)
            known = self._negations.setdefault(part, Negation(part) if make is None else make(self))
        return known

    def exactly_one(self, parts: Sequence[Term], overlapping: Iterable[tuple[int, int]]) -> Term:
        """Return the values that are in exactly one part.

        The result is the union of each part without the parts that it overlaps. Its complement is
        the union of the values in no part and the values in two parts.

        Args:
            parts: The terms.
            overlapping: The pairs of indices of parts that may share a value.
        """
        others: list[list[Term]] = [[] for _ in parts]
        pairs = list(overlapping)
        for i, j in pairs:
            others[i].append(self.negation(parts[j]))
            others[j].append(self.negation(parts[i]))
        exactly_one = self.any_of(
            self.all_of((part, *excluded)) for part, excluded in zip(parts, others, strict=True)
        )

        def none_or_two(table: TermTable) -> Term:
            none = table.all_of(map(table.negation, parts))
            return table.any_of((none, *(table.all_of((parts[i], parts[j])) for i, j in pairs)))

        return self._with_complement(exactly_one, none_or_two)

    def conditional(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """Return ``then`` where the condition holds, and ``otherwise`` elsewhere."""
        branches = ((condition, then), (self.negation(condition), otherwise))
        return self._with_complement(
            self.any_of(map(self.all_of, branches)),
            lambda table: table.any_of(
                table.all_of((case, table.negation(term))) for case, term in branches
            ),
        )

    def _with_complement(self, term: Term, complement: Callable[[TermTable], Term]) -> Term:
        """Register a complement that is smaller than the result of De Morgan's laws."""
        if isinstance(term, Disjunction):
            self._complements[term] = complement
        return term


def _flattened(
    parts: Iterable[Term], kind: type[Conjunction | Disjunction], *, unit: Term, zero: Term
) -> dict[Term, None]:
    """Return the distinct parts of a combination, with nested combinations flattened.

    Args:
        parts: The parts.
        kind: The class of the combination.
        unit: The neutral term, which is left out.
        zero: The absorbing term. A part and its negation together are absorbing, too.
    """
    flat: dict[Term, None] = {}
    spend()
    for part in parts:
        if isinstance(part, kind):
            flat.update(dict.fromkeys(part.parts))
        elif part is not unit:
            flat[part] = None
    if len(flat) < 2:
        return flat
    if len(flat) >= PARTS_PER_STEP:
        spend(len(flat) // PARTS_PER_STEP)
    if zero in flat or any(isinstance(part, Negation) and part.part in flat for part in flat):
        return {zero: None}
    return flat
