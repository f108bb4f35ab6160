"""Regular expressions (ECMA-262 syntax) as nodes of the grammar algebra.

Reading order: :mod:`~state_machines.regex.syntax` (the tree),
:mod:`~state_machines.regex.parser` (text to tree),
:mod:`~state_machines.regex.unicode_classes` (sets of characters by name),
:mod:`~state_machines.regex.analysis` (questions about trees),
:mod:`~state_machines.regex.compiler` (tree to language).
"""

from __future__ import annotations

from state_machines.regex.compiler import compile_pattern

__all__ = ["compile_pattern"]
