"""Tools that a model may call: dicts, types and functions."""

from __future__ import annotations

from .call_parsing import ParsedToolCalls, parse_tool_calls
from .choice import ToolChoice, ToolChoiceMode
from .input_format import InputFormat
from .python_tools import tool_from_function, tool_from_type
from .resolve import resolve_tool, resolve_tools, tool_from_dict
from .tool import Tool, tool_schema_errors

__all__ = [
    "InputFormat",
    "ParsedToolCalls",
    "Tool",
    "ToolChoice",
    "ToolChoiceMode",
    "parse_tool_calls",
    "resolve_tool",
    "resolve_tools",
    "tool_from_dict",
    "tool_from_function",
    "tool_from_type",
    "tool_schema_errors",
]
