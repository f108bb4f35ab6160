"""Regular expressions (ECMA-262 syntax) as nodes of the grammar algebra.

Reading order: :mod:`state_machines.syntax_tree` (the tree),
:mod:`~state_machines.regex.parser` and :mod:`~state_machines.regex.characters` (text to tree),
:mod:`~state_machines.regex.unicode_classes` (sets of characters by name),
:mod:`~state_machines.regex.analysis` (properties of trees),
:mod:`~state_machines.regex.compiler` (tree to language).
"""

from __future__ import annotations

from state_machines.regex.compiler import PatternDialect, compile_pattern

__all__ = ["PatternDialect", "compile_pattern"]
