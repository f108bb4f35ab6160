"""Tool calls in the native formats of model families."""

from state_machines.tool_calls.argument_stream import ArgumentStream
from state_machines.tool_calls.call import (
    CALL,
    CallArguments,
    CallEnd,
    CallId,
    CallIds,
    CallStart,
    InputDecoder,
    ToolSignature,
    any_text,
    input_schema,
)
from state_machines.tool_calls.call_names import CallNames
from state_machines.tool_calls.families import (
    FORMATS,
    format_named,
    in_compact_json,
    with_trimmed_strings,
)
from state_machines.tool_calls.template_calls import EXAMPLE_CALLS
from state_machines.tool_calls.template_compiler import compile_response_template
from state_machines.tool_calls.tool_format import Delimiters, Sign, ToolFormat
from state_machines.tool_calls.written_calls import UnreadableCall, WrittenCall, split_calls

__all__ = [
    "CALL",
    "EXAMPLE_CALLS",
    "FORMATS",
    "ArgumentStream",
    "CallArguments",
    "CallEnd",
    "CallId",
    "CallIds",
    "CallNames",
    "CallStart",
    "Delimiters",
    "InputDecoder",
    "Sign",
    "ToolFormat",
    "ToolSignature",
    "UnreadableCall",
    "WrittenCall",
    "any_text",
    "compile_response_template",
    "format_named",
    "in_compact_json",
    "input_schema",
    "split_calls",
    "with_trimmed_strings",
]
