"""Tools, calls and results as plain text, for chat templates that cannot write them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from state_machines.argument_notations import (
    JSON,
    PYTHONIC,
    PYTHONIC_JSON,
    Notation,
    python_literal,
)
from state_machines.tool_calls import FORMATS, ToolFormat

from ..errors import PromptError
from .schema_text import schema_outline

_JSON_SCHEMAS = (
    "You can call these tools, each given with a JSON Schema of its parameters:\n"
    "{definitions}\n\nTo call one, write\n{call}\nYou will be given its result."
)
# Google's wording: Schmid, "Google Gemma 3 Function Calling Example", 2025. Only the last sentence
# is added, since calls have keyword arguments and literals alone.
_PYTHON = (
    "At each turn, if you decide to invoke any of the function(s), it should be wrapped with "
    "{calls}. The python methods described below are imported and available, you can only use "
    "defined methods. The generated code should be readable and efficient. The response to a "
    "method will be wrapped in {results} use it to call more tools or generate a helpful, friendly "
    "response. When using a {calls} think step by step why and how it should be used.\n\n"
    "The following Python methods are available:\n\n```python\n{definitions}\n```\n\n"
    "To call one, write\n{call}"
)

_MAX_OUTLINE_CHARS = 8_000

_PLACEHOLDERS: Mapping[Notation, str] = {
    JSON: "<a JSON object>",
    PYTHONIC: "<name>=<value>, …",
    PYTHONIC_JSON: "<name>=<value>, …",
}


PLAIN_FORMAT = FORMATS["hermes"]
"""JSON between ``<tool_call>`` tags, which most open models have seen in training."""


def with_tool_text(
    messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]], tool_format: ToolFormat
) -> list[dict[str, Any]]:
    """Add a description of the tools to the system message at the start."""
    if not tools:
        return messages
    text = describe_tools(tool_format, tools)
    first, rest = messages[0], messages[1:]
    if first["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    return [{**first, "content": f"{first['content']}\n\n{text}".lstrip("\n")}, *rest]


def with_calls_as_text(
    messages: list[dict[str, Any]], tool_format: ToolFormat
) -> list[dict[str, Any]]:
    """Replace tool calls by text of the assistant, and results by text of the user.

    Results and the user's next message become one message, since many templates require
    alternating roles.

    Raises:
        PromptError: Arguments are nested too deeply.
    """
    written: list[dict[str, Any]] = []
    after_result = False
    for message in messages:
        role, content = message["role"], message["content"]
        is_result = role == "tool"
        if is_result:
            result = tool_format.result
            role, content = "user", f"{result.begin}{content}{result.end}"
        functions = [call["function"] for call in message.get("tool_calls", ())]
        if functions:
            calls = write_calls(tool_format, [(f["name"], f["arguments"]) for f in functions])
            content = f"{content}\n{calls}" if content else calls
        if role == "user" and after_result:
            written[-1]["content"] += f"\n{content}"
        else:
            kept = {k: v for k, v in message.items() if k == "reasoning_content"}
            written.append({"role": role, "content": content, **kept})
        after_result = is_result or (role == "user" and after_result)
    return written


def describe_tools(tool_format: ToolFormat, tools: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of a system message for OpenAI-style definitions."""
    notation, result = tool_format.notation, tool_format.result
    form = _PLACEHOLDERS.get(notation) or notation.write({"<name>": "<value>"})
    call = _calls(tool_format, [("<its name>", form)])
    functions = [tool.get("function", tool) for tool in tools]
    if tool_format.described_as == "json_schema":
        definitions = "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)
        return _JSON_SCHEMAS.format(definitions=definitions, call=call)
    return _PYTHON.format(
        calls=f"{tool_format.start}{tool_format.end}",
        results=f"{result.begin.strip()}{result.end.strip()}",
        definitions="\n\n".join(map(_function, functions)),
        call=call,
    )


def write_calls(tool_format: ToolFormat, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the assistant's text for the (name, arguments) pairs of one turn.

    Raises:
        PromptError: Arguments are nested too deeply.
    """
    write = tool_format.notation.write
    try:
        return _calls(tool_format, [(name, write(values)) for name, values in calls])
    except RecursionError as error:
        raise PromptError("the arguments of a tool call are nested too deeply") from error


def _function(definition: Mapping[str, Any]) -> str:
    """Return a tool as a Python function whose docstring has an outline of the parameters."""
    schema = definition.get("parameters")
    schema = schema if isinstance(schema, Mapping) else {}
    properties, required = schema.get("properties"), schema.get("required")
    # Calls have the order of the schema, in which defaults may come first.
    parameters = ["*"]
    for name, member in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(member, Mapping) and "default" in member:
            parameters.append(f"{name}={_python(member['default'])}")
        elif member is not False:
            is_required = isinstance(required, list) and name in required
            parameters.append(name if is_required else f"{name}=None")
    if parameters == ["*"]:
        parameters = ["**arguments"] if "$ref" in schema or "anyOf" in schema else []
    description = definition.get("description")
    text = inspect.cleandoc(description) if isinstance(description, str) else ""
    if parameters:
        text = f"{text}\n\n{schema_outline(schema, _MAX_OUTLINE_CHARS)}\n"
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    body = f'"""{text}"""' if text else "..."
    lines = [f"    {line}".rstrip() for line in body.splitlines()]
    return "\n".join([f"def {definition.get('name')}({', '.join(parameters)}):", *lines])


def _python(value: Any) -> str:
    """Return the Python literal of a JSON value, or ``...`` if it is nested too deeply."""
    try:
        return python_literal(value)
    except RecursionError:
        return "..."


def _calls(tool_format: ToolFormat, calls: Sequence[tuple[str, str]]) -> str:
    f = tool_format
    written = []
    # Some formats number their calls from 1.
    first = 0 if re.fullmatch(f.ids.pattern, "0") else 1
    for index, (name, arguments) in enumerate(calls):
        head, foot = (_filled(text, name, first + index) for text in (f.head, f.foot[0]))
        written.append(f"{head}{arguments}{foot}")
    if f.wraps == "each":
        return f.between[0].join(f"{f.start}{call}{f.end}" for call in written)
    return f"{f.start}{f.opening[0]}{f.between[0].join(written)}{f.closing}{f.end}"


def _filled(text: str, name: str, number: int) -> str:
    """Fill in ``{name}`` and the first ``{id}``."""
    first, has_id, rest = text.partition("{id}")
    id = str(number) if has_id else ""
    return f"{first.replace('{name}', name)}{id}{rest.replace('{name}', name)}"
