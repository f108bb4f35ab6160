"""Values from free text, as an application without constraints would obtain them.

All steps are lenient, so that free text loses nothing by its form that a careful caller would
accept: code fences and text around the JSON are dropped, numbers in strings are converted, missing
nullable members are null, unknown members are dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
from quality_tasks import Json

__all__ = ["coerced", "is_valid", "parsed_strictly", "repaired"]

_FENCED = re.compile(r"```(?:json)?\s*(.*?)(?:```|\Z)", re.DOTALL)
_BRACKETED = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def repaired(text: str) -> Json:
    """Return the value that ``json-repair`` reads from a text; ``None`` without one."""
    # Needed by this arm only, from the extra "bench".
    from json_repair import repair_json  # noqa: PLC0415

    fenced = _FENCED.search(text)
    value = repair_json(fenced[1] if fenced else text, return_objects=True)
    return None if value == "" else value


def parsed_strictly(text: str) -> Json:
    """Return the JSON value in a text; ``None`` if there is none or it is not valid JSON."""
    fenced = _FENCED.search(text)
    found = _BRACKETED.search(fenced[1] if fenced else text)
    try:
        return json.loads(found[0]) if found else None
    except ValueError:
        return None


def coerced(value: Json, schema: Mapping[str, Any]) -> Json:
    """Convert a value to the types of a schema, where that is possible without a guess."""
    if "anyOf" in schema:
        return _coerced_call(value, schema["anyOf"])
    if "enum" in schema:
        return _coerced_choice(value, schema["enum"])
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "null" in kinds and _is_null(value):
        return None
    if "object" in kinds:
        return _coerced_object(value, schema)
    if "array" in kinds:
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [coerced(item, schema["items"]) for item in items]
    if "boolean" in kinds:
        return _coerced_choice(value, [True, False])
    if "integer" in kinds or "number" in kinds:
        return _coerced_number(value)
    if "string" in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def is_valid(value: Json, schema: Mapping[str, Any]) -> bool:
    """Return whether a value matches a schema, formats included."""
    kind = jsonschema.Draft202012Validator
    return bool(kind(schema, format_checker=kind.FORMAT_CHECKER).is_valid(value))


def _coerced_object(value: Json, schema: Mapping[str, Any]) -> Json:
    if isinstance(value, list):
        # Several values in a text; the first object is the answer.
        value = next((item for item in value if isinstance(item, dict)), None)
    if not isinstance(value, dict):
        return value
    members = {}
    for name, expected in schema["properties"].items():
        if name in value:
            members[name] = coerced(value[name], expected)
        elif _allows_null(expected):
            members[name] = None
    return members


def _coerced_call(value: Json, branches: list[Mapping[str, Any]]) -> Json:
    if not isinstance(value, dict):
        return value
    for branch in branches:
        if branch["properties"]["name"]["const"] == value.get("name"):
            return coerced(value, branch)
    return value


def _coerced_choice(value: Json, options: list[Any]) -> Json:
    if isinstance(value, bool) or value in options:
        return value
    shown = {_key(option): option for option in options}
    return shown.get(_key(value), value)


def _key(value: Json) -> str:
    return "null" if _is_null(value) else str(value).strip().casefold()


def _is_null(value: Json) -> bool:
    return value is None or (
        isinstance(value, str) and value.strip().casefold() in ("", "null", "none", "n/a")
    )


def _allows_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", [])
    return None in schema.get("enum", ()) or (isinstance(kinds, list) and "null" in kinds)


def _coerced_number(value: Json) -> Json:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
