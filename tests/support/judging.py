"""An exact judge of instances, based on ``jsonschema``.

Numbers are compared as fractions (0.1 is one tenth in schemas and instances), ``$`` in a pattern
matches at the end of the text only, not before a final line feed, and duplicate names in an object are
invalid.
"""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

__all__ = ["DuplicateNameError", "Judge", "exactly", "parsed"]


class DuplicateNameError(ValueError):
    """An object has two members of one name."""


def _number(text: str) -> int | Fraction:
    number = Fraction(Decimal(text))
    return number.numerator if number.denominator == 1 else number


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise DuplicateNameError(str(pairs))
    return result


def parsed(text: str | bytes) -> Any:
    """Parse JSON with exact numbers; two members of one name raise."""
    return json.loads(
        text, parse_float=_number, object_pairs_hook=_members, parse_constant=_refuse_constant
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def exactly(value: Any) -> Any:
    """Return a JSON value with exact numbers."""
    return parsed(json.dumps(value))


class Judge:
    """Tells which values a schema admits.

    ``patterns``: whether texts in the schema under ``pattern`` and names under
    ``patternProperties`` are patterns; no property may be called so then.
    """

    def __init__(
        self, schema: Any, *, validator: type[Validator] = Draft202012Validator, **options: Any
    ) -> None:
        _check_schema(validator, json.dumps(schema))
        self._validator = validator(_with_exact_ends(exactly(schema)), **options)

    def admits(self, value: Any) -> bool:
        """Whether a value, parsed by whatever means, is admitted."""
        return bool(self._validator.is_valid(exactly_numbered(value)))

    def admits_text(self, text: str | bytes) -> bool:
        """Whether a text is JSON, repeats no name and has an admitted value."""
        try:
            value = parsed(text)
        except ValueError:
            return False
        return bool(self._validator.is_valid(value))


@lru_cache(1000)
def _check_schema(validator: type[Validator], schema: str) -> None:
    """Check a schema, which takes longer than most judgements. Properties draw some repeatedly."""
    validator.check_schema(json.loads(schema))


def exactly_numbered(value: Any) -> Any:
    """Return a value whose floats are exact; fractions stay."""
    match value:
        case float():
            return _number(repr(value))
        case list():
            return [exactly_numbered(item) for item in value]
        case dict():
            return {name: exactly_numbered(item) for name, item in value.items()}
    return value


def _with_exact_ends(schema: Any) -> Any:
    match schema:
        case list():
            return [_with_exact_ends(item) for item in schema]
        case dict():
            return {name: _ended(name, _with_exact_ends(item)) for name, item in schema.items()}
    return schema


def _ended(keyword: str, value: Any) -> Any:
    if keyword == "pattern" and isinstance(value, str):
        return value.replace("$", r"\Z")
    if keyword == "patternProperties" and isinstance(value, dict):
        return {name.replace("$", r"\Z"): item for name, item in value.items()}
    return value
