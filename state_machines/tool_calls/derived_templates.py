"""Response templates of tokenizers that have none, derived from their chat template or schema.

The chat template writes an example of two calls with known names, keys and values. What stands
between them is the format.

A response schema (``response_schema`` in ``tokenizer_config.json``, transformers 4.57 to 5.12) is
the predecessor of response templates, a JSON Schema of a message. ``x-regex`` of a property finds
its text, ``x-regex-iterator`` the text of each item, ``x-parser`` reads it, and a JMESPath
expression reshapes it. Schemas whose properties have a text before and after them are converted;
others are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from state_machines.tool_calls.template_anchors import refuse
from state_machines.tool_calls.template_calls import EXAMPLE_CALLS, call_transform, common_start
from state_machines.tool_calls.template_writer import json_values_around

_NAME = r"(?P<name>[\w.:/-]+)"
_TEXT = re.compile(r"\((?:\?P<\w+>)?\.[*+]\??\)", re.DOTALL)
_WHOLE = re.compile(r"\[?\{type: ?'function', ?function: ?@\}\]?")
_EACH = re.compile(
    r"\[\*\]\.\{type: ?'function', ?function: ?\{name: ?(\w+), ?arguments: ?(\w+)\}\}"
)
_MEMBERS = re.compile(r"\{type: ?'function', ?function: ?\{name: ?(\w+), ?arguments: ?(\w+)\}\}")


def template_of_example(text: str) -> dict[str, Any] | None:
    """Return the response template of an answer with :data:`EXAMPLE_CALLS` and nothing else.

    Args:
        text: The answer, as the chat template of a model writes it.

    Returns:
        The template; ``None`` if the calls have no texts around them, or no known notation.
    """
    (name, _, arguments), (other, *_) = EXAMPLE_CALLS
    text = text.strip()
    calls = (
        _json_calls(text, name, arguments)
        or _call_list(text, name)
        or _tagged_calls(text, name, arguments)
    )
    if calls is None or other in str(calls):
        # A section around all calls is no region of a call.
        return None
    # The prompt is not parsed with this template, so any text is an anchor.
    return {"start_anchor": "assistant", "fields": {"tool_calls": calls}}


def _json_calls(text: str, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
    start = text.rfind("{", 0, text.find(next(iter(arguments))))
    for at, end, value in json_values_around(text, start):
        call = value[0] if isinstance(value, list) and value else value
        path = _path(call, arguments)
        if path is None:
            continue
        field = {"content": "json", **_anchors(text[:at], text[end:], name)}
        if "open" not in field:
            # The name is in front of the arguments, which are the content.
            if path or isinstance(value, list) or "open_pattern" not in field:
                continue
            return {**field, "repeats": True, "transform": call_transform("name", "content")}
        named = _path(call, name)
        if named is not None and isinstance(value, list):
            return {
                **field,
                "transform_each": True,
                "transform": call_transform(".".join(named), ".".join(path)),
            }
        if named is None or "close" not in field:
            continue
        whole = call_transform(".".join(("content", *named)), ".".join(("content", *path)))
        return {**field, "repeats": True, "transform": whole}
    return None


def _call_list(text: str, name: str) -> dict[str, Any] | None:
    start, end = text.find(f"[{name}("), text.rfind(")]") + 2
    if not 0 < start < end:
        return None
    return {
        **_anchors(text[:start], text[end:], name),
        "content": "python-call-list",
        "transform_each": True,
        "transform": call_transform("name", "arguments"),
    }


def _tagged_calls(text: str, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
    (key, value), (other_key, other_value) = arguments.items()
    places = [text.find(word) for word in (name, key, value, other_key, other_value)]
    if places != sorted(places) or places[0] < 0:
        return None
    before, after_name = text[: places[1]], text[places[1] + len(key) : places[2]]
    between = text[places[2] + len(value) : places[3]]
    before_name = common_start(before[::-1], between[::-1])[::-1]
    after_value = between.removesuffix(before_name).rstrip()
    rest = text[places[4] + len(other_value) :]
    if not before_name.strip() or not after_value or not rest.startswith(after_value):
        return None
    args: dict[str, Any] = {}
    if after_name.endswith('"') and after_value.startswith('"'):
        after_name, after_value = after_name[:-1], after_value[1:]
        args["value_parser"] = {"name": "json"}
    pattern = (
        rf"{re.escape(before_name.lstrip())}(?P<key>[\w.:/-]+){re.escape(after_name)}"
        rf"(?P<value>.*?){re.escape(after_value)}"
    )
    head = before.removesuffix(before_name)
    field = _anchors(head, rest.removeprefix(after_value).lstrip(), name)
    if "open_pattern" not in field or "close" not in field:
        return None
    return {
        **field,
        "repeats": True,
        "content": "xml-inline",
        "content_args": {"tag_pattern": pattern, **args},
        "transform": call_transform("name", "content"),
    }


def _anchors(before: str, after: str, name: str) -> dict[str, str]:
    """Return the anchors of the first call, given the texts before and after its content."""
    first, has_name, last = before.partition(name)
    # Another call begins with the same text.
    begin = first.strip() or last.strip()
    following = after.find(begin) if begin else -1
    close = (after[:following] if following >= 0 else after).strip()
    field = {"close": close} if close else {}
    if has_name:
        return {"open_pattern": f"{re.escape(first)}{_NAME}{re.escape(last)}", **field}
    return {"open": before.strip(), **field} if before.strip() else field


def _path(value: Any, target: Any) -> list[str] | None:
    """Return the keys that lead to a value; ``None`` if there are none."""
    if value == target:
        return []
    for key, inner in value.items() if isinstance(value, dict) else ():
        path = _path(inner, target) if re.fullmatch(r"\w+", key) else None
        if path is not None:
            return [key, *path]
    return None


def template_of_schema(schema: Any) -> dict[str, Any]:
    """Return the response template with the same results as a response schema.

    Raises:
        CompositionError: A member of the schema has no counterpart.
    """
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        raise refuse("response_schema has no properties", "response_schema")
    if "x-regex" in schema:
        raise refuse("one expression for all properties of response_schema", "response_schema")
    fields = {
        name: _field_of_property(name, each)
        for name, each in properties.items()
        if isinstance(each, Mapping) and not {"x-regex", "x-regex-iterator"}.isdisjoint(each)
    }
    if not fields:
        raise refuse("response_schema finds no property by an expression", "response_schema")
    return {"start_anchor": "assistant", "fields": fields}


def _field_of_property(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
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
    return {**field, "content": "json", **_reshaped(transform, where, repeats=repeats)}


def _reshaped(expression: Any, where: str, *, repeats: bool) -> dict[str, Any]:
    text = " ".join(expression.split()) if isinstance(expression, str) else ""
    if found := _EACH.fullmatch(text):
        return {"transform_each": True, "transform": call_transform(*found.groups())}
    if _WHOLE.fullmatch(text):
        call: Any = {"type": "function", "function": "{content}"}
    elif found := _MEMBERS.fullmatch(text):
        call = call_transform(f"content.{found[1]}", f"content.{found[2]}")
    elif not text and repeats:
        return {"repeats": True}
    else:
        raise refuse(f"the expression {expression!r}", f"{where}.x-parser-args.transform")
    return {"repeats": True, "transform": call} if repeats else {"transform": [call]}
