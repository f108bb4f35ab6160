"""Copies of schemas, with equal parts interned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from state_machines.budgets import spend
from state_machines.errors import InvalidSchemaError, UnsupportedSchemaError
from state_machines.json_schema.algebra.value_sets import MEMBERS_PER_STEP, interning_key

OBJECT_STEPS = 2
"""Steps charged for the copy of an object. The objects are counted before they are copied."""


def pointer_token(part: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901, section 3)."""
    return part.replace("~", "~0").replace("/", "~1")


def interned_copy(schema: Any) -> tuple[Any, str]:
    """Return a copy of a schema, as parsed JSON, and its text.

    Equal objects of the copy are one object, so repeated subschemas are evaluated once.

    Raises:
        InvalidSchemaError: The schema is not JSON.
        UnsupportedSchemaError: The schema is nested more deeply than Python's ``json`` reads.
    """
    known: dict[object, dict[str, Any]] = {}

    def intern(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(members) >= MEMBERS_PER_STEP:
            spend(len(members) // MEMBERS_PER_STEP)
        schema = dict(members)
        return known.setdefault((*schema, *map(interning_key, schema.values())), schema)

    try:
        text = json.dumps(schema, allow_nan=False)
        spend(OBJECT_STEPS * text.count("{"))
        return json.loads(text, object_pairs_hook=intern), text
    except RecursionError as error:
        keyword = _deepest_keyword(schema)
        pointer = "" if keyword is None else f"/{pointer_token(keyword)}"
        raise UnsupportedSchemaError(
            "the schema is nested too deeply",
            pointer=pointer,
            keyword=keyword,
            hint="Define nested schemas in $defs and refer to them",
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(
            f"the schema is not JSON: {error}", pointer="", hint=_type_hint(schema)
        ) from error


def _type_hint(schema: Any) -> str:
    """Return how a pydantic model, a ``TypeAdapter`` or another type is written as a schema."""
    kind = schema if isinstance(schema, type) else type(schema)
    if hasattr(kind, "model_json_schema"):
        source = f"{kind.__name__}.model_json_schema()"
    elif hasattr(kind, "json_schema"):
        source = "the adapter's json_schema()"
    elif isinstance(schema, type) or hasattr(schema, "__origin__"):
        name = kind.__name__ if kind is schema else str(schema)
        source = f"pydantic.TypeAdapter({name}).json_schema()"
    else:
        return ""
    return f"Pass {source}. The response_format of an engine takes the type itself"


def _deepest_keyword(schema: Any) -> str | None:
    """Return the keyword whose value is nested most deeply."""
    members = schema.items() if isinstance(schema, Mapping) else ()
    layer = [(str(keyword), value) for keyword, value in members]
    seen: set[int] = set()
    deepest = None
    while layer:
        deepest = layer[0][0]
        below: list[tuple[str, Any]] = []
        for keyword, value in layer:
            if id(value) in seen or not isinstance(value, Mapping | list | tuple):
                continue
            seen.add(id(value))
            parts = value.values() if isinstance(value, Mapping) else value
            below.extend((keyword, part) for part in parts)
        layer = below
    return deepest
