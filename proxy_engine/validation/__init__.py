"""The last look at an output: ``jsonschema`` as the judge, within a bound.

The masks admit only the outputs of the schema. ``jsonschema``, another implementation, judges each
output once more. It must neither refuse a correct output nor take long:

* Patterns are those of ECMA-262 and are decided by the project's own machines, in linear time.
  ``jsonschema`` hands them to Python's ``re``, another dialect, which may backtrack without end.
* Numbers are compared as they are written in decimals: 0.3 is a multiple of 0.1.
* The result of a reference for a value is computed once per validation.
* Nothing is fetched.
* Work is counted in steps. Where these run out, or where ``jsonschema`` cannot judge, the
  validation is given up: the output stands as the masks admitted it, and a warning is logged.

Reading order: :mod:`~proxy_engine.validation.judgement` (the state of one validation),
:mod:`~proxy_engine.validation.keywords` (keywords that are judged otherwise),
:mod:`~proxy_engine.validation.evaluated` (``unevaluatedProperties`` and ``unevaluatedItems``),
:mod:`~proxy_engine.validation.validator`.
"""

from __future__ import annotations

from .validator import JsonValidator, json_validator

__all__ = ["JsonValidator", "json_validator"]
