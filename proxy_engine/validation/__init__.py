"""Validation of outputs by ``jsonschema``, an independent implementation, within a work budget.

Masks admit only outputs of the schema. Validation must neither refuse a correct output nor take
long:

* Patterns are ECMA-262 and are matched by the project's own machines, in linear time.
  ``jsonschema`` uses Python's ``re``, another dialect, which may backtrack exponentially.
* Numbers are compared as decimals: 0.3 is a multiple of 0.1.
* The result of a reference for a value is computed once per validation.
* Nothing is fetched.
* Work is counted in steps. If the budget is exhausted, or ``jsonschema`` cannot decide, the output
  is accepted and a warning is logged.

Reading order: :mod:`~proxy_engine.validation.judgement` (the state of one validation),
:mod:`~proxy_engine.validation.keywords` (replaced keywords),
:mod:`~proxy_engine.validation.evaluated` (``unevaluatedProperties`` and ``unevaluatedItems``),
:mod:`~proxy_engine.validation.validator`.
"""

from __future__ import annotations

from .validator import JsonValidator, json_validator

__all__ = ["JsonValidator", "json_validator"]
