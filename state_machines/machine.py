"""State machines: languages of texts, by node, by regular expression or by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Literal, TypeAlias, cast
from weakref import finalize

from state_machines.budgets import spend, step_budget
from state_machines.errors import (
    GrammarBudgetError,
    InvalidArgumentError,
    InvalidPatternError,
    UnsupportedPatternError,
    check_choice,
    has_surrogate,
)
from state_machines.grammar.deep import compute_word_derivative
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.node import EMPTY, Node, release
from state_machines.grammar.rule_options import LimitedRule
from state_machines.grammar.word_lists import literals
from state_machines.limits import LIMITS
from state_machines.matcher import Matcher
from state_machines.regex import PatternDialect, compile_pattern
from state_machines.syntax_tree import NamedTokens
from state_machines.vocabulary import Vocabulary


class StateMachine:
    """A language of texts, given by the node of its first state.

    A machine is immutable and may be shared by any number of matchers and threads. Its states refer
    to one another in cycles; the machine owns them, and breaks the cycles when it is freed.

    Args:
        start: The state before the first byte.
        forget: Empties the stores of the machine's compiler and returns their nodes, which are
            released with the machine. Must not refer to the machine.
        token_sets: The tokens that the language has by name or by number. A matcher checks that
            its vocabulary has them.
        limited_rules: Rules whose texts take a limited number of tokens. Matchers keep the limits,
            and check that their vocabulary can write the rules in that number of tokens.
        temperatures: The sampling temperatures that parts of the language have
            (:attr:`Matcher.temperature`).
        inner: Machines whose texts are parts of the texts. Their tokens, limits and temperatures
            are added to those above, and they live as long as this machine.
    """

    has_values: bool = False
    """Whether the texts are values of a JSON Schema."""

    def __init__(
        self,
        start: Node,
        forget: Callable[[], Iterable[Node]] | None = None,
        *,
        token_sets: Iterable[NamedTokens] = (),
        limited_rules: Iterable[LimitedRule] = (),
        temperatures: Iterable[float] = (),
        inner: Iterable[StateMachine] = (),
    ) -> None:
        self.start = start
        self._inner = machines = tuple(inner)
        sets = chain(token_sets, *(each.token_sets for each in machines))
        self.token_sets: tuple[NamedTokens, ...] = tuple(dict.fromkeys(sets))
        rules = chain(limited_rules, *(each.limited_rules for each in machines))
        self.limited_rules: tuple[LimitedRule, ...] = tuple(dict.fromkeys(rules))
        numbers = chain(temperatures, *(each.temperatures for each in machines))
        self.temperatures: tuple[float, ...] = tuple(sorted(set(numbers)))
        self.steps_taken = 0
        """Derivatives that matchers have stored in the machine's states since :meth:`trim`."""
        if forget is not None:
            finalize(self, _release, start, forget).atexit = False

    def matcher(self, vocabulary: Vocabulary) -> Matcher:
        """Return a matcher at the start of a text. Cheap.

        Raises:
            UnknownTokenError: The vocabulary lacks a token that the language has by name or number.
            UnsatisfiableGrammarError: The ``max_tokens`` of a rule is too small for all its texts.
            GrammarBudgetError: That is not known within ``LIMITS.token_search_steps`` steps.
        """
        self.trim()
        return Matcher(self.start, vocabulary, self)

    def trim(self) -> None:
        """Release the states of earlier texts, if many were computed since the last call."""
        if self.steps_taken > LIMITS.machine_steps:
            self.steps_taken = 0
            release((self.start,))

    def matches(self, text: str | bytes) -> bool:
        """Return whether a text is in the language.

        The work is bounded only by an enclosing :func:`~state_machines.budgets.step_budget`.

        Args:
            text: The whole text, as a string or in UTF-8.

        Raises:
            GrammarBudgetError: The text is too ambiguous in the grammar.
        """
        return self._after(text).nullable

    def begins(self, text: str | bytes) -> bool:
        """Return whether some text of the language begins with a text. See :meth:`matches`.

        Args:
            text: The prefix; bytes may end inside a character.
        """
        return self._after(text) is not EMPTY

    def _after(self, text: str | bytes) -> Node:
        form = text.encode() if isinstance(text, str) else text
        return compute_word_derivative(self.start, form)


def _release(start: Node, forget: Callable[[], Iterable[Node]]) -> None:
    release((start, *forget()))


PatternSyntax: TypeAlias = Literal["ecma-262", "rust"]
"""Names of the syntaxes that a :class:`RegexStateMachine` reads."""

_DIALECTS: dict[PatternSyntax, PatternDialect] = {"ecma-262": "ecma", "rust": "rust"}


class RegexStateMachine(StateMachine):
    r"""The texts that a regular expression matches from beginning to end.

    Args:
        pattern: A regular expression.
        syntax: ``"ecma-262"`` with the ``u`` flag, as in JSON Schema, or ``"rust"`` for the syntax
            of Rust's ``regex`` crate, as in Lark and OpenAI's custom tools.

    Raises:
        InvalidPatternError: The pattern is malformed, or matches nothing.
        UnsupportedPatternError: The pattern uses a construct that is not regular.
        InvalidArgumentError: There is no such syntax, or the pattern is no string.

    >>> RegexStateMachine(r"\d{4}-\d\d").matches("2024-05")
    True
    """

    def __init__(self, pattern: str, *, syntax: PatternSyntax = "ecma-262") -> None:
        if not isinstance(pattern, str):
            raise InvalidArgumentError(
                f"pattern must be a string, not {type(pattern).__name__}", argument="pattern"
            )
        check_choice("syntax", syntax, tuple(_DIALECTS))
        try:
            with step_budget(LIMITS.compile_steps):
                language = compile_pattern(pattern, search=False, dialect=_DIALECTS[syntax])
                if language.is_empty:
                    raise InvalidPatternError(
                        "no text matches the pattern",
                        pattern=pattern,
                        position=0,
                        hint="Remove contradicting lookarounds and empty classes",
                    )
                start = encoded(language, RAW)
        except GrammarBudgetError as error:
            raise UnsupportedPatternError(
                f"compiling the pattern takes more than {error.budget:,} steps of work",
                pattern=pattern,
                position=0,
                hint="Simplify the pattern, or lower its repetition counts",
            ) from error
        super().__init__(start)


class ChoiceStateMachine(StateMachine):
    """The language of the given texts.

    Args:
        texts: The texts, at least one.

    Raises:
        InvalidArgumentError: There is no text, or a value is not a string of Unicode scalars.


    >>> ChoiceStateMachine(["yes", "no"]).matches("no")
    True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        forms: list[bytes] = []
        for number, text in enumerate(_as_list(texts)):
            forms.append(_encoded(text))
            spend(len(forms[-1]) // 65_536 + (number % 16 == 0))
        if not forms:
            raise InvalidArgumentError("texts must hold at least one text", argument="texts")
        super().__init__(literals(forms))


def _as_list(texts: object) -> list[object]:
    # A NumPy array without dimensions has ``__iter__``, but is not iterable.
    is_iterable = isinstance(texts, Iterable) and getattr(texts, "shape", None) != ()
    if isinstance(texts, str | bytes) or not is_iterable:
        raise InvalidArgumentError(
            f"texts must be an iterable of strings, not {type(texts).__name__}", argument="texts"
        )
    return list(cast("Iterable[object]", texts))


def _encoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"texts must hold strings only, not {type(text).__name__}", argument="texts"
        )
    if has_surrogate(text):
        raise InvalidArgumentError(
            f"{text[:40]!r} has a lone surrogate, which UTF-8 cannot encode", argument="texts"
        )
    return text.encode()
