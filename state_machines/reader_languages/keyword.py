"""The keyword that names a reader language in a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READER_LANGUAGE = "x-reader-language"
"""Names the language of a string, with arguments: the value of :func:`reader_language`."""

_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "enum", "default", "example", "examples")


def without_reader_languages(schema: Any) -> Any:
    """Return a JSON Schema without the keyword, to describe it to a model.

    ``format``, ``pattern`` and the lengths beside the keyword describe the strings.

    Args:
        schema: The schema, as parsed JSON.
    """
    if isinstance(schema, list):
        return [without_reader_languages(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    written: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            written[keyword] = {name: without_reader_languages(v) for name, v in value.items()}
        elif keyword != READER_LANGUAGE:
            written[keyword] = value if keyword in _VALUES else without_reader_languages(value)
    return written
