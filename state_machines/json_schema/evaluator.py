"""Terms to head normal forms, and which terms are empty."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from threading import local
from typing import Protocol, TypeVar

from state_machines.errors import InvalidSchemaError
from state_machines.grammar.boolean import complement, intersection
from state_machines.grammar.node import EMPTY, Node
from state_machines.grammar.nodes import union
from state_machines.grammar.symbols import ANY_CODE_POINT
from state_machines.json_schema.arrays.array_shape import ArrayShape
from state_machines.json_schema.document import SchemaLocation
from state_machines.json_schema.inhabited import array_is_inhabited, object_is_inhabited
from state_machines.json_schema.objects.object_shape import ObjectShape
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
from state_machines.json_schema.trampoline import Evaluation, TermCoroutine, finished
from state_machines.json_schema.value_sets import (
    ANY_TEXT,
    ANY_VALUE,
    NO_VALUE,
    ValueSet,
    conjoin,
    disjoin,
    join_known,
    negate,
)
from state_machines.limits import LIMITS

__all__ = ["KeywordReader", "TermEvaluationError", "TermEvaluator"]

T = TypeVar("T")


_Answer = TypeVar("_Answer")


class KeywordReader(Protocol):
    """What turns the schema at a place into what its keywords come to together."""

    def applies_others(self, place: SchemaLocation) -> bool:
        """Whether some keyword of the schema applies another schema."""
        ...

    def values(self, place: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[ValueSet]:
        """Work out the values that the schema admits."""
        ...

    def complement(
        self, place: SchemaLocation, evaluator: TermEvaluator
    ) -> TermCoroutine[ValueSet]:
        """Work out the values that the schema does not admit."""
        ...

    def strings(self, place: SchemaLocation, evaluator: TermEvaluator) -> TermCoroutine[Node]:
        """Work out the strings that the schema admits, looking at nothing else."""
        ...


class TermEvaluationError(Exception):
    """A term was asked for while a question about it was being settled."""


class _UnsettledError(Exception):
    """The answer depends on a term about which nothing is known yet."""

    def __init__(self, term: Term) -> None:
        self.term = term


class _Work(local):
    """The open questions of one thread about emptiness, and the terms read for their strings."""

    def __init__(self) -> None:
        self.questions = 0
        self.read_for_strings: list[Term] = []


class TermEvaluator:
    """Evaluates terms, each once; the terms of one compilation.

    Safe to use from several threads: machines are shared, and what an answer did not need is
    evaluated later. No lock is held over work; results are shared when they are finished.
    """

    def __init__(self, keywords: KeywordReader) -> None:
        self.table = TermTable(self)
        self._keywords = keywords
        self._values = Evaluation(
            TermEvaluator._begin, TermEvaluator._loop, {TRUE: ANY_VALUE, FALSE: NO_VALUE}
        )
        self._strings = Evaluation(
            TermEvaluator._begin_strings, TermEvaluator._loop, {TRUE: ANY_TEXT, FALSE: EMPTY}
        )
        self._empty: dict[Term, bool] = {TRUE: False, FALSE: True}
        self._work = _Work()

    def empty_copy(self) -> TermEvaluator:
        """Return one that reads keywords in the same way and knows no term yet."""
        return TermEvaluator(self._keywords)

    def plain(self, place: SchemaLocation) -> ValueSet | None:
        """Return the head normal form of a schema that applies no other, else ``None``."""
        if self._keywords.applies_others(place):
            return None
        return finished(self._keywords.values(place, self))

    def joined(
        self, given: Sequence[Hashable], without: Sequence[Hashable]
    ) -> tuple[Hashable, bool] | None:
        """Return what is in all of ``given`` and none of ``without``, and whether it is nothing."""
        values = join_known(_as_values(given), _as_values(without), self.table)
        return None if values is None else (values, values.is_nothing)

    def values(self, term: Term) -> ValueSet:
        """Return the head normal form of a term.

        Raises :class:`~state_machines.errors.SchemaError` for what its schemas do wrong, and for
        a reference that leads back to itself without consuming anything.
        """
        return self._values.of(self, term, self._work.questions)

    def strings(self, term: Term) -> Node:
        """Return the strings of a term, as a language of code points.

        What is said of other types is not looked at, so it may be the very thing being
        evaluated; :meth:`take_read_for_strings` tells whose rest is unread.
        """
        if not self._strings.knows(term):
            self._work.read_for_strings.append(term)
        return self._strings.of(self, term, self._work.questions)

    def take_read_for_strings(self) -> list[Term]:
        """Return the terms whose strings were asked for since this was last called."""
        taken, self._work.read_for_strings = self._work.read_for_strings, []
        return taken

    def _loop(self, term: Term, questions: int) -> Exception:
        """Return the error for a term that is needed for its own evaluation."""
        if questions < self._work.questions:
            return TermEvaluationError()
        running = (*self._strings.running(), *self._values.running())
        pointers = [t.place.pointer for t in running if isinstance(t, SchemaRef)]
        return InvalidSchemaError(
            "the schema refers to itself without an array or object in between",
            pointer=pointers[0] if pointers else "",
            keyword="$ref",
        )

    def _begin(self, term: Term) -> TermCoroutine[ValueSet]:
        match term:
            case SchemaRef(place):
                return self._keywords.values(place, self)
            case Evaluated(ValueSet() as values):
                return _ready(values)
            case Conjunction(parts):
                return _folded(self._shared(parts), lambda a, b: conjoin(a, b, self.table))
            case Disjunction(parts):
                return _gathered(parts, disjoin)
            case Negation(part):
                return self._complement(part)
        raise AssertionError(f"no such term: {term}")

    def _shared(self, parts: tuple[Term, ...]) -> Sequence[Term]:
        """Return the parts of a conjunction, all but the last as one that was evaluated before."""
        if len(parts) > 2:
            others = self.table.known_conjunction(parts[:-1])
            if others is not None and self._values.knows(others):
                return others, parts[-1]
        return parts

    def _complement(self, term: Term) -> TermCoroutine[ValueSet]:
        """Work out what is not in a term, by its parts where the whole has many shapes."""
        if isinstance(term, Disjunction):
            negations = [self.table.negation(part) for part in term.parts]
            return (yield from _folded(negations, lambda a, b: conjoin(a, b, self.table)))
        values = yield term
        if len(values.arrays) > 1 or len(values.objects) > 1:
            if isinstance(term, SchemaRef):
                return (yield from self._keywords.complement(term.place, self))
            if isinstance(term, Conjunction):
                negations = [self.table.negation(part) for part in term.parts]
                return (yield from _gathered(negations, disjoin))
        return negate(values, self.table)

    def _begin_strings(self, term: Term) -> TermCoroutine[Node]:
        match term:
            case SchemaRef(place):
                return self._keywords.strings(place, self)
            case Evaluated(ValueSet() as values):
                return _ready(values.strings)
            case Conjunction(parts):
                return _gathered(parts, intersection)
            case Disjunction(parts):
                return _gathered(parts, union)
            case Negation(part):
                return _gathered((part,), lambda found: complement(found[0], ANY_CODE_POINT))
        raise AssertionError(f"no such term: {term}")

    def shape_is_inhabited(self, shape: ArrayShape | ObjectShape) -> bool:
        """Whether some array, or object, has the shape."""

        def ask(term: Term) -> bool:
            return not self.is_empty(term)

        if isinstance(shape, ArrayShape):
            return array_is_inhabited(shape, self.table, ask)
        return object_is_inhabited(shape, self.table, ask)

    def are_disjoint(self, left: Term, right: Term) -> bool:
        """Whether two terms surely share no value.

        ``False`` also where that depends on a term whose evaluation has led to this question, and
        where too many questions have led to this one.
        """
        both = self.table.all_of((left, right))
        return bool(self._asked(lambda: self.is_empty(both)))

    def values_unless_running(self, term: Term) -> ValueSet | None:
        """Return the head normal form of a term, if that does not depend on this question."""
        return self._asked(lambda: self.values(term))

    def _asked(self, question: Callable[[], _Answer]) -> _Answer | None:
        work = self._work
        if work.questions >= LIMITS.nested_emptiness_questions:
            return None
        work.questions += 1
        try:
            return question()
        except TermEvaluationError:
            return None
        finally:
            work.questions -= 1

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
        told_empty: dict[Term, dict[Term, None]] = {}
        empty: set[Term] = set()

        def ask(term: Term) -> bool:
            known = self._empty.get(term)
            if known is not None:
                return not known
            if term not in running and term not in empty:
                raise _UnsettledError(term)
            told_empty.setdefault(term, {})[stack[-1]] = None
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
            again = [told for told in told_empty.pop(term, {}) if told in empty]
            empty.difference_update(again)
            stack.extend(again)
            running.update(again)
        for term in empty:
            self._empty[term] = True
        return True

    def _has_value(self, values: ValueSet, ask: Callable[[Term], bool]) -> bool:
        return (
            values.has_scalar
            or any(array_is_inhabited(shape, self.table, ask) for shape in values.arrays)
            or any(object_is_inhabited(shape, self.table, ask) for shape in values.objects)
        )


def _as_values(given: Iterable[Hashable]) -> list[ValueSet]:
    return [values for values in given if isinstance(values, ValueSet)]


def _ready(value: T) -> TermCoroutine[T]:
    return value
    yield


def _gathered(parts: Sequence[Term], combine: Callable[[list[T]], T]) -> TermCoroutine[T]:
    found = []
    for part in parts:
        found.append((yield part))
    return combine(found)


def _folded(parts: Sequence[Term], both: Callable[[T, T], T]) -> TermCoroutine[T]:
    result = yield parts[0]
    for part in parts[1:]:
        result = both(result, (yield part))
    return result
