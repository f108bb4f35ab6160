"""Structural tags: XGrammar's interchange format of constraints, as languages.

Reading order: :mod:`~state_machines.structural_tags.formats` (languages that depend on their
place), :mod:`~state_machines.structural_tags.fields` and
:mod:`~state_machines.structural_tags.parsing` (from JSON to formats, one function for each type),
:mod:`~state_machines.structural_tags.schema_styles` (the styles of a JSON schema).
"""

from state_machines.structural_tags.formats import Format
from state_machines.structural_tags.parsing import bounded, parse

__all__ = ["Format", "bounded", "parse"]
