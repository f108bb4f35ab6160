"""Grammars over lexemes: rules of terminals. Terminals are languages of bytes."""

from __future__ import annotations

from dataclasses import dataclass

from state_machines.context_free.compiler import GrammarCompiler
from state_machines.context_free.recursion import RuleBook
from state_machines.errors import UnsatisfiableGrammarError
from state_machines.grammar.lexicon import Lexicon, TerminalLanguage
from state_machines.grammar.lexing import before_lexeme
from state_machines.grammar.node import EMPTY
from state_machines.grammar.rule_options import LimitedRule
from state_machines.machine import StateMachine
from state_machines.syntax_tree import NamedTokens, Rule

__all__ = ["LexicalGrammar", "TerminalLanguage", "lexical_machine"]


@dataclass(frozen=True, slots=True)
class LexicalGrammar:
    """A grammar whose texts are divided into lexemes.

    Attributes:
        rules: The rules by name. The leaves of their bodies are
            :class:`~state_machines.syntax_tree.Terminal` and
            :class:`~state_machines.syntax_tree.Reference`.
        terminals: The terminals; ``Terminal.number`` is an index.
        ignored: Numbers of the terminals whose lexemes may stand between and behind all others.
        start: The rule that whole texts match.
        ignores_first: Whether ignored lexemes may also precede the first lexeme.
        ignores_once: Whether at most one ignored lexeme stands between two others.
        owners: Machines that languages of terminals belong to.
        token_sets: The tokens by name or by number among the terminals.
        limited_rules: The rules with a limit on tokens.
    """

    rules: dict[str, Rule]
    terminals: tuple[TerminalLanguage, ...]
    ignored: frozenset[int]
    start: str
    ignores_first: bool = False
    ignores_once: bool = False
    owners: tuple[StateMachine, ...] = ()
    token_sets: tuple[NamedTokens, ...] = ()
    limited_rules: tuple[LimitedRule, ...] = ()


def lexical_machine(grammar: LexicalGrammar, start: str) -> StateMachine:
    """Return the machine of the texts of a rule.

    Raises:
        GrammarError: No text matches, or a limit is exceeded.
    """
    book = RuleBook(lambda book: GrammarCompiler(grammar.rules, start, book))
    compiler = GrammarCompiler(grammar.rules, start, book)
    lexicon = Lexicon(
        grammar.terminals,
        sum(1 << number for number in grammar.ignored),
        compiler.analysis.followers(),
        ignores_once=grammar.ignores_once,
    )
    node = before_lexeme(lexicon, compiler.start, may_ignore=grammar.ignores_first)
    if node is EMPTY:
        rule = grammar.rules[start]
        raise UnsatisfiableGrammarError.at(
            rule.position,
            f"no text of the rule {rule.name!r} is found whose lexemes are longest matches",
            rule.name,
            "A terminal continues with every byte that the next one begins with",
        )
    temperatures = (each.temperature for each in grammar.terminals)
    return StateMachine(
        node,
        book.clear,
        token_sets=grammar.token_sets,
        limited_rules=grammar.limited_rules,
        temperatures=(each for each in temperatures if each is not None),
        inner=grammar.owners,
    )
