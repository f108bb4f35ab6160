"""Context-free grammars as nodes of the grammar algebra.

Reading order: :mod:`~state_machines.context_free.source`, :mod:`~state_machines.context_free.gbnf`
and :mod:`~state_machines.context_free.lark` (text to :class:`~state_machines.syntax_tree.Grammar`,
or to a grammar over lexemes), :mod:`~state_machines.context_free.analysis` (properties of rules),
:mod:`~state_machines.context_free.compiler` (rules to nodes),
:mod:`~state_machines.context_free.recursion` (nodes of recursive rules),
:mod:`~state_machines.context_free.captures`, :mod:`~state_machines.context_free.machine`.
"""

from __future__ import annotations

from state_machines.context_free.machine import GrammarStateMachine

__all__ = ["GrammarStateMachine"]
