"""The plain text of a family's tools: calls as its models write them, in words of any template."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from state_machines.notations import JSON, PYTHONIC, PYTHONIC_JSON
from state_machines.tools import ToolFormat

from .plain_text import PLAIN_TOOL_TEXT, ToolText, describe_tools

__all__ = ["tool_text_of"]

# What stands around a result, for the families that show it in a way of their own.
_RESULTS = {
    "gemma3": ("```tool_output\n", "\n```"),
    "deepseek_r1": (
        "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜><｜tool▁outputs▁end｜>",
    ),
}


def tool_text_of(tool_format: ToolFormat) -> ToolText:
    """The text of a family, as far as its arguments are JSON or Python; else the default one.

    (The others' chat templates write tools, calls and results themselves.)
    """
    write = _writer(tool_format)
    if write is None:
        return PLAIN_TOOL_TEXT

    def describe(tools: Sequence[Mapping[str, Any]]) -> str:
        arguments = "<a JSON object>" if tool_format.notation is JSON else "<name>=<value>, …"
        return describe_tools(tools, _calls(tool_format, [("<its name>", arguments)]))

    def write_calls(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        return _calls(tool_format, [(name, write(arguments)) for name, arguments in calls])

    before, after = _RESULTS.get(tool_format.name, ("<tool_response>\n", "\n</tool_response>"))
    return ToolText(describe, write_calls, lambda name, text: f"{before}{text}{after}")


def _writer(tool_format: ToolFormat) -> Callable[[Mapping[str, Any]], str] | None:
    if tool_format.notation is JSON:
        return _json
    if tool_format.notation in (PYTHONIC, PYTHONIC_JSON):
        return _keywords
    return None


def _calls(tool_format: ToolFormat, calls: Sequence[tuple[str, str]]) -> str:
    f = tool_format
    written = []
    for index, (name, arguments) in enumerate(calls):
        head = _filled(f.head, name, index)
        written.append(f"{head}{arguments}{_filled(f.foot[0], name, index)}")
    if f.wraps == "each":
        return f.between[0].join(f"{f.start}{call}{f.end}" for call in written)
    return f"{f.start}{f.opening[0]}{f.between[0].join(written)}{f.closing}{f.end}"


def _filled(text: str, name: str, index: int) -> str:
    first, has_id, rest = text.partition("{id}")
    id = str(index) if has_id else ""
    return f"{first.replace('{name}', name)}{id}{rest.replace('{name}', name)}"


def _json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _keywords(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_python(value)}" for name, value in arguments.items())


def _python(value: Any) -> str:
    """A JSON value as Python's literal, strings in double quotes."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_python(k)}: {_python(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
