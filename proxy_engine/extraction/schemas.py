"""Schemas of answers: their properties, closed objects, definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INPUT = "input"
"""The source of quotes that is the text of the record, unless the options give another."""

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
)
"""Keywords that constrain nothing."""

_FORMS = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM:SSZ",
    "date-time": "YYYY-MM-DDTHH:MM:SSZ",
    "duration": "ISO 8601",
}
"""How RFC 3339 writes the values of formats, which texts write otherwise."""

_MAX_REFERENCES = 16

_MAX_DEPTH = 64
"""Nesting of a schema down to which the types of columns depend on closed objects."""

_OTHER_OBJECTS = {
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"),
    *("minProperties", "allOf", "anyOf", "oneOf", "not", "if", "$ref", "const", "enum"),
    *("dependentRequired", "dependentSchemas", "dependencies"),
}
"""Keywords with which an object may have properties that it does not list."""


def closed_schema(schema: Any, depth: int = 0) -> Any:
    """Return a schema whose plain objects permit listed properties alone."""
    if isinstance(schema, list):
        return [closed_schema(part, depth + 1) for part in schema]
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return schema
    closed = {keyword: closed_schema(value, depth + 1) for keyword, value in schema.items()}
    listed, required = schema.get("properties"), schema.get("required", [])
    is_plain = _OTHER_OBJECTS.isdisjoint(schema) and isinstance(required, list)
    if is_plain and isinstance(listed, Mapping) and all(name in listed for name in required):
        closed["additionalProperties"] = False
    return closed


def known_properties(schema: Any, root: Any, depth: int = 0) -> tuple[dict[str, Any], bool] | None:
    """Return the properties of a schema's values, and whether the values can have more.

    Each property has its schema, of several the first one. ``None`` if the values are not all
    objects with known properties.
    """
    if not isinstance(schema, Mapping) or depth > 16:
        return None
    if "$ref" in schema:
        return known_properties(definition(schema, root), root, depth + 1)
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, Mapping) and properties:
        closing = (schema.get("additionalProperties"), schema.get("unevaluatedProperties"))
        return dict(properties), False not in closing
    branches = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(branches, list):
        return None
    found = [known_properties(branch, root, depth + 1) for branch in branches]
    known = [properties for properties in found if properties is not None]
    if len(known) < len(found):
        return None
    names: dict[str, Any] = {}
    for properties, _ in known:
        names |= {name: schema for name, schema in properties.items() if name not in names}
    return names, any(is_open for _, is_open in known)


def written_form(schema: Any, root: Any, depth: int = 0) -> str:
    """Return the form of dates and times in strings of a schema, such as ``YYYY-MM-DD``.

    Empty for other schemas. A model that is not told the form begins with the day, as texts do.
    """
    schema = definition(schema, root)
    # Alternatives of alternatives are few: a schema may refer to itself in many.
    if not isinstance(schema, Mapping) or depth > 2:
        return ""
    forms = [_FORMS.get(str(schema.get("format")), "")]
    branches = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(branches, list):
        forms += [written_form(branch, root, depth + 1) for branch in branches]
    return next(filter(None, forms), "")


def definition(schema: Any, root: Any) -> Any:
    """Return the definition that a schema refers to; another schema as it is.

    ``None`` for a reference that is no name of a definition, and for one that has no end.
    """
    return _reference_chain(schema, root)[-1]


def keywords_beside_references(schema: Any, root: Any) -> set[str]:
    """Return the keywords beside the references that lead to :func:`definition`."""
    return {
        keyword
        for referring in _reference_chain(schema, root)[:-1]
        for keyword in referring
        if keyword != "$ref"
    }


def _reference_chain(schema: Any, root: Any) -> list[Any]:
    """Return a schema, and the chain of schemas that its references lead to."""
    chain = [schema]
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if reference is None:
            return chain
        _, _, path = str(reference).partition("#/")
        keyword, _, name = path.partition("/")
        definitions = root.get(keyword) if isinstance(root, Mapping) else None
        schema = definitions.get(name) if isinstance(definitions, Mapping) else None
        chain.append(schema)
    return [*chain, None]


def with_definitions(schema: Any, root: Any) -> Any:
    """Return a schema with the definitions that it refers to."""
    found, pending = [], [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            target = definition(value, root)
            if target is not value and target not in found:
                pending.append(target)
            found.append(value)
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return found
