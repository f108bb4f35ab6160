"""What all state machines have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast
from weakref import finalize

from state_machines.budgets import spend, step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    InvalidPatternError,
    UnsupportedPatternError,
)
from state_machines.grammar.deep import compute_word_derivative
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node, release
from state_machines.grammar.tries import literals
from state_machines.limits import LIMITS
from state_machines.matcher import Matcher
from state_machines.regex import compile_pattern
from state_machines.vocabulary import Vocabulary

__all__ = ["ChoiceStateMachine", "RegexStateMachine", "StateMachine"]


class StateMachine:
    """A language of texts, given by the node of its first state.

    A machine is immutable and may be shared by any number of matchers and threads. Its states refer
    to one another in cycles; the machine owns them, and breaks the cycles when it is freed.

    Args:
        start: The state before the first byte.
        forget: Gives up what the machine's compiler has stored, and returns its nodes, to be
            released with the machine. Must not refer to the machine.
    """

    def __init__(self, start: Node, forget: Callable[[], Iterable[Node]] | None = None) -> None:
        self.start = start
        self.steps_taken = 0
        """Derivatives that matchers have stored in the machine's states since :meth:`trim`."""
        if forget is not None:
            finalize(self, _release, start, forget).atexit = False

    def matcher(self, vocabulary: Vocabulary) -> Matcher:
        """Return a matcher at the beginning of the text; cheap."""
        self.trim()
        return Matcher(self.start, vocabulary, self)

    def trim(self) -> None:
        """Let go of the states that earlier texts have led to, if these are many.

        A machine remembers the states it has met. Of some languages there is no end of them.
        """
        if self.steps_taken > LIMITS.machine_steps:
            self.steps_taken = 0
            release((self.start,))

    def matches(self, text: str | bytes) -> bool:
        """Whether a whole text is one of the machine's.

        The work is not bounded, but for what :func:`~state_machines.budgets.step_budget` says.
        Raises :class:`~state_machines.errors.GrammarBudgetError` for a text that a grammar reads in
        too many ways.
        """
        return compute_word_derivative(
            self.start, text.encode() if isinstance(text, str) else text
        ).nullable

    def begins(self, text: str | bytes) -> bool:
        """Whether one of the machine's texts begins so; bytes may end inside a character.

        See :meth:`matches`.
        """
        return (
            compute_word_derivative(self.start, text.encode() if isinstance(text, str) else text)
            is not EMPTY
        )


def _release(start: Node, forget: Callable[[], Iterable[Node]]) -> None:
    release((start, *forget()))


class RegexStateMachine(StateMachine):
    r"""Admits the texts that a regular expression matches from beginning to end.

    ``pattern`` is ECMA-262 syntax with the ``u`` flag. Raises
    :class:`~state_machines.errors.InvalidPatternError` also for a pattern that matches nothing,
    and :class:`~state_machines.errors.UnsupportedPatternError` for what is not regular.

    >>> RegexStateMachine(r"\d{4}-\d\d").matches("2024-05")
    True
    """

    def __init__(self, pattern: str) -> None:
        if not isinstance(pattern, str):
            raise InvalidArgumentError(
                f"a pattern is a string, not {type(pattern).__name__}", argument="pattern"
            )
        try:
            with step_budget(LIMITS.compile_steps):
                language = compile_pattern(pattern, search=False)
                if language.is_empty:
                    raise InvalidPatternError("no text matches", pattern=pattern, position=0)
                start = encoded(language, RAW)
        except GrammarBudgetError as error:
            raise UnsupportedPatternError(
                f"a pattern that takes more than {error.budget:,} steps",
                pattern=pattern,
                position=0,
            ) from error
        super().__init__(start)


class ChoiceStateMachine(StateMachine):
    """Admits the given texts, at least one, and no others.

    >>> ChoiceStateMachine(["yes", "no"]).matches("no")
    True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        given: list[bytes] = []
        for number, text in enumerate(_listed(texts)):
            given.append(_encoded(text))
            spend(len(given[-1]) // 65_536 + (number % 16 == 0))
        if not given:
            raise InvalidArgumentError("a choice needs a text to choose", argument="texts")
        super().__init__(literals(given))


def _listed(texts: object) -> list[object]:
    # An array of NumPy's without dimensions has ``__iter__``, and is not iterable.
    is_iterable = isinstance(texts, Iterable) and getattr(texts, "shape", None) != ()
    if isinstance(texts, str | bytes) or not is_iterable:
        raise InvalidArgumentError(
            f"a choice is among texts in a list, not {type(texts).__name__}", argument="texts"
        )
    return list(cast("Iterable[object]", texts))


def _encoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"a choice is among strings, not {type(text).__name__}", argument="texts"
        )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"UTF-8 has no lone surrogates: {text[:40]!r}", argument="texts"
        ) from error
