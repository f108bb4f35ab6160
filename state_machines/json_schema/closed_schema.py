"""Schemas whose objects and arrays have the members that they list, and no others.

JSON Schema permits any further property, and a model would write some. XGrammar's strict mode, in
which structural tags are read, permits none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_VALUES = ("items", "additionalProperties", "contains")
_BRANCHES = ("anyOf", "oneOf")
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})


def closed_schema(schema: Any) -> Any:
    """Return a copy of a schema that permits listed properties and items alone.

    Objects and arrays that say what else they permit stay as they are. Where several schemas
    describe one object, their properties together are permitted.
    """
    try:
        return _closed(schema, is_composed=False)
    except RecursionError:
        # The compiler refuses a schema that is nested so deeply, by name.
        return schema


def _closed(schema: Any, *, is_composed: bool) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    written = dict(schema)
    lists_properties = isinstance(schema.get("properties"), Mapping)
    all_of = schema.get("allOf")
    joins = isinstance(all_of, list) and len(all_of) > 1
    inner = is_composed or lists_properties or joins
    for key in written.keys() & {*_BY_NAME}:
        if isinstance(schema[key], Mapping):
            written[key] = {n: _closed(s, is_composed=False) for n, s in schema[key].items()}
    for key in written.keys() & {*_VALUES}:
        written[key] = _closed(schema[key], is_composed=False)
    for key, composed in (
        ("prefixItems", False),
        ("allOf", inner),
        *((b, inner) for b in _BRANCHES),
    ):
        if isinstance(schema.get(key), list):
            written[key] = [_closed(each, is_composed=composed) for each in schema[key]]
    if is_composed:
        return written
    if lists_properties and not {"additionalProperties", "unevaluatedProperties"} & schema.keys():
        keyword = "unevaluatedProperties" if _IN_PLACE & schema.keys() else "additionalProperties"
        written[keyword] = False
    if "prefixItems" in schema and not {"items", "unevaluatedItems"} & schema.keys():
        written["items"] = False
    return written
