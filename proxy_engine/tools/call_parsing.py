"""Parse tool calls in text that was generated elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from state_machines.tool_calls import (
    CALL,
    CallArguments,
    CallNames,
    ToolFormat,
    UnreadableCall,
    WrittenCall,
    format_named,
    split_calls,
)

from ..checks import short_repr
from ..conversation.content import ToolCall
from ..conversation.tool_format_detection import detect
from ..errors import (
    InvalidOptionError,
    InvalidToolError,
    OutputValidationError,
    PromptError,
    ProxyError,
    ToolArgumentsError,
)
from .choice import resolve_tools
from .tool import Tool, tool_schema_errors

if TYPE_CHECKING:
    # The package can be imported without MLX.
    from mlx_lm.tokenizer_utils import TokenizerWrapper


@dataclass(frozen=True, slots=True)
class ParsedToolCalls:
    """The tool calls of a text.

    Attributes:
        text: The text without the calls. Text that begins as a call and cannot be read stays in it.
        calls: The calls of known tools with valid arguments.
        errors: The other calls: ``ToolArgumentsError`` for invalid arguments, and
            ``OutputValidationError`` for unknown tools and unreadable calls.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    errors: tuple[ProxyError, ...] = ()


def parse_tool_calls(
    text: str,
    tool_format: str | ToolFormat | TokenizerWrapper = "hermes",
    tools: Iterable[Any] | None = None,
) -> ParsedToolCalls:
    """Return the tool calls of a text that was generated without the grammar of the calls.

    Calls may stand between other text. White space may differ from that of the format, and the
    delimiter of the last call may be missing. Arguments that are a JSON string of their JSON are
    read. Reasoning is part of the text.

    Args:
        text: The text, with special tokens as their names.
        tool_format: A format of :data:`state_machines.tool_calls.FORMATS` by name, a format, or the
            tokenizer of the model that wrote the text, whose format is detected.
        tools: The tools, in any form that ``resolve_tools`` accepts. ``None`` reads the calls of
            any tool and does not check their arguments. Values whose type depends on the schema
            are read as values of properties that the schema does not list.

    Raises:
        InvalidToolError: A tool is invalid.
        ToolSchemaError: The schema of a called tool is refused.
        CompositionError: There is no format of that name.
        InvalidOptionError: The text is no string, or ``tool_format`` of another type.

    >>> written = 'Yes. <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    >>> parsed = parse_tool_calls(written, "hermes", [Tool("f")])
    >>> parsed.text, parsed.calls[0].name
    ('Yes. ', 'f')
    >>> written = 'functools[{"name": "f", "arguments": {"n": 1}}]'
    >>> parse_tool_calls(written, "phi4_mini").calls[0].arguments
    {'n': 1}
    """
    if not isinstance(text, str):
        raise InvalidOptionError(f"the text is no string: {short_repr(text)}", option="text")
    reader = _CallReader(_format(tool_format), tools)
    for piece in split_calls(text, reader.format):
        match piece:
            case str():
                reader.text.append(piece)
            case WrittenCall():
                reader.read(piece)
            case UnreadableCall():
                reader.refuse(
                    f"the tool call at character {piece.position} cannot be read: {piece.reason}",
                    text[piece.position :],
                )
    return ParsedToolCalls("".join(reader.text), tuple(reader.calls), tuple(reader.errors))


def unique_call_id(
    written: str | None, new_id: Callable[[str, int], str], name: str, calls: Sequence[ToolCall]
) -> str:
    """Return the id that the model has written for its next call, unless another call has it.

    Args:
        written: The id; empty or ``None`` if there is none.
        new_id: Makes an id from the tool's name and the call's number.
        name: The tool's name.
        calls: The calls before.
    """
    taken = {call.id for call in calls}
    if written and written not in taken:
        return written
    ids = (new_id(name, number) for number in count(len(calls)))
    return next(id for id in ids if id not in taken)


def _format(source: Any) -> ToolFormat:
    if isinstance(source, ToolFormat):
        return source
    if isinstance(source, str):
        return format_named(source)
    if not hasattr(source, "tool_parser"):
        raise InvalidOptionError(
            f"the tool format is {short_repr(source)}",
            option="tool_format",
            hint="Give a ToolFormat, the name of one, or a tokenizer that mlx_lm.load returns.",
        )
    return detect(source).format


class _CallReader:
    """Checks calls, and converts them to the calls of a message."""

    def __init__(self, tool_format: ToolFormat, tools: Iterable[Any] | None) -> None:
        self.format = tool_format
        self._tools = {tool.name: tool for tool in resolve_tools(tools)}
        self._reads_any_tool = tools is None
        self._names = CallNames(tool_format, self._tools.values())
        self._arguments: dict[tuple[str, str], CallArguments] = {}
        self.text: list[str] = []
        self.calls: list[ToolCall] = []
        self.errors: list[ProxyError] = []

    def read(self, call: WrittenCall) -> None:
        """Add a call, or an error."""
        name = self._names.read(call.name)
        try:
            if self._reads_any_tool and name not in self._tools:
                self._tools[name] = Tool(name, "", {"type": "object"})
        except InvalidToolError as error:
            self.refuse(str(error), call.raw)
            return
        tool = self._tools.get(name)
        if tool is None:
            self.refuse(f"there is no tool {name!r}", call.raw)
            return
        try:
            arguments = self._arguments_of(tool, call)
            tool.validate(arguments)
            id = unique_call_id(call.id, self.format.new_id, call.name, self.calls)
            parsed = tool.parse(arguments)
            is_custom = tool.input is not None
            self.calls.append(ToolCall(id, tool.name, arguments, call.raw, parsed, is_custom))
        except ToolArgumentsError as error:
            self.errors.append(error)
        except (ValueError, PromptError) as error:
            self.refuse(f"the arguments of the call of {tool.name!r}: {error}", call.raw)

    def refuse(self, what: str, text: str) -> None:
        """Add an error."""
        self.errors.append(OutputValidationError(what, text=text))

    def _arguments_of(self, tool: Tool, call: WrittenCall) -> dict[str, Any]:
        key = (tool.name, call.format.name)
        if key not in self._arguments:
            signature = tool.signature
            notation = call.format.notation
            self._arguments[key] = CallArguments(
                CALL, tool=signature, schema=signature.parameters, notation=notation
            )
        with tool_schema_errors(tool):
            return self._arguments[key].parse(_encoded_once(call.arguments))


def _encoded_once(arguments: str) -> str:
    """Return arguments that are JSON within a JSON string as the JSON alone."""
    text = arguments.strip()
    if text[:1] == '"' == text[-1:]:
        try:
            inner = json.loads(text)
        except ValueError:
            return arguments
        if isinstance(inner, str) and inner.lstrip().startswith("{"):
            return inner
    return arguments
