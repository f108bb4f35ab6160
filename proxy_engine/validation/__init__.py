"""The last look at an output: ``jsonschema`` as the judge, within a bound.

An output is written under masks that admit nothing but what its schema admits. It is judged once
more by another implementation, which must neither refuse a correct output nor take long:

* Patterns are those of ECMA-262 and are decided by the project's own machines, in linear time.
  ``jsonschema`` hands them to Python's ``re``, another dialect, which may backtrack without end.
* Numbers are compared as they are written in decimals: 0.3 is a multiple of 0.1.
* What a reference makes of a value is decided once in a validation, and so is what is evaluated.
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
