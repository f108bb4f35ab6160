"""Memoized evaluation of terms on an explicit stack.

Schemas may be nested more deeply than Python's call stack allows. So the evaluation of a term is a
generator that yields the terms that it needs, and a trampoline runs these generators.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from threading import local
from typing import Generic, TypeVar

from state_machines.errors import GrammarBudgetError, SchemaError
from state_machines.json_schema.terms import Term

T = TypeVar("T")
_Owner = TypeVar("_Owner")

TermCoroutine = Generator[Term, T, T]
"""The evaluation of one term: yields needed terms, is sent their results, returns its own."""


class _ActiveTerms(local):
    """The terms that this thread is evaluating, each with the query depth at its start."""

    def __init__(self) -> None:
        self.terms: dict[Term, int] = {}


class Trampoline(Generic[_Owner, T]):
    """Evaluates terms, each once.

    Safe to use from several threads, without a lock: threads share finished results only. Two
    threads that need the same term at the same time may both evaluate it.

    The owner of the trampoline is passed to every call, because a stored reference to it would be a
    reference cycle.

    Args:
        begin: Returns the evaluation of a term, given the owner and the term.
        on_cycle: Returns the error for a term that its own evaluation needs, given the owner, the
            term, and the query depth when its evaluation began.
        known: The initial results.
    """

    def __init__(
        self,
        begin: Callable[[_Owner, Term], TermCoroutine[T]],
        on_cycle: Callable[[_Owner, Term, int], Exception],
        known: dict[Term, T],
    ) -> None:
        self._begin = begin
        self._on_cycle = on_cycle
        self._known = known
        self._active = _ActiveTerms()

    def evaluate(self, owner: _Owner, term: Term, query_depth: int) -> T:
        """Return the result of a term.

        Args:
            owner: The owner of this trampoline.
            term: The term.
            query_depth: The number of emptiness queries on this thread's stack.
        """
        known = self._known.get(term)
        return self._run(owner, term, query_depth) if known is None else known

    def is_evaluated(self, term: Term) -> bool:
        """Return whether the result of a term is known."""
        return term in self._known

    def active_terms(self) -> Iterator[Term]:
        """Yield the terms that this thread is evaluating, innermost first."""
        return reversed(self._active.terms)

    def _run(self, owner: _Owner, term: Term, query_depth: int) -> T:
        stack = [(term, self._enter(owner, term, query_depth))]
        result: T | None = None
        error: Exception | None = None
        try:
            while True:
                term, coroutine = stack[-1]
                try:
                    needed = coroutine.throw(error) if error else _resume(coroutine, result)
                    error = result = None
                except StopIteration as stop:
                    known: T = self._known.setdefault(term, stop.value)
                    error, result = None, known
                    self._leave(stack)
                    if not stack:
                        return known
                    continue
                except (SchemaError, GrammarBudgetError, RecursionError) as raised:
                    self._leave(stack)
                    # An error without a pointer is thrown into the term that needed this one, which
                    # may know the location.
                    if not stack or (isinstance(raised, SchemaError) and raised.is_located):
                        raise
                    error = raised
                    continue
                result = self._known.get(needed)
                if result is None:
                    try:
                        stack.append((needed, self._enter(owner, needed, query_depth)))
                    except SchemaError as raised:
                        error = raised
        finally:
            while stack:
                self._leave(stack)

    def _enter(self, owner: _Owner, term: Term, query_depth: int) -> TermCoroutine[T]:
        active = self._active.terms
        if term in active:
            raise self._on_cycle(owner, term, active[term])
        active[term] = query_depth
        return self._begin(owner, term)

    def _leave(self, stack: list[tuple[Term, TermCoroutine[T]]]) -> None:
        term, coroutine = stack.pop()
        del self._active.terms[term]
        coroutine.close()


def _resume(coroutine: TermCoroutine[T], result: T | None) -> Term:
    return next(coroutine) if result is None else coroutine.send(result)


def run_independent(coroutine: TermCoroutine[T]) -> T:
    """Return the result of an evaluation that needs no other term."""
    try:
        next(coroutine)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("the evaluation needs another term")
