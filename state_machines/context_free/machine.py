"""The state machine of a context-free grammar."""

from __future__ import annotations

from state_machines.budgets import step_budget
from state_machines.context_free.compiler import GrammarCompiler
from state_machines.context_free.parser import parse
from state_machines.context_free.rules import RuleBook
from state_machines.errors import GrammarBudgetError, InvalidArgumentError, UnsupportedGrammarError
from state_machines.grammar.node import Node
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine

__all__ = ["GrammarStateMachine"]


class GrammarStateMachine(StateMachine):
    r"""Admits the texts of a context-free grammar.

    ``text`` is GBNF, as :mod:`state_machines.context_free.parser` says; ``start`` names the rule
    that whole texts match. Any grammar will do, ambiguous and left-recursive ones, too. Raises
    :class:`~state_machines.errors.GrammarSyntaxError` for what is none,
    :class:`~state_machines.errors.UnsatisfiableGrammarError` where no text matches, and
    :class:`~state_machines.errors.UnsupportedGrammarError` where it takes too much work; each
    carries a line and a column.

    >>> GrammarStateMachine('root ::= "a" root "b" | ""').matches("aabb")
    True
    """

    def __init__(self, text: str, *, start: str = "root") -> None:
        for argument, given in (("text", text), ("start", start)):
            if not isinstance(given, str):
                raise InvalidArgumentError(
                    f"{argument} is a string, not {type(given).__name__}", argument=argument
                )
        try:
            with step_budget(LIMITS.compile_steps):
                rules = parse(text)

                def compiled(book: RuleBook) -> Node:
                    return GrammarCompiler(rules, start, book).start

                book = RuleBook(compiled)
                first = compiled(book)
        except GrammarBudgetError as error:
            raise UnsupportedGrammarError(
                error.what, line=1, column=1, hint="Simplify the grammar"
            ) from error
        except RecursionError as error:
            raise UnsupportedGrammarError(
                "the grammar is nested too deeply", line=1, column=1
            ) from error
        super().__init__(first, book.forget)
        self._text = text

    @property
    def text(self) -> str:
        """The grammar."""
        return self._text
