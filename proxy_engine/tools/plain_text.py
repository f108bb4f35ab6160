"""Tools, calls and results as text, for models whose chat template knows nothing of them.

The default is what most open models were shown, whatever family they are of: JSON between
``<tool_call>`` tags.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["PLAIN_TOOL_TEXT", "ToolText", "describe_tools"]


@dataclass(frozen=True, slots=True)
class ToolText:
    """How tools are spoken of in plain text.

    ``describe``: OpenAI-style definitions to the text of a system message. ``write_calls``: names
    and arguments of the calls of one turn to what the assistant writes for them.
    ``write_result``: name of the tool and text of the result to what the user writes for it.
    """

    describe: Callable[[Sequence[Mapping[str, Any]]], str]
    write_calls: Callable[[Sequence[tuple[str, Mapping[str, Any]]]], str]
    write_result: Callable[[str | None, str], str]


def describe_tools(tools: Sequence[Mapping[str, Any]], form: str) -> str:
    """The definitions of ``tools``, and ``form``: what a call is to look like."""
    lines = (_json(tool.get("function", tool)) for tool in tools)
    return (
        "You can call these tools, each given with a JSON Schema of its parameters:\n"
        + "\n".join(lines)
        + f"\n\nTo call one, write\n{form}\nYou will be given its result."
    )


def _describe(tools: Sequence[Mapping[str, Any]]) -> str:
    form = '<tool_call>\n{"name": "<its name>", "arguments": <a JSON object>}\n</tool_call>'
    return describe_tools(tools, form)


def _write_calls(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    written = (_json({"name": name, "arguments": arguments}) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)


def _write_result(name: str | None, text: str) -> str:
    return f"<tool_response>\n{text}\n</tool_response>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


PLAIN_TOOL_TEXT = ToolText(_describe, _write_calls, _write_result)
"""JSON between tags; results between ``<tool_response>`` tags, as a user's message."""
