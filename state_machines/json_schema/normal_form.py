"""Terms to head normal forms, and which terms are empty."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Protocol

from state_machines.errors import InvalidSchemaError, UnsupportedSchemaError
from state_machines.json_schema.array_shape import ArrayShape
from state_machines.json_schema.document import Place
from state_machines.json_schema.inhabited import array_is_inhabited, object_is_inhabited
from state_machines.json_schema.object_shape import ObjectShape
from state_machines.json_schema.terms import (
    FALSE,
    TRUE,
    Conjunction,
    Disjunction,
    Given,
    Located,
    Negation,
    Term,
    TermTable,
)
from state_machines.json_schema.values import (
    ANY_VALUE,
    NO_VALUE,
    Values,
    conjoin,
    disjoin,
    join_known,
    negate,
)

__all__ = ["Normaliser", "TermEvaluationError"]


MAX_NESTING = 120
"""Schemas that may be applied within one another to the same value."""


class KeywordReader(Protocol):
    """What turns the schema at a place into the values its keywords admit."""

    def applies_others(self, place: Place) -> bool:
        """Whether some keyword of the schema applies another schema."""
        ...

    def complement(self, place: Place, normaliser: Normaliser) -> Values:
        """Return the values that the schema does not admit."""
        ...

    def __call__(self, place: Place, normaliser: Normaliser) -> Values: ...


class TermEvaluationError(Exception):
    """A term was asked for while a question about it was being settled."""


class _UnsettledError(Exception):
    """The answer depends on a term about which nothing is known yet."""

    def __init__(self, term: Term) -> None:
        self.term = term


class Normaliser:
    """Evaluates terms, each once; the terms of one compilation."""

    def __init__(self, read_keywords: KeywordReader) -> None:
        self.table = TermTable(self)
        self._read_keywords = read_keywords
        self._values: dict[Term, Values] = {TRUE: ANY_VALUE, FALSE: NO_VALUE}
        self._running: dict[Term, int] = {}
        self._barrier = 0
        self._empty: dict[Term, bool] = {TRUE: False, FALSE: True}

    def plain(self, place: Place) -> Values | None:
        """Return the head normal form of a schema that applies no other, else ``None``."""
        if self._read_keywords.applies_others(place):
            return None
        return self._read_keywords(place, self)

    def joined(
        self, given: Sequence[Hashable], without: Sequence[Hashable]
    ) -> tuple[Hashable, bool] | None:
        """Return what is in all of ``given`` and none of ``without``, and whether it is nothing."""
        values = join_known(_as_values(given), _as_values(without), self.table)
        return None if values is None else (values, values.is_nothing)

    def values(self, term: Term) -> Values:
        """Return the head normal form of a term.

        Raises :class:`~state_machines.errors.SchemaError` for what its schemas do wrong, and for
        a reference that leads back to itself without consuming anything.
        """
        values = self._values.get(term)
        if values is not None:
            return values
        if len(self._running) > MAX_NESTING:
            raise UnsupportedSchemaError(
                f"more than {MAX_NESTING} schemas are nested in place", hint="Flatten them"
            )
        if term in self._running:
            raise self._loop(term)
        self._running[term] = self._barrier
        try:
            values = self._evaluate(term)
        finally:
            del self._running[term]
        self._values[term] = values
        return values

    def _loop(self, term: Term) -> Exception:
        """Return the error for a term that is needed for its own evaluation."""
        if self._running[term] < self._barrier:
            return TermEvaluationError()
        pointers = [t.place.pointer for t in self._running if isinstance(t, Located)]
        return InvalidSchemaError(
            "the schema refers to itself without an array or object in between",
            pointer=pointers[-1] if pointers else "",
            keyword="$ref",
        )

    def _evaluate(self, term: Term) -> Values:
        match term:
            case Located(place):
                return self._read_keywords(place, self)
            case Given(Values() as values):
                return values
            case Conjunction(parts):
                result = ANY_VALUE
                for part in parts:
                    result = conjoin(result, self.values(part), self.table)
                return result
            case Disjunction(parts):
                return disjoin(self.values(part) for part in parts)
            case Negation(part):
                return self._complement(part)
        raise AssertionError(f"no such term: {term}")

    def _complement(self, term: Term) -> Values:
        """Return what is not in a term, by its parts where the whole has many shapes."""
        match term:
            case Disjunction(parts):
                result = ANY_VALUE
                for part in parts:
                    negation = self.table.negation(part)
                    result = conjoin(result, self.values(negation), self.table)
                return result
            case Located(place) if not self._is_simple(term):
                return self._read_keywords.complement(place, self)
            case Conjunction(parts) if not self._is_simple(term):
                return disjoin(self.values(self.table.negation(part)) for part in parts)
        return negate(self.values(term), self.table)

    def _is_simple(self, term: Term) -> bool:
        values = self.values(term)
        return len(values.arrays) <= 1 and len(values.objects) <= 1

    def shape_is_inhabited(self, shape: ArrayShape | ObjectShape) -> bool:
        """Whether some array, or object, has the shape."""

        def ask(term: Term) -> bool:
            return not self.is_empty(term)

        if isinstance(shape, ArrayShape):
            return array_is_inhabited(shape, self.table, ask)
        return object_is_inhabited(shape, self.table, ask)

    def are_disjoint(self, left: Term, right: Term) -> bool:
        """Whether two terms surely share no value.

        ``False`` also where that depends on a term whose evaluation has led to this question.
        """
        self._barrier += 1
        try:
            return self.is_empty(self.table.all_of((left, right)))
        except TermEvaluationError:
            return False
        finally:
            self._barrier -= 1

    def is_empty(self, term: Term) -> bool:
        """Whether no (finite) JSON value is in the term.

        A least fixed point: a term is inhabited if it holds a scalar, or an array or object all
        of whose necessary parts are inhabited.
        """
        known = self._empty.get(term)
        return self._settle(term) if known is None else known

    def _settle(self, start: Term) -> bool:
        """Return whether a term is empty, having settled what that depends on first.

        A term that is asked for within its own question counts as empty there; whoever was told
        so is asked again if that proves wrong.
        """
        stack = [start]
        running = {start}
        told_empty: dict[Term, set[Term]] = {}
        empty: set[Term] = set()

        def ask(term: Term) -> bool:
            known = self._empty.get(term)
            if known is not None:
                return not known
            if term not in running and term not in empty:
                raise _UnsettledError(term)
            told_empty.setdefault(term, set()).add(stack[-1])
            return False

        while stack:
            term = stack[-1]
            try:
                has_value = self._has_value(self.values(term), ask)
            except _UnsettledError as unsettled:
                stack.append(unsettled.term)
                running.add(unsettled.term)
                continue
            stack.pop()
            running.discard(term)
            if not has_value:
                empty.add(term)
                continue
            self._empty[term] = False
            if term is start:
                return False
            again = told_empty.pop(term, set()) & empty
            empty -= again
            stack.extend(again)
            running |= again
        for term in empty:
            self._empty[term] = True
        return True

    def _has_value(self, values: Values, ask: Callable[[Term], bool]) -> bool:
        return (
            values.has_scalar
            or any(array_is_inhabited(shape, self.table, ask) for shape in values.arrays)
            or any(object_is_inhabited(shape, self.table, ask) for shape in values.objects)
        )


def _as_values(given: Iterable[Hashable]) -> list[Values]:
    return [values for values in given if isinstance(values, Values)]
