"""Repair schemas of tools that break JSON Schema's syntax and have one reading.

Programs write the schemas of tools. Some write ``null`` for a keyword that is absent, ``[]`` for an
empty object, as PHP does, or keywords as an older draft has them. The caller can often not change
such a schema. Schemas of answers are never repaired: their author reads the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..checks import reference_token

# Keywords whose value is a schema, a list of schemas, or an object of schemas.
_SCHEMAS = {
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if"),
    *("items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
}
_LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
_MAPS = {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
# Their value may be `null`.
_ANY_VALUES = {"const", "default", "example", "examples"}
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def repaired_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a schema without the mistakes that have one reading, and where these were.

    - A keyword that is ``null`` is absent, but for ``const``, ``default`` and examples.
    - An empty list in place of an object of schemas is an empty object.
    - A Boolean ``exclusiveMinimum`` or ``exclusiveMaximum`` beside its bound is of draft 4.
    - A Boolean ``required`` of a property is of draft 3.

    Args:
        schema: The JSON Schema of a tool's parameters. It is not changed.

    Returns:
        The schema, and the JSON Pointers of the repaired values; none for the schema as it is.

    >>> repaired_schema({"type": "object", "properties": [], "required": None})
    ({'type': 'object', 'properties': {}}, ['/properties', '/required'])
    """
    places: list[str] = []
    return _repaired(schema, "", places), places


def _repaired(schema: Any, place: str, places: list[str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        at = f"{place}/{reference_token(key)}"
        if value is None and key not in _ANY_VALUES:
            places.append(at)
            continue
        if key in _MAPS and isinstance(value, list) and not value:
            places.append(at)
            value = {}
        if key in _MAPS and isinstance(value, Mapping):
            value = {
                name: _repaired(member, f"{at}/{reference_token(name)}", places)
                for name, member in value.items()
            }
        elif key in _LISTS and isinstance(value, list):
            value = [_repaired(item, f"{at}/{index}", places) for index, item in enumerate(value)]
        elif key in _SCHEMAS:
            value = _repaired(value, at, places)
        found[key] = value
    _repair_bounds(found, place, places)
    _repair_required(found, place, places)
    return found


def _repair_bounds(schema: dict[str, Any], place: str, places: list[str]) -> None:
    for exclusive, bound in _EXCLUSIVE.items():
        flag = schema.get(exclusive)
        if "draft-04" in str(schema.get("$schema")) or not isinstance(flag, bool):
            continue
        if not flag:
            del schema[exclusive]
        elif bound in schema:
            schema[exclusive] = schema.pop(bound)
        else:
            continue
        places.append(f"{place}/{exclusive}")


def _repair_required(schema: dict[str, Any], place: str, places: list[str]) -> None:
    """Move the Boolean ``required`` of properties to the object that has them."""
    properties = schema.get("properties")
    listed = schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(listed, list):
        return
    for name, member in properties.items():
        if isinstance(member, dict) and isinstance(member.get("required"), bool):
            if member["required"] and name not in listed:
                schema["required"] = listed = [*listed, name]
            properties[name] = {key: value for key, value in member.items() if key != "required"}
            places.append(f"{place}/properties/{reference_token(name)}/required")
