"""Schemas as terms of a Boolean algebra.

A term denotes a set of JSON values. Terms are built from places in a schema document by *and*,
*or* and *not*, and nothing is evaluated until its head normal form is asked for (see
:mod:`state_machines.json_schema.normal_form`); so recursive schemas are finite terms. Terms are
interned in a :class:`TermTable`, one to a compilation: equal terms are one object.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from state_machines.effort import spend

if TYPE_CHECKING:
    from state_machines.json_schema.document import Place

__all__ = [
    "FALSE",
    "TRUE",
    "Conjunction",
    "Disjunction",
    "Given",
    "Located",
    "Negation",
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
class Located(Term):
    """The values that the schema at a place of the document admits."""

    place: Place


@dataclass(frozen=True, eq=False, slots=True)
class Given(Term):
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


class TermTable:
    """Builds and interns the terms of one compilation."""

    def __init__(self) -> None:
        self._located: dict[object, Located] = {}
        self._conjunctions: dict[frozenset[Term], Conjunction] = {}
        self._disjunctions: dict[frozenset[Term], Disjunction] = {}
        self._negations: dict[Term, Negation] = {}
        self._given: dict[Hashable, Given] = {}

    def located(self, place: Place) -> Term:
        """Return the term of a place; the Boolean schemas are the constants."""
        if place.schema is True or place.schema == {}:
            return TRUE
        if place.schema is False:
            return FALSE
        term = self._located.get(place.key)
        if term is None:
            term = self._located[place.key] = Located(place)
        return term

    def given(self, values: Hashable) -> Term:
        """Return the term of a head normal form."""
        return self._given.get(values) or self._given.setdefault(values, Given(values))

    def all_of(self, parts: Iterable[Term]) -> Term:
        """Return the conjunction of terms."""
        flat = _flattened(parts, Conjunction, unit=TRUE, zero=FALSE)
        if len(flat) <= 1:
            return next(iter(flat), TRUE)
        key = frozenset(flat)
        return self._conjunctions.get(key) or self._conjunctions.setdefault(
            key, Conjunction(tuple(flat))
        )

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
        return self._negations.get(part) or self._negations.setdefault(part, Negation(part))


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
