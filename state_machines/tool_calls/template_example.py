"""Read a response template off the calls that a chat template writes.

The example has two calls with known names, keys and values. What stands between them is the format.
"""

from __future__ import annotations

import re
from typing import Any

from state_machines.tool_calls.template_calls import EXAMPLE_CALLS
from state_machines.tool_calls.template_writer import json_values_around

_NAME = r"(?P<name>[\w.:/-]+)"


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
            return {**field, "repeats": True, "transform": _transform(["name"], ["content"])}
        named = _path(call, name)
        if named is not None and isinstance(value, list):
            return {**field, "transform_each": True, "transform": _transform(named, path)}
        if named is None or "close" not in field:
            continue
        whole = _transform(["content", *named], ["content", *path])
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
        "transform": _transform(["name"], ["arguments"]),
    }


def _tagged_calls(text: str, name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
    (key, value), (other_key, other_value) = arguments.items()
    places = [text.find(each) for each in (name, key, value, other_key, other_value)]
    if places != sorted(places) or places[0] < 0:
        return None
    before, after_name = text[: places[1]], text[places[1] + len(key) : places[2]]
    between = text[places[2] + len(value) : places[3]]
    before_name = _common_ending(before, between)
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
        "transform": _transform(["name"], ["content"]),
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


def _transform(name: list[str], arguments: list[str]) -> dict[str, Any]:
    function = {"name": f"{{{'.'.join(name)}}}", "arguments": f"{{{'.'.join(arguments)}}}"}
    return {"type": "function", "function": function}


def _common_ending(left: str, right: str) -> str:
    size = 0
    while size < min(len(left), len(right)) and left[-size - 1] == right[-size - 1]:
        size += 1
    return left[len(left) - size :]
