"""Working out terms from other terms, each once, on a stack that Python's does not bound."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from threading import local
from typing import Generic, TypeVar

from state_machines.errors import GrammarBudgetError, SchemaError
from state_machines.json_schema.terms import Term

__all__ = ["Evaluation", "TermCoroutine", "finished"]

T = TypeVar("T")
_Asker = TypeVar("_Asker")

TermCoroutine = Generator[Term, T, T]
"""What works a term out: yields the terms that it needs, is sent what they come to, returns."""


class _Running(local):
    """The terms that this thread is working out, each with the questions open at its start."""

    def __init__(self) -> None:
        self.terms: dict[Term, int] = {}


class Evaluation(Generic[_Asker, T]):
    """What terms come to. A schema may be nested deeper than Python's stack goes.

    ``begin`` gives the steps of a term, and ``loop`` the error for a term that is needed for
    itself, given how many questions were open when its evaluation began. Both are told who asks,
    for whoever holds on to an evaluation must not be held by it.

    Safe to use from several threads, without a lock: a thread sees the finished results of others,
    and nothing of their work. Two that need the same term at once may both work it out.
    """

    def __init__(
        self,
        begin: Callable[[_Asker, Term], TermCoroutine[T]],
        loop: Callable[[_Asker, Term, int], Exception],
        known: dict[Term, T],
    ) -> None:
        self._begin = begin
        self._loop = loop
        self._known = known
        self._running = _Running()

    def of(self, asker: _Asker, term: Term, questions: int) -> T:
        """Return what a term comes to; ``questions`` are open."""
        known = self._known.get(term)
        return self._work_out(asker, term, questions) if known is None else known

    def knows(self, term: Term) -> bool:
        """Whether a term has been worked out."""
        return term in self._known

    def running(self) -> Iterator[Term]:
        """Yield the terms being worked out, innermost first."""
        return reversed(self._running.terms)

    def _work_out(self, asker: _Asker, term: Term, questions: int) -> T:
        stack = [(term, self._enter(asker, term, questions))]
        result: T | None = None
        error: Exception | None = None
        try:
            while True:
                term, steps = stack[-1]
                try:
                    needed = steps.throw(error) if error else _resume(steps, result)
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
                    # Whose place is still to be found is told to the terms that needed it.
                    if not stack or (isinstance(raised, SchemaError) and raised.is_located):
                        raise
                    error = raised
                    continue
                result = self._known.get(needed)
                if result is None:
                    try:
                        stack.append((needed, self._enter(asker, needed, questions)))
                    except SchemaError as raised:
                        error = raised
        finally:
            while stack:
                self._leave(stack)

    def _enter(self, asker: _Asker, term: Term, questions: int) -> TermCoroutine[T]:
        running = self._running.terms
        if term in running:
            raise self._loop(asker, term, running[term])
        running[term] = questions
        return self._begin(asker, term)

    def _leave(self, stack: list[tuple[Term, TermCoroutine[T]]]) -> None:
        term, steps = stack.pop()
        del self._running.terms[term]
        steps.close()


def _resume(steps: TermCoroutine[T], result: T | None) -> Term:
    return next(steps) if result is None else steps.send(result)


def finished(steps: TermCoroutine[T]) -> T:
    """Return what steps that need no other term come to."""
    try:
        next(steps)
    except StopIteration as stop:
        value: T = stop.value
        return value
    raise AssertionError("another term was needed")
