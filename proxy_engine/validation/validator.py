"""Validators of schemas."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from operator import itemgetter
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry

from state_machines.budgets import spend, step_budget
from state_machines.errors import GrammarBudgetError, ProxyError
from state_machines.json_schema.quotes import SUBSTRING_OF

from ..results import Quotation
from .evaluated import unevaluated_items, unevaluated_properties
from .judgement import Judgement, UndecidedError
from .keywords import replaced
from .quotes import located, substring_of

_LOGGER = logging.getLogger(__name__)

_NOTHING: Registry[Any] = Registry()
_NO_DRAFT: Any = object()

MAX_EXPONENT = 400
"""Largest exponent of a number that is compared as a decimal; others are doubles."""


class JsonValidator:
    """Validates JSON values against a schema. Thread-safe.

    Cheap to create: the schema is read as far as values need it.

    Args:
        schema: The schema, of the draft in its ``$schema``; default: 2020-12.
        registry: Documents that references may name; nothing is fetched.
        sources: The texts that strings are quoted from; ``None``: quotes are not checked.
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | bool,
        *,
        registry: Registry[Any] | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> None:
        self._schema = schema
        self._sources = sources
        self._registry = _NOTHING if registry is None else registry
        self._validator: Any = None

    def validate(self, value: Any) -> None:
        """Validate a value. If the work budget is exhausted, accept it and log a warning.

        Raises:
            jsonschema.ValidationError: The value does not match the schema.
        """
        error = self._first_error(value)
        if error is not None:
            raise error

    def is_valid(self, value: Any) -> bool:
        """Return whether :meth:`validate` accepts a value."""
        return self._first_error(value) is None

    def read(self, text: str) -> Any:
        """Parse and validate a JSON text. Numbers are validated as decimals.

        Raises:
            ValueError: The text is not JSON.
            RecursionError: The text is nested too deeply.
            jsonschema.ValidationError: The value does not match the schema.
        """
        value = json.loads(text)
        self.validate(json.loads(text, parse_float=_exactly))
        return value

    def quotations(self, text: str) -> tuple[Quotation, ...]:
        """Parse and validate a JSON text, and return where its quotes stand in the sources.

        Raises:
            As :meth:`read`.
        """
        value = located(json.loads(text, parse_float=_exactly))
        judgement = Judgement(value, self._schema, self._sources)
        error = self._judge(value, judgement)
        if error is not None:
            raise error
        return tuple(quote for _, quote in sorted(judgement.quotations.items(), key=itemgetter(0)))

    def _first_error(self, value: Any) -> jsonschema.ValidationError | None:
        return self._judge(value, Judgement(value, self._schema, self._sources))

    def _judge(self, value: Any, judgement: Judgement) -> jsonschema.ValidationError | None:
        try:
            with step_budget(judgement.limit), judgement:
                if self._validator is None:
                    self._validator = self._of_draft()
                judgement.base_uri = self._validator._resolver._base_uri
                error: jsonschema.ValidationError | None = next(
                    self._validator.iter_errors(value), None
                )
                return error
        except GrammarBudgetError:
            _LOGGER.warning("gave up the validation of a value: it takes too many steps")
        except ProxyError:
            raise
        except Exception as error:
            # `jsonschema` cannot read some schemas that compile, in parts that have no effect.
            _LOGGER.warning(
                "gave up the validation of a value: %s: %.200s", type(error).__name__, error
            )
        return None

    def _of_draft(self) -> Validator:
        _check_dialect(self._schema)
        draft = validator_for(self._schema, default=jsonschema.Draft202012Validator)
        validator: Validator = _bounded(draft)(self._schema, registry=self._registry)
        return validator


def json_validator(
    schema: Mapping[str, Any] | bool,
    *,
    registry: Registry[Any] | None = None,
    sources: Mapping[str, str] | None = None,
) -> JsonValidator:
    """Return a validator for a schema; the arguments are those of :class:`JsonValidator`."""
    return JsonValidator(schema, registry=registry, sources=sources)


def _check_dialect(schema: Any) -> None:
    """Raise for a schema of a dialect of the caller's own."""
    if isinstance(schema, dict) and "$schema" in schema:
        known: Any = validator_for(schema, default=_NO_DRAFT)
        if known is _NO_DRAFT:
            raise UndecidedError("a schema of a dialect that is no draft")


@cache
def _bounded(draft: Any) -> Any:
    """Return a draft's class of validators, whose work is counted in steps."""
    keywords: dict[str, Any] = {**draft.VALIDATORS, SUBSTRING_OF: substring_of}
    if "unevaluatedProperties" in keywords:
        keywords["unevaluatedProperties"] = unevaluated_properties
        keywords["unevaluatedItems"] = unevaluated_items
    bounded: Any = extend(draft, replaced(keywords))
    evolve = bounded.evolve

    def evolve_within_bounds(self: Any, **changes: Any) -> Any:
        schema = changes.get("schema")
        _check_dialect(schema)
        spend(2 + (len(schema) // 8 if isinstance(schema, dict) else 0))
        evolved = evolve(self, **changes)
        if isinstance(evolved, type(self)):
            return evolved
        # The subschema names a draft.
        other: Any = type(evolved)
        return _bounded(other)(evolved.schema, _resolver=evolved._resolver)

    bounded.evolve = evolve_within_bounds
    return bounded


def _exactly(text: str) -> int | float | Fraction:
    """Return the number that a JSON text with a fraction or an exponent stands for."""
    _, _, exponent = text.lower().partition("e")
    if len(exponent) > 5 or (exponent and abs(int(exponent)) > MAX_EXPONENT):
        return float(text)
    number = Fraction(text)
    return number.numerator if number.denominator == 1 else number
