"""JSON Schemas that frameworks make of Python types, without properties that validation drops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "contains")
_COMBINING = {"allOf", "not", "if", "dependentSchemas", "unevaluatedProperties"}


def closed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose objects have the properties that they name, and no others.

    Frameworks convert Python types to schemas that permit any further properties, which a model
    would write and validation would drop or refuse. Objects that say whether they permit further
    properties stay as they are, and so does a schema in which several schemas describe one object.
    """
    return dict(schema) if _combines(schema) else _closed(schema)


def _closed(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    written = dict(schema)
    for key in written.keys() & {*_BY_NAME}:
        written[key] = {name: _closed(item) for name, item in schema[key].items()}
    for key in written.keys() & {*_LISTS}:
        written[key] = [_closed(item) for item in schema[key]]
    for key in written.keys() & {*_SCHEMAS}:
        written[key] = _closed(schema[key])
    if "properties" in written and {*schema.get("required", ())} <= written["properties"].keys():
        written.setdefault("additionalProperties", False)
    return written


def _combines(schema: Any) -> bool:
    """Whether several schemas describe one object somewhere, so that none names all properties."""
    if not isinstance(schema, Mapping):
        return False
    if _COMBINING & schema.keys():
        return True
    if "properties" in schema and {"$ref", "anyOf", "oneOf"} & schema.keys():
        return True
    return any(map(_combines, _parts(schema)))


def _parts(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key in _BY_NAME:
        yield from schema.get(key, {}).values()
    for key in _LISTS:
        yield from schema.get(key, ())
    for key in _SCHEMAS:
        yield schema.get(key)
