"""The terminals of a grammar over lexemes (:mod:`~state_machines.grammar.lexing`)."""

from __future__ import annotations

from collections.abc import Sequence

from state_machines.grammar.lexer import TerminalLanguage, lexer_state, terminals_in
from state_machines.grammar.node import Node


class Lexicon:
    """The terminals of a grammar, and how texts are divided into their lexemes.

    Args:
        terminals: The terminals by number. Their languages do not have the empty word.
        ignored: The set of terminals whose lexemes may follow any other lexeme.
        is_greedy: Whether lexemes are longest matches.
        ignores_once: Whether at most one ignored lexeme stands between two others.
    """

    def __init__(
        self,
        terminals: Sequence[TerminalLanguage],
        ignored: int = 0,
        *,
        is_greedy: bool,
        ignores_once: bool = False,
    ) -> None:
        self.terminals = tuple(terminals)
        self.ignored = ignored
        self.is_greedy = is_greedy
        self.ignores_once = ignores_once
        self.lazy = sum(1 << n for n, each in enumerate(terminals) if each.is_lazy)
        self.nested = sum(1 << n for n, each in enumerate(terminals) if each.is_nested)
        self._starts: dict[int, Node] = {}
        self.may_block = is_greedy
        """Whether a pair of states may have no word, so that one must be searched for."""

    def start(self, allowed: int) -> Node:
        """Return the lexer's state before a lexeme of one of the allowed terminals."""
        known = self._starts.get(allowed)
        if known is None:
            lexemes = terminals_in(allowed & ~self.nested)
            items = ((1 << n, self.terminals[n].language) for n in lexemes)
            known = self._starts[allowed] = lexer_state(items, self.lazy & allowed)
        return known
