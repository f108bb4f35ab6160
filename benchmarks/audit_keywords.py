"""Which keyword an engine gets wrong, if its verdict about a schema or an instance is wrong."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import referencing.exceptions
import referencing.jsonschema
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for

__all__ = ["is_valid", "keywords_of", "validator_of", "violated_keywords", "without_keyword"]

_NO_CONSTRAINTS = frozenset(
    {
        *("$schema", "$id", "id", "$ref", "$defs", "definitions", "$anchor", "$comment"),
        *("title", "description", "default", "examples", "example", "deprecated"),
        *("readOnly", "writeOnly", "contentMediaType", "contentEncoding"),
    }
)
"""Without these a schema allows the same, or its references do not resolve."""


def keywords_of(schema: Any) -> set[str]:
    """Return the keywords of a schema and its subschemas that may constrain an instance.

    Unknown ones are among them, since an engine may refuse a schema for its sake.
    """
    found: set[str] = set()
    for part in _subschemas(schema):
        found |= part.keys()
    return {keyword for keyword in found - _NO_CONSTRAINTS if not keyword.startswith("x-")}


def without_keyword(schema: Any, keyword: str) -> Any:
    """Return a copy of a schema in which no subschema has a keyword."""
    reduced = copy.deepcopy(schema)
    for part in list(_subschemas(reduced)):
        part.pop(keyword, None)
    return reduced


def is_valid(schema: Any, instance: Any) -> bool:
    """Whether jsonschema finds no error, with formats asserted, and all references resolve."""
    try:
        return bool(validator_of(schema).is_valid(instance))
    except referencing.exceptions.Unresolvable:
        return False


def violated_keywords(schema: Any, instance: Any) -> set[str]:
    """Return the keywords that refuse an instance; ``anyOf`` and ``oneOf`` as a whole.

    A schema that is ``False`` has none.
    """
    errors = validator_of(schema).iter_errors(instance)
    return {str(error.validator) if error.validator else "false" for error in errors}


def validator_of(schema: Any, formats: FormatChecker | None = None) -> Validator:
    """Return jsonschema's validator of the schema's draft, which asserts the draft's formats."""
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, format_checker=formats or kind.FORMAT_CHECKER)


def _subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all subschemas that are objects."""
    uri = schema.get("$schema") if isinstance(schema, dict) else None
    specification = referencing.jsonschema.specification_with(
        uri or "https://json-schema.org/draft/2020-12/schema",
        default=referencing.jsonschema.DRAFT202012,
    )
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield part
            left += specification.subresources_of(part)
