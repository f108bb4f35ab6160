"""Convert a response schema, the predecessor of response templates, to a response template.

A response schema (``response_schema`` in ``tokenizer_config.json``, transformers 4.57 to 5.12) is a
JSON Schema of a message. ``x-regex`` of a property finds its text, ``x-regex-iterator`` the text of
each item, ``x-parser`` reads it, and a JMESPath expression reshapes it. Schemas whose properties
have a text before and after them are converted; others are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from state_machines.tool_calls.template_anchors import refuse

_TEXT = re.compile(r"\((?:\?P<\w+>)?\.[*+]\??\)", re.DOTALL)
_WHOLE = re.compile(r"\[?\{type: ?'function', ?function: ?@\}\]?")
_EACH = re.compile(
    r"\[\*\]\.\{type: ?'function', ?function: ?\{name: ?(\w+), ?arguments: ?(\w+)\}\}"
)
_MEMBERS = re.compile(r"\{type: ?'function', ?function: ?\{name: ?(\w+), ?arguments: ?(\w+)\}\}")


def template_of_schema(schema: Any) -> dict[str, Any]:
    """Return the response template that reads what a response schema reads.

    Raises:
        CompositionError: A member of the schema has no counterpart.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        raise refuse("response_schema has no properties", "response_schema")
    if "x-regex" in schema:
        raise refuse("one expression for all properties of response_schema", "response_schema")
    fields = {
        name: _field(name, each)
        for name, each in properties.items()
        if isinstance(each, Mapping) and not {"x-regex", "x-regex-iterator"}.isdisjoint(each)
    }
    if not fields:
        raise refuse("response_schema finds no property by an expression", "response_schema")
    return {"start_anchor": "assistant", "fields": fields}


def _field(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    where = f"response_schema.properties.{name}"
    repeats = "x-regex-iterator" in schema
    pattern = schema["x-regex-iterator" if repeats else "x-regex"]
    found = list(_TEXT.finditer(pattern)) if isinstance(pattern, str) else []
    if len(found) != 1:
        raise refuse(f"{pattern!r} has not one group for the text", where)
    begin, end = pattern[: found[0].start()], pattern[found[0].end() :]
    field: dict[str, Any] = {"open_pattern": begin, **({"close_pattern": end} if end else {})}
    if not begin:
        del field["open_pattern"]
    if name != "tool_calls":
        return field
    items = schema.get("items", {}) if repeats else schema
    parser = items.get("x-parser") if isinstance(items, Mapping) else None
    if parser != "json":
        raise refuse(f"the parser {parser!r} of calls", f"{where}.x-parser")
    transform = (items.get("x-parser-args") or {}).get("transform")
    return {**field, "content": "json", **_transform(transform, where, repeats=repeats)}


def _transform(expression: Any, where: str, *, repeats: bool) -> dict[str, Any]:
    text = " ".join(expression.split()) if isinstance(expression, str) else ""
    if found := _EACH.fullmatch(text):
        paths = {"name": f"{{{found[1]}}}", "arguments": f"{{{found[2]}}}"}
        return {"transform_each": True, "transform": {"type": "function", "function": paths}}
    if _WHOLE.fullmatch(text):
        call: Any = {"type": "function", "function": "{content}"}
    elif found := _MEMBERS.fullmatch(text):
        paths = {"name": f"{{content.{found[1]}}}", "arguments": f"{{content.{found[2]}}}"}
        call = {"type": "function", "function": paths}
    elif not text and repeats:
        return {"repeats": True}
    else:
        raise refuse(f"the expression {expression!r}", f"{where}.x-parser-args.transform")
    return {"repeats": True, "transform": call} if repeats else {"transform": [call]}
