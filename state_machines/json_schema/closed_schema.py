"""Schemas whose objects and arrays have the members that they list, and no others.

JSON Schema permits any further property, and a model would write some. XGrammar's strict mode, in
which structural tags are read, permits none. Frameworks validate arguments as Python types, which
drop or refuse further properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_machines.errors import UnsupportedSchemaError
from state_machines.json_schema.schema_copy import pointer_token

_DEFINITIONS = ("$defs", "definitions")
_BY_NAME = ("properties", "patternProperties", *_DEFINITIONS)
_VALUES = ("items", "additionalProperties", "contains")
_BRANCHES = ("anyOf", "oneOf")
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"})


def closed_schema(schema: Any) -> Any:
    """Return a copy of a schema that permits listed properties and items alone.

    Objects and arrays that say what else they permit stay as they are, and so do objects that
    require a property that they do not list. Where several schemas describe one object, their
    properties together are permitted.

    Raises:
        UnsupportedSchemaError: The schema is nested too deeply.
    """
    closing = _Closing()
    try:
        while True:
            known = len(closing.joined)
            closed = closing.closed(schema)
            if len(closing.joined) == known:
                return closed
    except RecursionError as error:
        raise UnsupportedSchemaError("the schema is nested too deeply", pointer="") from error


class _Closing:
    """One pass over a schema.

    Attributes:
        joined: References to definitions that describe an object together with other schemas.
            These definitions are not closed by themselves.
    """

    def __init__(self) -> None:
        self.joined: set[str] = set()

    def closed(self, schema: Any, *, is_joined: bool = False) -> Any:
        """Return the closed copy.

        Args:
            schema: The schema.
            is_joined: Whether other schemas describe the same value.
        """
        if not isinstance(schema, Mapping):
            return schema
        written = dict(schema)
        lists_properties = isinstance(schema.get("properties"), Mapping)
        all_of = schema.get("allOf")
        inner = is_joined or lists_properties or (isinstance(all_of, list) and len(all_of) > 1)
        if inner and isinstance(reference := schema.get("$ref"), str):
            self.joined.add(reference)
        for key in written.keys() & {*_BY_NAME}:
            if isinstance(schema[key], Mapping):
                written[key] = {
                    name: self.closed(each, is_joined=self._is_joined(key, name))
                    for name, each in schema[key].items()
                }
        for key in written.keys() & {*_VALUES}:
            written[key] = self.closed(schema[key])
        for key in ("prefixItems", "allOf", *_BRANCHES):
            if isinstance(schema.get(key), list):
                joins = inner and key != "prefixItems"
                written[key] = [self.closed(each, is_joined=joins) for each in schema[key]]
        if not is_joined:
            _close(written)
        return written

    def _is_joined(self, key: str, name: str) -> bool:
        return key in _DEFINITIONS and f"#/{key}/{pointer_token(name)}" in self.joined


def _close(schema: dict[str, Any]) -> None:
    """Add the keywords that permit no further properties and items."""
    properties, required = schema.get("properties"), schema.get("required")
    lists_all = isinstance(properties, Mapping) and not (
        isinstance(required, list)
        and any(isinstance(name, str) and name not in properties for name in required)
    )
    if lists_all and not {"additionalProperties", "unevaluatedProperties"} & schema.keys():
        keyword = "unevaluatedProperties" if _IN_PLACE & schema.keys() else "additionalProperties"
        schema[keyword] = False
    if "prefixItems" in schema and not {"items", "unevaluatedItems"} & schema.keys():
        schema["items"] = False
