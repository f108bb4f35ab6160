"""Evaluates terms to head normal forms, and decides which terms are empty."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from threading import local
from typing import Protocol, TypeVar

from state_machines.budgets import Verdict
from state_machines.errors import InvalidSchemaError
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.emptiness import (
    array_is_inhabited,
    object_is_inhabited,
    solve_emptiness,
)
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.quotes import QuoteSources
from state_machines.json_schema.terms import (
    FALSE,
    TRUE,
    Conjunction,
    Disjunction,
    Evaluated,
    Negation,
    SchemaRef,
    Term,
    TermTable,
)
from state_machines.json_schema.trampoline import TermCoroutine, Trampoline, run_independent
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    NO_VALUE,
    ValueSet,
    conjoin,
    conjoin_known,
    disjoin,
    negate,
)
from state_machines.limits import LIMITS

T = TypeVar("T")


class SchemaEvaluator(Protocol):
    """Evaluates the schema at a location, given the evaluator of the terms that it applies."""

    def is_scalar(self, location: SchemaLocation) -> bool:
        """Return whether the schema constrains nothing but scalars, without other schemas."""
        ...

    def values(self, location: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[ValueSet]:
        """Evaluate the values that the schema admits."""
        ...

    def complement(
        self, location: SchemaLocation, evaluator: TermEvaluator
    ) -> TermCoroutine[ValueSet]:
        """Evaluate the values that the schema rejects."""
        ...

    def strings(self, location: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[Node]:
        """Evaluate the strings that the schema admits; only keywords for strings are read."""
        ...


class _CyclicQueryError(Exception):
    """An emptiness query needs a term whose evaluation made the query."""


class _ThreadState(local):
    """The depth of nested emptiness queries, and the terms that were read for their strings."""

    def __init__(self) -> None:
        self.query_depth = 0
        self.read_for_strings: list[Term] = []


class TermEvaluator:
    """Evaluates the terms of one compilation, each once.

    Safe to use from several threads: machines are shared, and terms are evaluated lazily. No lock
    is held during an evaluation; threads share finished results.

    Args:
        schemas: Evaluates the schemas of the document.
        sources: The texts that strings are quoted from.

    Attributes:
        table: Builds the terms of the compilation.
        sources: As passed.
    """

    def __init__(self, schemas: SchemaEvaluator, sources: QuoteSources | None = None) -> None:
        self.sources = sources or QuoteSources()
        self.table = TermTable(self)
        self._schemas = schemas
        self._values = Trampoline(
            TermEvaluator._begin_values,
            TermEvaluator._cycle_error,
            {TRUE: ANY_VALUE, FALSE: NO_VALUE},
        )
        self._strings = Trampoline(
            TermEvaluator._begin_strings,
            TermEvaluator._cycle_error,
            {TRUE: ANY_TEXT, FALSE: EMPTY},
        )
        self._is_empty: dict[Term, bool] = {TRUE: False, FALSE: True}
        self._thread = _ThreadState()

    def empty_copy(self) -> TermEvaluator:
        """Return an evaluator for the same document that has evaluated no term."""
        return TermEvaluator(self._schemas, self.sources)

    def values(self, term: Term) -> ValueSet:
        """Return the head normal form of a term.

        Raises:
            SchemaError: A schema is malformed or unsupported, or applies itself to the same value.
        """
        return self._values.evaluate(self, term, self._thread.query_depth)

    def strings(self, term: Term) -> Node:
        """Return the strings of a term, as a language of code points.

        Only keywords for strings are read, so the term may contain the schema that is being
        evaluated. :meth:`take_terms_read_for_strings` returns the terms whose other keywords are
        still unread.
        """
        if not self._strings.is_evaluated(term):
            self._thread.read_for_strings.append(term)
        return self._strings.evaluate(self, term, self._thread.query_depth)

    def take_terms_read_for_strings(self) -> list[Term]:
        """Return the terms whose strings this thread has read since the last call."""
        taken, self._thread.read_for_strings = self._thread.read_for_strings, []
        return taken

    def scalar_values(self, location: SchemaLocation) -> ValueSet | None:
        """Return the head normal form of a schema that constrains only scalars, else ``None``."""
        if not self._schemas.is_scalar(location):
            return None
        return run_independent(self._schemas.values(location, self))

    def conjoin_known(
        self, included: Sequence[Hashable], excluded: Sequence[Hashable]
    ) -> tuple[Hashable, bool] | None:
        """Return the values in all of ``included`` and none of ``excluded``, and whether none is.

        Returns:
            ``None`` if the result could have more shapes than the arguments.
        """
        values = conjoin_known(_as_value_sets(included), _as_value_sets(excluded), self.table)
        return None if values is None else (values, values.is_nothing)

    def shape_is_inhabited(self, shape: ArrayShape | ObjectShape) -> bool:
        """Return whether some array or object has the shape."""

        def is_inhabited(term: Term) -> bool:
            return not self.is_empty(term)

        if isinstance(shape, ArrayShape):
            return array_is_inhabited(shape, self.table, is_inhabited)
        return object_is_inhabited(shape, self.table, is_inhabited)

    def is_empty(self, term: Term) -> bool:
        """Return whether a term has no (finite) JSON value."""
        known = self._is_empty.get(term)
        if known is None:
            return solve_emptiness(term, self._is_empty, self.values, self.table)
        return known

    def are_disjoint(self, left: Term, right: Term) -> Verdict:
        """Return whether two terms share no value.

        Not known if the result depends on a term whose evaluation made this query, or if too many
        queries are nested.
        """
        both = self.table.all_of((left, right))
        is_empty = self._query(lambda: self.is_empty(both))
        return Verdict.UNKNOWN if is_empty is None else Verdict.of(is_empty)

    def values_unless_cyclic(self, term: Term) -> ValueSet | None:
        """Return the head normal form of a term; ``None`` if it depends on the one in progress."""
        return self._query(lambda: self.values(term))

    def _query(self, compute: Callable[[], T]) -> T | None:
        thread = self._thread
        if thread.query_depth >= LIMITS.nested_emptiness_queries:
            return None
        thread.query_depth += 1
        try:
            return compute()
        except _CyclicQueryError:
            return None
        finally:
            thread.query_depth -= 1

    def _cycle_error(self, term: Term, query_depth: int) -> Exception:
        """Return the error for a term that its own evaluation needs."""
        if query_depth < self._thread.query_depth:
            return _CyclicQueryError()
        active = (*self._strings.active_terms(), *self._values.active_terms())
        pointers = [t.location.pointer for t in active if isinstance(t, SchemaRef)]
        return InvalidSchemaError(
            "the schema refers to itself without an array or object in between",
            pointer=pointers[0] if pointers else "",
            keyword="$ref",
            hint="Remove the reference, or put it below properties or items",
        )

    def _begin_values(self, term: Term) -> TermCoroutine[ValueSet]:
        match term:
            case SchemaRef(location):
                return self._schemas.values(location, self)
            case Evaluated(ValueSet() as values):
                return _finished(values)
            case Conjunction(parts):
                return _reduced(
                    self._with_shared_prefix(parts), lambda a, b: conjoin(a, b, self.table)
                )
            case Disjunction(parts):
                return _combined(parts, disjoin)
            case Negation(part):
                return self._complement(part)
        raise AssertionError(f"not a term: {term}")

    def _with_shared_prefix(self, parts: tuple[Term, ...]) -> Sequence[Term]:
        """Return the parts of a conjunction, all but the last as one evaluated term if possible."""
        if len(parts) > 2:
            others = self.table.known_conjunction(parts[:-1])
            if others is not None and self._values.is_evaluated(others):
                return others, parts[-1]
        return parts

    def _complement(self, term: Term) -> TermCoroutine[ValueSet]:
        """Evaluate the complement of a term.

        De Morgan's laws are applied to terms with many shapes, because the product of the shapes'
        complements could be large.
        """
        if isinstance(term, Disjunction):
            negations = [self.table.negation(part) for part in term.parts]
            return (yield from _reduced(negations, lambda a, b: conjoin(a, b, self.table)))
        values = yield term
        if len(values.arrays) > 1 or len(values.objects) > 1:
            if isinstance(term, SchemaRef):
                return (yield from self._schemas.complement(term.location, self))
            if isinstance(term, Conjunction):
                negations = [self.table.negation(part) for part in term.parts]
                return (yield from _combined(negations, disjoin))
        return negate(values, self.table)

    def _begin_strings(self, term: Term) -> TermCoroutine[Node]:
        match term:
            case SchemaRef(location):
                return self._schemas.strings(location, self)
            case Evaluated(ValueSet() as values):
                return _finished(values.strings)
            case Conjunction(parts):
                return _combined(parts, intersection)
            case Disjunction(parts):
                return _combined(parts, union)
            case Negation(part):
                return _combined((part,), lambda found: complement(found[0], ANY_CODE_POINT))
        raise AssertionError(f"not a term: {term}")


def _as_value_sets(values: Iterable[Hashable]) -> list[ValueSet]:
    return [each for each in values if isinstance(each, ValueSet)]


def _finished(value: T) -> TermCoroutine[T]:
    return value
    yield


def _combined(parts: Sequence[Term], combine: Callable[[list[T]], T]) -> TermCoroutine[T]:
    results = []
    for part in parts:
        results.append((yield part))
    return combine(results)


def _reduced(parts: Sequence[Term], combine_two: Callable[[T, T], T]) -> TermCoroutine[T]:
    result = yield parts[0]
    for part in parts[1:]:
        result = combine_two(result, (yield part))
    return result
