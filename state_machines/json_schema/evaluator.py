"""Evaluates terms to head normal forms, and decides which terms are empty."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from threading import local
from typing import Any, TypeVar, cast

from state_machines.budgets import Verdict
from state_machines.errors import InvalidSchemaError
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.dialects import SchemaOptions
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.objects.clause_solver import object_is_inhabited
from state_machines.json_schema.objects.object_shape import ObjectShape
from state_machines.json_schema.terms import (
    FALSE,
    TRUE,
    Conjunction,
    Disjunction,
    Evaluated,
    Negation,
    Term,
    TermTable,
)
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
from state_machines.quotes import QuoteSources

T = TypeVar("T")


class _CyclicQueryError(Exception):
    """An emptiness query needs a term whose evaluation made the query."""


class _UnknownTermError(Exception):
    """The emptiness of a term depends on that of another, which has not been visited."""

    def __init__(self, term: Term) -> None:
        self.term = term


class _ThreadState(local):
    """What this thread is evaluating.

    Attributes:
        query_depth: The number of nested emptiness queries.
        values: The terms that are being evaluated, each with the query depth at its start.
        strings: The terms whose strings are being evaluated, likewise.
        read_for_strings: The terms that were read for their strings alone.
    """

    def __init__(self) -> None:
        self.query_depth = 0
        self.values: dict[Term, int] = {}
        self.strings: dict[Term, int] = {}
        self.read_for_strings: list[Term] = []


class TermEvaluator(TermTable):
    """Builds and evaluates the terms of one compilation, each once.

    Safe to use from several threads: machines are shared, and terms are evaluated lazily. No lock
    is held during an evaluation; threads share finished results. Two threads that need the same
    term at the same time may both evaluate it.

    The subclass :class:`~state_machines.json_schema.keywords.SchemaReader` evaluates the
    schemas of a document.

    Args:
        options: How schemas are read.
        sources: The texts that strings are quoted from.

    Attributes:
        sources: As passed.
        json_texts: Returns the JSON texts of a term's values, as a language of code points, given
            the evaluator; ``None`` if no string contains JSON.
    """

    def __init__(self, options: SchemaOptions, sources: QuoteSources) -> None:
        super().__init__()
        self._options = options
        self._closed: dict[Term, ValueSet] = {}
        self.sources = sources
        self.json_texts: Callable[[Any, Term], Node] | None = None
        self._values: dict[Term, ValueSet] = {TRUE: ANY_VALUE, FALSE: NO_VALUE}
        self._strings: dict[Term, Node] = {TRUE: ANY_TEXT, FALSE: EMPTY}
        self._is_empty: dict[Term, bool] = {TRUE: False, FALSE: True}
        self._inhabited: dict[ArrayShape | ObjectShape, bool] = {}
        self._is_empty_closed = self._is_empty.copy()
        self._thread = _ThreadState()

    @abstractmethod
    def schema_values(self, location: SchemaLocation) -> ValueSet:
        """Return the values that a schema admits."""

    @abstractmethod
    def schema_complement(self, location: SchemaLocation) -> ValueSet:
        """Return the values that a schema rejects."""

    @abstractmethod
    def schema_strings(self, location: SchemaLocation) -> Node:
        """Return the strings that a schema admits; only keywords for strings are read."""

    def values(self, term: Term) -> ValueSet:
        """Return the values of a term that are generated: all, or those of closed containers.

        Closing leaves out values, but never all of them.

        Raises:
            SchemaError: As for :meth:`admitted`.
        """
        if self._options.additional_properties == "schema":
            return self.admitted(term)
        known = self._closed.get(term)
        if known is None:
            known = self._closed[term] = self._closed_values(self.admitted(term))
        return known

    def _closed_values(self, values: ValueSet) -> ValueSet:
        objects = tuple(dict.fromkeys(map(self._closed_shape, values.objects)))
        arrays = values.arrays
        if self._options.closes_arrays:
            arrays = tuple(dict.fromkeys(shape.closed() for shape in arrays))
        return replace(values, arrays=arrays, objects=objects)

    def _closed_shape(self, shape: ObjectShape) -> ObjectShape:
        """Return a closed shape if it still has finite objects.

        Required members are the same in both shapes. Further members, up to the least number, may
        be recursive: the recursion may end only in objects with names that no schema lists.
        """
        closed = shape.closed(self)
        if closed is shape or not self.shape_is_inhabited(closed):
            return shape
        needs_more = closed.min_members > len(closed.required)
        if needs_more and not self._is_inhabited(closed, self._has_closed_value):
            return shape
        return closed

    def _has_closed_value(self, term: Term) -> bool:
        """Return whether a term has a value if all objects below are closed."""

        def closed_values(inner: Term) -> ValueSet:
            values = self.admitted(inner)
            return replace(values, objects=tuple(shape.closed(self) for shape in values.objects))

        known = self._is_empty_closed
        if term not in known:
            known[term] = self._solve_emptiness(term, closed_values, known)
        return not known[term]

    def admitted(self, term: Term) -> ValueSet:
        """Return the head normal form of a term.

        Raises:
            SchemaError: A schema is malformed or unsupported, or applies itself to the same value.
        """
        known = self._values.get(term)
        if known is None:
            active = self._enter(term, self._thread.values)
            try:
                known = self._values.setdefault(term, self._evaluate(term))
            finally:
                del active[term]
        return known

    def strings(self, term: Term) -> Node:
        """Return the strings of a term, as a language of code points.

        Only keywords for strings are read, so the term may contain the schema that is being
        evaluated. :meth:`take_terms_read_for_strings` returns the terms whose other keywords are
        still unread.
        """
        # As above, and no function of both: it would take a frame at each level of a schema.
        known = self._strings.get(term)
        if known is None:
            active = self._enter(term, self._thread.strings)
            try:
                known = self._strings.setdefault(term, self._evaluate_strings(term))
            finally:
                del active[term]
        return known

    def take_terms_read_for_strings(self) -> list[Term]:
        """Return the terms whose strings this thread has read since the last call."""
        taken, self._thread.read_for_strings = self._thread.read_for_strings, []
        return taken

    def conjoin_known(
        self, included: Sequence[Evaluated], excluded: Sequence[Evaluated]
    ) -> Term | None:
        """Return the values in all of ``included`` and none of ``excluded``.

        Returns:
            ``None`` if the result could have more shapes than the arguments.
        """
        inside, outside = list(map(self.admitted, included)), list(map(self.admitted, excluded))
        values = conjoin_known(inside, outside, self)
        if values is None:
            return None
        return FALSE if values.is_nothing else self.evaluated(values)

    def shape_is_inhabited(self, shape: ArrayShape | ObjectShape) -> bool:
        """Return whether some array or object has the shape."""
        known = self._inhabited.get(shape)
        if known is None:
            known = self._is_inhabited(shape, lambda term: not self.is_empty(term))
            self._inhabited[shape] = known
        return known

    def _is_inhabited(
        self, shape: ArrayShape | ObjectShape, has_value: Callable[[Term], bool]
    ) -> bool:
        if isinstance(shape, ArrayShape):
            return shape.is_inhabited(self, has_value)
        return object_is_inhabited(shape, self, has_value)

    def is_empty(self, term: Term) -> bool:
        """Return whether a term has no (finite) JSON value."""
        known = self._is_empty.get(term)
        if known is None:
            known = not self.admitted(term).has_scalar and self._solve_emptiness(
                term, self.admitted, self._is_empty
            )
            self._is_empty[term] = known
        return known

    def _solve_emptiness(
        self, start: Term, values_of: Callable[[Term], ValueSet], known: dict[Term, bool]
    ) -> bool:
        """Return whether a term is empty, and store all results found in ``known``.

        A term is inhabited if it contains a scalar, or an array or object all of whose required
        parts are inhabited. Values are finite, so a recursive term is inhabited only if the
        recursion can end. Least fixed point: a term on the stack counts as empty. If it turns out
        inhabited, the terms that were decided on that assumption are decided again.
        """
        stack = [start]
        on_stack = {start}
        dependants: dict[Term, dict[Term, None]] = {}
        assumed_empty: set[Term] = set()

        def has_value(term: Term) -> bool:
            is_empty = known.get(term)
            if is_empty is not None:
                return not is_empty
            if term not in on_stack and term not in assumed_empty:
                raise _UnknownTermError(term)
            dependants.setdefault(term, {})[stack[-1]] = None
            return False

        while stack:
            term = stack[-1]
            values = values_of(term)
            shapes: tuple[ArrayShape | ObjectShape, ...] = (*values.arrays, *values.objects)
            try:
                is_inhabited = values.has_scalar or any(
                    self._is_inhabited(shape, has_value) for shape in shapes
                )
            except _UnknownTermError as unknown:
                stack.append(unknown.term)
                on_stack.add(unknown.term)
                continue
            stack.pop()
            on_stack.discard(term)
            if not is_inhabited:
                assumed_empty.add(term)
                continue
            known[term] = False
            if term is start:
                return False
            again = [each for each in dependants.pop(term, {}) if each in assumed_empty]
            assumed_empty.difference_update(again)
            stack.extend(again)
            on_stack.update(again)
        known.update(dict.fromkeys(assumed_empty, True))
        return True

    def are_disjoint(self, left: Term, right: Term) -> Verdict:
        """Return whether two terms share no value.

        Not known if the result depends on a term whose evaluation made this query, or if too many
        queries are nested.
        """
        both = self.all_of((left, right))
        is_empty = self._query(lambda: self.is_empty(both))
        return Verdict.UNKNOWN if is_empty is None else Verdict.of(is_empty)

    def admitted_unless_cyclic(self, term: Term) -> ValueSet | None:
        """Return the head normal form of a term; ``None`` if it depends on the one in progress."""
        return self._query(lambda: self.admitted(term))

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

    def _enter(self, term: Term, active: dict[Term, int]) -> dict[Term, int]:
        """Note that the evaluation of a term begins.

        Raises:
            SchemaError: The term is being evaluated.
        """
        thread = self._thread
        if term not in active:
            active[term] = thread.query_depth
            return active
        if active[term] < thread.query_depth:
            raise _CyclicQueryError
        terms = (*reversed(thread.strings), *reversed(thread.values))
        pointers = (each.pointer for each in terms if isinstance(each, SchemaLocation))
        raise InvalidSchemaError(
            "the schema refers to itself without an array or object in between",
            pointer=next(pointers, ""),
            keyword="$ref",
            hint="Remove the reference, or put it below properties or items",
        )

    def _evaluate(self, term: Term) -> ValueSet:
        match term:
            case SchemaLocation():
                return self.schema_values(term)
            case Evaluated(values):
                return cast("ValueSet", values)
            case Conjunction(parts):
                return self._conjoined(self._with_shared_prefix(parts))
            case Disjunction(parts):
                return disjoin([self.admitted(part) for part in parts])
            case Negation(part):
                return self._complement(part)
        raise AssertionError(f"not a term: {term}")

    def _conjoined(self, parts: Sequence[Term]) -> ValueSet:
        return reduce(lambda a, b: conjoin(a, b, self), [self.admitted(part) for part in parts])

    def _with_shared_prefix(self, parts: tuple[Term, ...]) -> Sequence[Term]:
        """Return the parts of a conjunction, all but the last as one evaluated term if possible."""
        if len(parts) > 2:
            others = self.known_conjunction(parts[:-1])
            if others in self._values:
                return others, parts[-1]
        return parts

    def _complement(self, term: Term) -> ValueSet:
        """Return the complement of a term.

        De Morgan's laws are applied to terms with many shapes, because the product of the shapes'
        complements could be large.
        """
        if isinstance(term, Disjunction):
            return self._conjoined([self.negation(part) for part in term.parts])
        values = self.admitted(term)
        if len(values.arrays) > 1 or len(values.objects) > 1:
            if isinstance(term, SchemaLocation):
                return self.schema_complement(term)
            if isinstance(term, Conjunction):
                return disjoin([self.admitted(self.negation(part)) for part in term.parts])
        return negate(values, self)

    def _evaluate_strings(self, term: Term) -> Node:
        self._thread.read_for_strings.append(term)
        match term:
            case SchemaLocation():
                return self.schema_strings(term)
            case Evaluated(values):
                return cast("ValueSet", values).strings
            case Conjunction(parts):
                return intersection([self.strings(part) for part in parts])
            case Disjunction(parts):
                return union([self.strings(part) for part in parts])
            case Negation(part):
                return complement(self.strings(part), ANY_CODE_POINT)
        raise AssertionError(f"not a term: {term}")
