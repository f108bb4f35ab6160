"""The tool loop: generate, run the called tools, and repeat until the model answers.

The answers come from a function, so the loop is independent of the engine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from ..checks.texts import short_repr
from ..conversation.content import Content, FileContent, JsonContent, TextContent, ToolCall
from ..conversation.interaction import Interaction, Role
from ..conversation.messages import Prompt, to_interactions
from ..errors import InvalidOptionError, ToolArgumentsError
from ..runtime.tracing import tool_span
from .choice import ToolChoice
from .resolve import resolve_tools
from .tool import Tool

_log = logging.getLogger(__name__)

A = TypeVar("A", bound="GeneratedAnswer")


class GeneratedAnswer(Protocol):
    """An answer of a tool loop; ``GenerationResult`` is one."""

    @property
    def finish_reason(self) -> str: ...
    @property
    def tool_calls(self) -> Sequence[ToolCall]: ...
    def to_interaction(self) -> Interaction: ...


Generate: TypeAlias = Callable[[Sequence[Interaction], Any], A]
"""Returns the answer to a conversation, given the tool choice of this round."""

AsyncGenerate: TypeAlias = Callable[[Sequence[Interaction], Any], Awaitable[A]]
"""``Generate`` for event loops."""


@dataclass(frozen=True, slots=True)
class ToolRun(Generic[A]):
    """The outcome of a tool loop.

    Attributes:
        result: The last answer.
        conversation: The prompt and every message since, the last answer included.
        rounds: Number of answers with tool calls.
        pending: Calls of the last answer without a result, because their tools have no function or
            the answer was cancelled. Append their results to the conversation to continue.
    """

    result: A
    conversation: tuple[Interaction, ...]
    rounds: int
    pending: tuple[ToolCall, ...] = ()


def run_tools(
    generate: Generate[A],
    prompt: Prompt,
    tools: Iterable[Any],
    *,
    tool_choice: Any = None,
    max_rounds: int = 8,
    on_turn: Callable[[Interaction], None] | None = None,
) -> ToolRun[A]:
    """Generate, run the called tools in order, and repeat until the model answers.

    A tool's string result is passed to the model as it is, another result as JSON. An exception of
    a tool, and arguments that it does not accept, are passed as ``{"error": …}``, and the
    message's ``metadata`` has ``"is_error": True``. Async tools are awaited to their end.

    A call with the tool and the arguments of an earlier call is not run again: its message has the
    earlier result and says so, and its ``metadata`` has ``"is_repeated": True``.

    Args:
        generate: Returns an answer.
        prompt: The prompt.
        tools: The tools, in any form that ``resolve_tools`` accepts.
        tool_choice: The tool choice of the first answer; later answers may call tools or not.
        max_rounds: Maximum number of answers with tool calls. The next answer has tool choice
            ``"none"``, so the loop always ends with an answer.
        on_turn: Called with each new message.

    Raises:
        InvalidToolError: A tool is invalid. Raised before the first answer, like the next two.
        InvalidOptionError: Another argument is invalid.
        PromptError: The prompt is invalid.
        Exception: ``generate`` raised it.
    """
    run: _Run[A] = _Run(prompt, tools, tool_choice, max_rounds, on_turn)
    while True:
        run.take(generate(tuple(run.conversation), run.choice))
        for call, tool in run.calls():
            if not run.repeats(call):
                run.finish(call, *_outcome(tool, call))
        if run.is_over:
            return run.ended()


async def arun_tools(
    generate: AsyncGenerate[A],
    prompt: Prompt,
    tools: Iterable[Any],
    *,
    tool_choice: Any = None,
    max_rounds: int = 8,
    on_turn: Callable[[Interaction], None] | None = None,
) -> ToolRun[A]:
    """:func:`run_tools` for event loops; tools that are not async run on a thread."""
    run: _Run[A] = _Run(prompt, tools, tool_choice, max_rounds, on_turn)
    while True:
        run.take(await generate(tuple(run.conversation), run.choice))
        for call, tool in run.calls():
            if not run.repeats(call):
                run.finish(call, *await _async_outcome(tool, call))
        if run.is_over:
            return run.ended()


@dataclass(slots=True)
class _Run(Generic[A]):
    """The state of a tool loop."""

    prompt: Prompt
    given: Iterable[Any]
    choice: Any
    max_rounds: int
    on_turn: Callable[[Interaction], None] | None
    tools: dict[str, Tool] = field(init=False)
    conversation: list[Interaction] = field(init=False)
    rounds: int = 0
    is_over: bool = False
    result: A | None = None
    pending: list[ToolCall] = field(default_factory=list)
    outcomes: dict[tuple[str, str], tuple[Content, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rounds = self.max_rounds
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
            raise InvalidOptionError(
                f"max_rounds must be an integer of at least 1, not {short_repr(rounds)}",
                option="max_rounds",
            )
        if self.on_turn is not None and not callable(self.on_turn):
            raise InvalidOptionError(
                f"on_turn should be callable, not {short_repr(self.on_turn)}",
                option="on_turn",
            )
        resolved = resolve_tools(self.given)
        # Checked before a tool runs, since its effects may be irreversible.
        self.choice = ToolChoice.of(self.choice, resolved)
        self.tools = {tool.name: tool for tool in resolved}
        self.conversation = to_interactions(self.prompt)

    def take(self, result: A) -> None:
        """Add an answer to the conversation."""
        self.result = result
        calls = list(result.tool_calls)
        self._add(result.to_interaction())
        self.is_over = not calls
        if result.finish_reason == "cancelled":
            # A cancelled answer runs no tools.
            self.pending, self.is_over = calls, True
        elif calls:
            self.rounds += 1
            is_last = self.rounds >= self.max_rounds
            self.choice = ToolChoice.of("none" if is_last else "auto", tuple(self.tools.values()))

    def calls(self) -> list[tuple[ToolCall, Tool | None]]:
        """Return the calls to run now. Calls of tools without a function become pending."""
        if self.is_over:
            return []
        found = []
        for call in self.conversation[-1].tool_calls:
            tool = self.tools.get(call.name)
            if tool is not None and tool.function is None:
                self.pending.append(call)
                self.is_over = True
            else:
                found.append((call, tool))
        return found

    def repeats(self, call: ToolCall) -> bool:
        """Return whether a call was made before; if so, add the earlier result."""
        earlier = self.outcomes.get(_identity(call))
        if earlier is None:
            return False
        content, is_error = earlier
        self._add_result(call, _repeated(content), is_error=is_error, is_repeated=True)
        return True

    def finish(self, call: ToolCall, content: Content, is_error: bool) -> None:
        """Add the result of a call to the conversation."""
        self.outcomes[_identity(call)] = content, is_error
        self._add_result(call, content, is_error=is_error)

    def _add_result(self, call: ToolCall, content: Content, **flags: bool) -> None:
        metadata = {name: True for name, is_set in flags.items() if is_set}
        self._add(
            Interaction(
                Role.TOOL,
                content,
                tool_call_id=call.id,
                name=call.name,
                metadata=metadata or None,
            )
        )

    def ended(self) -> ToolRun[A]:
        """Return the outcome."""
        if self.result is None:
            raise AssertionError("a loop ends after an answer")
        return ToolRun(self.result, tuple(self.conversation), self.rounds, tuple(self.pending))

    def _add(self, turn: Interaction) -> None:
        self.conversation.append(turn)
        if self.on_turn is not None:
            self.on_turn(turn)


_REPEATED = "This call was made before, so it was not run again. "


def _identity(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(call.arguments, sort_keys=True)


def _repeated(content: Content) -> Content:
    """Return the result of an earlier call with a note for the model."""
    match content:
        case TextContent(text=text):
            return TextContent(f"{_REPEATED}Its result: {text}")
        case JsonContent(value=value):
            return JsonContent({"note": _REPEATED.strip(), "result": value})
    return TextContent(f"{_REPEATED}Its result is above.")


def _outcome(tool: Tool | None, call: ToolCall) -> tuple[Content, bool]:
    """Return the result of a call, and whether it is an error."""
    if tool is None:
        return _unknown(call)
    try:
        with tool_span(call.name, call.id):
            return _content(tool.invoke(call.arguments)), False
    except Exception as error:
        return _failure(call, error)


async def _async_outcome(tool: Tool | None, call: ToolCall) -> tuple[Content, bool]:
    if tool is None:
        return _unknown(call)
    try:
        with tool_span(call.name, call.id):
            return _content(await tool.ainvoke(call.arguments)), False
    except Exception as error:
        return _failure(call, error)


def _unknown(call: ToolCall) -> tuple[Content, bool]:
    return JsonContent({"error": f"there is no tool {call.name!r}"}), True


def _failure(call: ToolCall, error: Exception) -> tuple[Content, bool]:
    if isinstance(error, ToolArgumentsError):
        return JsonContent({"error": str(error)}), True
    _log.info("tool %r failed", call.name, exc_info=error)
    text = str(error)
    kind = type(error).__name__
    return JsonContent({"error": f"{kind}: {text}" if text else kind}), True


def _content(value: Any) -> Content:
    if isinstance(value, TextContent | JsonContent | FileContent):
        return value
    if isinstance(value, str):
        return TextContent(value)
    # Values that JSON cannot represent, such as NaN, become strings.
    return JsonContent(from_json(to_json(value, fallback=str, inf_nan_mode="strings")))
