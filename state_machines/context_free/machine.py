"""The state machine of a context-free grammar."""

from __future__ import annotations

from state_machines.budgets import step_budget
from state_machines.context_free.compiler import GrammarCompiler
from state_machines.context_free.notations import NOTATIONS
from state_machines.context_free.rules import RuleBook
from state_machines.errors import GrammarBudgetError, InvalidArgumentError, UnsupportedGrammarError
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine


class GrammarStateMachine(StateMachine):
    r"""Admits the texts of a context-free grammar, which may be ambiguous or left-recursive.

    Args:
        text: The grammar.
        start: The rule that whole texts match. By default ``root``, or another rule if the notation
            says so.
        notation: The name of the notation that ``text`` is written in, of
            :data:`~state_machines.context_free.notations.NOTATIONS`.

    Raises:
        GrammarSyntaxError: The text is not of the notation, or a rule is missing.
        UnsatisfiableGrammarError: No text matches.
        UnsupportedGrammarError: Compiling takes too much work.
        InvalidArgumentError: An argument has the wrong type, or there is no such notation.

    The first three have the ``line`` and the ``column`` of the error.

    >>> GrammarStateMachine('root ::= "a" root "b" | ""').matches("aabb")
    True
    """

    def __init__(self, text: str, *, start: str | None = None, notation: str = "gbnf") -> None:
        names = {"start": "root" if start is None else start, "notation": notation}
        for argument, value in {"text": text, **names}.items():
            if not isinstance(value, str):
                raise InvalidArgumentError(
                    f"{argument} is a string, not {type(value).__name__}", argument=argument
                )
        if notation not in NOTATIONS:
            raise InvalidArgumentError(
                f"there is no notation {notation!r} of grammars",
                argument="notation",
                hint=f"Known are {', '.join(NOTATIONS)}",
            )
        try:
            with step_budget(LIMITS.compile_steps):
                grammar = NOTATIONS[notation](text)
                start_rule = grammar.start if start is None else start

                def compile_into(book: RuleBook) -> Node:
                    return GrammarCompiler(grammar.rules, start_rule, book).start

                book = RuleBook(compile_into)
                first = compile_into(book)
        except GrammarBudgetError as error:
            raise UnsupportedGrammarError(
                error.what, line=1, column=1, hint="Simplify the grammar"
            ) from error
        except RecursionError as error:
            raise UnsupportedGrammarError(
                "the grammar is nested too deeply", line=1, column=1
            ) from error
        super().__init__(first, book.clear)
        self._text = text

    @property
    def text(self) -> str:
        """The grammar."""
        return self._text
