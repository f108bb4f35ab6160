"""Context-free grammars in GBNF as nodes of the grammar algebra.

Reading order: :mod:`~state_machines.context_free.syntax` (the tree),
:mod:`~state_machines.context_free.characters` and :mod:`~state_machines.context_free.parser` (text
to tree), :mod:`~state_machines.context_free.analysis` (questions about rules),
:mod:`~state_machines.context_free.rules` (nodes of rules),
:mod:`~state_machines.context_free.compiler` (trees to nodes),
:mod:`~state_machines.context_free.left_recursion` (rules that begin with themselves),
:mod:`~state_machines.context_free.machine`.
"""

from __future__ import annotations

from state_machines.context_free.machine import GrammarStateMachine

__all__ = ["GrammarStateMachine"]
