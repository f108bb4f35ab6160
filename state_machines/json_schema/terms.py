"""Schemas as terms of a Boolean algebra.

A term denotes a set of JSON values. Terms are built from places in a schema document by *and*,
*or* and *not*, and nothing is evaluated until its head normal form is asked for (see
:mod:`state_machines.json_schema.evaluator`); so recursive schemas are finite terms. Terms are
interned in a :class:`TermTable`, one to a compilation: equal terms are one object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Protocol
from weakref import proxy

from state_machines.budgets import spend

if TYPE_CHECKING:
    from state_machines.json_schema.document import SchemaLocation

__all__ = [
    "FALSE",
    "TRUE",
    "Conjunction",
    "Disjunction",
    "Evaluated",
    "Negation",
    "SchemaRef",
    "Term",
    "TermTable",
]


class Term:
    """A set of JSON values; compared by identity."""

    __slots__ = ("__weakref__",)


class _Constant(Term):
    __slots__ = ()


TRUE: Term = _Constant()
FALSE: Term = _Constant()


@dataclass(frozen=True, eq=False, slots=True)
class SchemaRef(Term):
    """The values that the schema at a place of the document admits."""

    place: SchemaLocation


@dataclass(frozen=True, eq=False, slots=True)
class Evaluated(Term):
    """The values of a head normal form, which this module treats as an opaque, hashable object."""

    values: Hashable


@dataclass(frozen=True, eq=False, slots=True)
class Conjunction(Term):
    """The values that all parts admit."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Disjunction(Term):
    """The values that at least one part admits."""

    parts: tuple[Term, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Negation(Term):
    """The values that the part does not admit."""

    part: Term


class Algebra(Protocol):
    """What the table asks about head normal forms, to keep terms small."""

    def plain(self, place: SchemaLocation) -> Hashable | None:
        """Return the head normal form of a schema that applies no other, else ``None``."""
        ...

    def joined(
        self, given: Sequence[Hashable], without: Sequence[Hashable]
    ) -> tuple[Hashable, bool] | None:
        """Return what is in all of ``given`` and none of ``without``, and whether that is nothing.

        ``None``: the answer would be no smaller than the question.
        """
        ...


class TermTable:
    """Builds and interns the terms of one compilation.

    Schemas that say the same of scalars are one term wherever they stand, and conjunctions of such
    are evaluated at once; so alternatives with different tags are seen to exclude each other.
    """

    def __init__(self, algebra: Algebra) -> None:
        # Who is asked holds on to the table. All of a compilation goes with its last machine or
        # matcher then, and does not wait for the garbage collector.
        self._algebra: Algebra = proxy(algebra)
        self._lock = Lock()
        self._joined: dict[frozenset[Term], Term | None] = {}
        self._located: dict[object, Term] = {}
        self._conjunctions: dict[frozenset[Term], Conjunction] = {}
        self._disjunctions: dict[frozenset[Term], Disjunction] = {}
        self._negations: dict[Term, Term] = {}
        self._given: dict[Hashable, Evaluated] = {}
        self._complements: dict[Term, Callable[[TermTable], Term]] = {}

    def schema_ref(self, place: SchemaLocation) -> Term:
        """Return the term of a place; the Boolean schemas are the constants."""
        if place.schema is True or (place.schema == {} and not place.ignored):
            return TRUE
        if place.schema is False:
            return FALSE
        term = self._located.get(place.key)
        if term is None:
            values = self._algebra.plain(place)
            term = SchemaRef(place) if values is None else self.evaluated(values)
            term = self._located.setdefault(place.key, term)
        return term

    def evaluated(self, values: Hashable) -> Term:
        """Return the term of a head normal form."""
        # The only keys that Python code compares: a look-up and an insertion could be parted.
        with self._lock:
            return self._given.get(values) or self._given.setdefault(values, Evaluated(values))

    def all_of(self, parts: Iterable[Term]) -> Term:
        """Return the conjunction of terms."""
        flat = _flattened(parts, Conjunction, unit=TRUE, zero=FALSE)
        if len(flat) > 1:
            flat = self._with_given_joined(flat)
        if len(flat) <= 1:
            return next(iter(flat), TRUE)
        key = frozenset(flat)
        return self._conjunctions.get(key) or self._conjunctions.setdefault(
            key, Conjunction(tuple(flat))
        )

    def known_conjunction(self, parts: Iterable[Term]) -> Conjunction | None:
        """Return the conjunction of just these parts, if it was built before."""
        return self._conjunctions.get(frozenset(parts))

    def _with_given_joined(self, flat: dict[Term, None]) -> dict[Term, None]:
        """Return the parts of a conjunction, those of known values as one."""
        known = [
            part
            for part in flat
            if isinstance(part, Evaluated)
            or (isinstance(part, Negation) and isinstance(part.part, Evaluated))
        ]
        if len(known) < 2:
            return flat
        key = frozenset(known)
        if key not in self._joined:
            self._joined[key] = self._join(known)
        joined = self._joined[key]
        if joined is None:
            return flat
        if joined is FALSE:
            return {FALSE: None}
        return {joined: None, **{part: None for part in flat if part not in key}}

    def _join(self, known: Sequence[Term]) -> Term | None:
        given = [part.values for part in known if isinstance(part, Evaluated)]
        without = [
            part.part.values
            for part in known
            if isinstance(part, Negation) and isinstance(part.part, Evaluated)
        ]
        answer = self._algebra.joined(given, without) if given else None
        if answer is None:
            return None
        values, is_nothing = answer
        return FALSE if is_nothing else self.evaluated(values)

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
        """Return the values that exactly one part admits; other pairs share no value.

        Each part, less those that it shares a value with. The complement is what no part admits,
        or two do.
        """
        others: list[list[Term]] = [[] for _ in parts]
        pairs = list(overlapping)
        for i, j in pairs:
            others[i].append(self.negation(parts[j]))
            others[j].append(self.negation(parts[i]))
        one = self.any_of(
            self.all_of((part, *less)) for part, less in zip(parts, others, strict=True)
        )

        def none_or_two(table: TermTable) -> Term:
            none = table.all_of(map(table.negation, parts))
            return table.any_of((none, *(table.all_of((parts[i], parts[j])) for i, j in pairs)))

        return self._complementary(one, none_or_two)

    def conditional(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """Return ``then`` where the condition holds, and ``otherwise`` where it does not."""
        ways = ((condition, then), (self.negation(condition), otherwise))
        return self._complementary(
            self.any_of(map(self.all_of, ways)),
            lambda table: table.any_of(table.all_of((case, table.negation(t))) for case, t in ways),
        )

    def _complementary(self, term: Term, complement: Callable[[TermTable], Term]) -> Term:
        """Note down how to make the negation of a term, smaller than one made from the term."""
        if isinstance(term, Disjunction):
            self._complements[term] = complement
        return term


def _flattened(
    parts: Iterable[Term], kind: type[Conjunction | Disjunction], *, unit: Term, zero: Term
) -> dict[Term, None]:
    """Return the different parts, those of nested combinations of the kind among them.

    ``unit`` changes nothing and is left out; with ``zero``, or a part and its negation, nothing
    else is left.
    """
    flat: dict[Term, None] = {}
    spend()
    for part in parts:
        if isinstance(part, kind):
            flat.update(dict.fromkeys(part.parts))
        elif part is not unit:
            flat[part] = None
    if zero in flat or any(isinstance(part, Negation) and part.part in flat for part in flat):
        return {zero: None}
    return flat
