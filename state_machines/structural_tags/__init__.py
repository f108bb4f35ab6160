"""Structural tags: XGrammar's interchange format of constraints, as languages.

Reading order: :mod:`~state_machines.structural_tags.formats` (the typed tree),
:mod:`~state_machines.structural_tags.fields` and :mod:`~state_machines.structural_tags.parsing`
(from JSON to the tree), :mod:`~state_machines.structural_tags.contents` (schemas, patterns and
grammars), :mod:`~state_machines.structural_tags.json_values` and
:mod:`~state_machines.structural_tags.xml_arguments` (the styles of a JSON schema),
:mod:`~state_machines.structural_tags.compiler` (from the tree to the language).
"""

from state_machines.structural_tags.compiler import StructuralTagCompiler
from state_machines.structural_tags.formats import Format
from state_machines.structural_tags.parsing import parse

__all__ = ["Format", "StructuralTagCompiler", "parse"]
