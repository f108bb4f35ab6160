"""Regular expressions of ECMA-262, Rust's ``regex`` and Python's ``re`` as nodes of the algebra.

Reading order: :mod:`state_machines.syntax_tree` (the tree),
:mod:`~state_machines.regex.parser` and :mod:`~state_machines.regex.characters` (text of ECMA-262 to
tree), :mod:`~state_machines.regex.rust_syntax` and :mod:`~state_machines.regex.python_syntax` (the
other dialects), :mod:`~state_machines.regex.rust_lexemes` (expressions of grammars),
:mod:`~state_machines.regex.assertions` (assertions by dialect),
:mod:`~state_machines.regex.unicode_classes` (sets of characters by name),
:mod:`~state_machines.regex.unicode_versions` (on which of them readers agree),
:mod:`~state_machines.regex.analysis` (properties of trees),
:mod:`~state_machines.regex.compiler` (tree to language).
"""

from __future__ import annotations

from state_machines.regex.compiler import PatternDialect, compile_pattern

__all__ = ["PatternDialect", "compile_pattern"]
