"""The notations in which grammars can be written.

A notation is a parser from text to a :class:`~state_machines.syntax_tree.Grammar`, or to a
:class:`~state_machines.context_free.lexical.LexicalGrammar`; the compilers know none of them. To
add a notation, write its parser and add it to :data:`NOTATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from state_machines.context_free.lexical import LexicalGrammar
from state_machines.context_free.notations import gbnf, lark
from state_machines.syntax_tree import Grammar

__all__ = ["NOTATIONS"]

NOTATIONS: Mapping[str, Callable[[str], Grammar | LexicalGrammar]] = MappingProxyType(
    {"gbnf": gbnf.parse, "lark": lark.parse}
)
"""Parsers by the names of their notations. They raise :class:`~state_machines.GrammarError`."""
