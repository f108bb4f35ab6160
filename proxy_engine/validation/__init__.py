"""Validation of outputs by ``jsonschema``, an independent implementation, within bounds of time.

Masks admit only outputs of the schema. Validation must neither refuse a correct output nor take
long:

* Patterns are ECMA-262 and are searched by the project's own machines, in linear time.
  ``jsonschema`` uses Python's ``re``, another dialect, which may backtrack exponentially. Beside
  ``patternProperties``, ``unevaluatedProperties`` is left to the masks for that reason.
* Numbers are compared as decimals: 0.3 is a multiple of 0.1.
* Nothing is fetched.
* If the time is over, or ``jsonschema`` cannot decide, the output is accepted and a warning is
  logged.
"""

from __future__ import annotations

from .validator import JsonValidator

__all__ = ["JsonValidator"]
