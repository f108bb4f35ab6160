"""Parts of a JSON Schema that a pydantic type gives, and its validator does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import WithJsonSchema

from state_machines.type_readers.core_reader import Core

GIVEN = "the JSON Schema that the type gives"
"""The reason of the gap."""

_ANNOTATIONS = frozenset(
    {
        *("title", "description", "examples", "example", "default", "deprecated", "format"),
        *("readOnly", "writeOnly", "discriminator", "$comment"),
    }
)
_BY_NAME = frozenset({"properties", "patternProperties", "$defs"})


def is_described_by_user(core: Core) -> bool:
    """Return whether code of the user, or ``WithJsonSchema``, gives the JSON Schema."""
    metadata = core.get("metadata") or {}
    functions = (
        *metadata.get("pydantic_js_functions", ()),
        *metadata.get("pydantic_js_annotation_functions", ()),
    )
    for function in functions:
        if isinstance(getattr(function, "__self__", None), WithJsonSchema):
            return True
        if not (getattr(function, "__module__", None) or "pydantic.").startswith("pydantic."):
            return True
    return False


def constraints(schema: Any) -> Any:
    """Return a copy of a schema without keywords that constrain nothing."""
    if isinstance(schema, list):
        return [constraints(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        keyword: {name: constraints(part) for name, part in value.items()}
        if keyword in _BY_NAME and isinstance(value, Mapping)
        else constraints(value)
        for keyword, value in schema.items()
        if not _is_annotation(keyword)
    }


def _is_annotation(keyword: str) -> bool:
    return keyword in _ANNOTATIONS or (keyword.startswith("x-") and keyword != "x-reader-language")
