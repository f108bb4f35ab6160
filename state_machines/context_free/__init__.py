"""Context-free grammars as nodes of the grammar algebra, and their state machine.

Reading order: :mod:`~state_machines.context_free.source`, :mod:`~state_machines.context_free.gbnf`
and :mod:`~state_machines.context_free.lark` (text to :class:`~state_machines.syntax_tree.Grammar`,
or to a grammar over lexemes), :mod:`~state_machines.context_free.analysis` (properties of rules),
:mod:`~state_machines.context_free.compiler` (rules to nodes),
:mod:`~state_machines.context_free.recursion` (nodes of recursive rules),
:mod:`~state_machines.context_free.captures` (texts of rules), this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, Self

from state_machines.budgets import step_budget
from state_machines.context_free import gbnf
from state_machines.context_free.captures import read_captures
from state_machines.context_free.compiler import LexicalGrammar, byte_machine, lexical_machine
from state_machines.context_free.lark import lowering
from state_machines.errors import GrammarBudgetError, InvalidArgumentError, UnsupportedGrammarError
from state_machines.limits import LIMITS
from state_machines.machine import StateMachine
from state_machines.syntax_tree import Grammar

__all__ = ["NOTATIONS", "GrammarStateMachine"]

NOTATIONS: Mapping[str, Callable[[str], Grammar | LexicalGrammar]] = MappingProxyType(
    {"gbnf": gbnf.parse, "lark": lowering.parse}
)
"""The parsers of notations by name. They raise :class:`~state_machines.GrammarError`; the compilers
know none of them."""

_GBNF_DEFINITION = re.compile(r"^\s*[A-Za-z0-9_-]+\s*::=", re.MULTILINE)


class GrammarStateMachine(StateMachine):
    r"""Admits the texts of a context-free grammar, which may be ambiguous or left-recursive.

    Args:
        text: The grammar.
        start: The rule that whole texts match. By default ``root`` in GBNF, ``start`` in Lark.
        notation: The name of the notation that ``text`` is written in, of
            :data:`NOTATIONS`.

    Raises:
        GrammarSyntaxError: The text is not of the notation, or a rule is missing.
        UnsatisfiableGrammarError: No text matches.
        UnsupportedGrammarError: The grammar has a construct that is not supported, or compiling
            it takes too much work.
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
                hint=f"Known are {', '.join(map(repr, NOTATIONS))}",
            )
        try:
            with step_budget(LIMITS.compile_steps):
                grammar = NOTATIONS[notation](text)
                start_rule = grammar.start if start is None else start
                if isinstance(grammar, LexicalGrammar):
                    machine = lexical_machine(grammar, start_rule)
                else:
                    machine = byte_machine(grammar, start_rule)
        except GrammarBudgetError as error:
            hint = "Simplify the grammar"
            raise UnsupportedGrammarError.at((1, 1), error.what, hint=hint) from error
        except RecursionError as error:
            what = "the grammar is nested too deeply"
            raise UnsupportedGrammarError.at((1, 1), what) from error
        self._text, self._notation = text, notation
        super().__init__(machine.start, inner=[machine])
        self._captured: tuple[LexicalGrammar, str] | None = None
        has_captures = any(rule.options.capture is not None for rule in grammar.rules.values())
        if isinstance(grammar, LexicalGrammar) and has_captures:
            self._captured = grammar, start_rule

    def captures(self, text: str | bytes) -> dict[str, str | list[str]]:
        r"""Return the texts of the rules with the option ``capture``, by their names.

        What follows a rule's text, such as its ``suffix``, its ``stop`` or ignored text, is left
        out. The work is bounded only by an enclosing
        :func:`~state_machines.budgets.step_budget`.

        Args:
            text: The whole text, as a string or in UTF-8.

        Returns:
            A text for a name that occurs once, a list of texts in their order for one that occurs
            more often. Names that do not occur are absent. Of several derivations of the text, the
            one that is found first counts.

        Raises:
            InvalidArgumentError: The text does not match the grammar.
            GrammarBudgetError: Reading the text takes too much work.

        >>> machine = GrammarStateMachine.from_lark('''
        ...     start: "to " name ", " body
        ...     name[capture]: /[a-z]+/
        ...     body[capture, suffix="."]: /.*/
        ... ''')
        >>> machine.captures("to ann, hello.")
        {'name': 'ann', 'body': 'hello'}
        """
        if self._captured is None:
            return {}
        found: dict[str, list[str]] = {}
        written = text.encode() if isinstance(text, str) else text
        for name, own in read_captures(*self._captured, written):
            found.setdefault(name, []).append(own.decode(errors="replace"))
        return {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}

    @classmethod
    def from_gbnf(cls, text: str, start: str = "root") -> Self:
        r"""Return the machine of a grammar in GBNF, the notation of llama.cpp.

        Args:
            text: The grammar.
            start: The rule that whole texts match.

        Raises:
            GrammarError: As the constructor raises it.

        >>> GrammarStateMachine.from_gbnf('root ::= [0-9]+ ("," [0-9]+)*').matches("1,23")
        True
        """
        return cls(text, start=start, notation="gbnf")

    @classmethod
    def from_lark(cls, text: str, start: str = "start") -> Self:
        r"""Return the machine of a grammar in Lark, as llguidance reads it.

        Texts are divided into lexemes by longest match.

        Args:
            text: The grammar.
            start: The rule that whole texts match.

        Raises:
            GrammarError: As the constructor raises it.

        >>> sums = GrammarStateMachine.from_lark(r'''
        ...     start: NUMBER ("+" NUMBER)*
        ...     NUMBER: /[0-9]+/
        ...     %ignore /[ ]+/
        ... ''')
        >>> sums.matches("1 + 23"), sums.matches("1 + 2 3")
        (True, False)
        """
        return cls(text, start=start, notation="lark")

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the machine of a grammar in GBNF or Lark, with the default rule of the notation.

        A text with a definition ``name ::=`` is GBNF, any other is Lark, as in vLLM's server.

        Args:
            text: The grammar.

        Raises:
            GrammarError: As the constructor raises it.
        """
        return cls(text, notation=cls.notation_of(text) if isinstance(text, str) else "lark")

    @staticmethod
    def notation_of(text: str) -> Literal["gbnf", "lark"]:
        """Return the notation of a grammar as :meth:`from_text` finds it."""
        return "lark" if _GBNF_DEFINITION.search(text) is None else "gbnf"

    @property
    def text(self) -> str:
        """The grammar."""
        return self._text

    @property
    def notation(self) -> str:
        """The name of the notation of :attr:`text`, such as ``"lark"``."""
        return self._notation
