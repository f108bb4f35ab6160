"""Call tools, give the model what they return, and go on until it answers.

How an answer is generated is the caller's affair; here is only what happens between answers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from ..conversation.content import Content, FileContent, JsonContent, TextContent, ToolCall
from ..conversation.interaction import Interaction, Role
from ..conversation.messages import Prompt, to_interactions
from ..errors import InvalidOptionError, ToolArgumentsError
from ..text_checks import short_repr
from .choice import ToolChoice
from .resolve import resolve_tools
from .tool import Tool

__all__ = ["AsyncGenerate", "Generate", "GeneratedAnswer", "ToolRun", "arun_tools", "run_tools"]

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
"""The conversation so far, and the ``tool_choice`` of this round, to an answer."""

AsyncGenerate: TypeAlias = Callable[[Sequence[Interaction], Any], Awaitable[A]]
"""``Generate`` that is awaited."""


@dataclass(frozen=True, slots=True)
class ToolRun(Generic[A]):
    """How a loop ended.

    ``result``: the last answer. ``conversation``: the prompt, and every turn since, that answer
    included. ``rounds``: how many answers called tools. ``pending``: calls of the last answer that
    have no result, because their tools have no function or the answer was cancelled; whoever adds
    results for them to the conversation can go on from there.
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
    """Generate, run the tools that were called in their order, and so on until none is.

    ``tools`` are what ``resolve_tools`` takes. ``tool_choice`` holds for the first answer; later
    ones may call tools or not. After ``max_rounds`` answers with calls the model is asked once
    more, with ``"none"``: so there always is an answer. ``on_turn`` is told of every new turn.

    What a tool returns is given to the model as it is if it is a string, else as JSON. What it
    raises is given to the model as ``{"error": …}``, and so are arguments that it does not take;
    the turn's ``metadata`` then has ``"is_error": True``. Async tools are run to their end.

    Raises ``InvalidToolError``, ``InvalidOptionError``, ``PromptError`` before anything is
    generated, and whatever ``generate`` raises; ``on_turn`` has been told of all turns before.
    """
    run: _Run[A] = _Run(prompt, tools, tool_choice, max_rounds, on_turn)
    while True:
        run.take(generate(tuple(run.conversation), run.choice))
        for call, tool in run.calls():
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
    """``run_tools`` for an event loop: tools that are not async are called on a thread."""
    run: _Run[A] = _Run(prompt, tools, tool_choice, max_rounds, on_turn)
    while True:
        run.take(await generate(tuple(run.conversation), run.choice))
        for call, tool in run.calls():
            run.finish(call, *await _async_outcome(tool, call))
        if run.is_over:
            return run.ended()


@dataclass(slots=True)
class _Run(Generic[A]):
    """Where a loop stands."""

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

    def __post_init__(self) -> None:
        rounds = self.max_rounds
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
            raise InvalidOptionError(
                f"max_rounds must be an integer of at least 1, not {short_repr(rounds)}",
                option="max_rounds",
            )
        if self.on_turn is not None and not callable(self.on_turn):
            raise InvalidOptionError(
                f"on_turn is called with turns, and {short_repr(self.on_turn)} cannot be",
                option="on_turn",
            )
        resolved = resolve_tools(self.given)
        # Before a tool has been run, since there may be no way back from that.
        self.choice = ToolChoice.of(self.choice, resolved)
        self.tools = {tool.name: tool for tool in resolved}
        self.conversation = to_interactions(self.prompt)

    def take(self, result: A) -> None:
        """An answer has been generated."""
        self.result = result
        calls = list(result.tool_calls)
        self._add(result.to_interaction())
        self.is_over = not calls
        if result.finish_reason == "cancelled":
            # Who cancels does not want tools to be run.
            self.pending, self.is_over = calls, True
        elif calls:
            self.rounds += 1
            is_last = self.rounds >= self.max_rounds
            self.choice = ToolChoice.of("none" if is_last else "auto", tuple(self.tools.values()))

    def calls(self) -> list[tuple[ToolCall, Tool | None]]:
        """What is to be run now; calls of tools without a function are left to the caller."""
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

    def finish(self, call: ToolCall, content: Content, is_error: bool) -> None:
        """A call has its result."""
        self._add(
            Interaction(
                Role.TOOL,
                content,
                tool_call_id=call.id,
                name=call.name,
                metadata={"is_error": True} if is_error else None,
            )
        )

    def ended(self) -> ToolRun[A]:
        """What there is to say at the end."""
        if self.result is None:
            raise AssertionError("a loop ends after an answer")
        return ToolRun(self.result, tuple(self.conversation), self.rounds, tuple(self.pending))

    def _add(self, turn: Interaction) -> None:
        self.conversation.append(turn)
        if self.on_turn is not None:
            self.on_turn(turn)


def _outcome(tool: Tool | None, call: ToolCall) -> tuple[Content, bool]:
    """The result of a call, and whether it tells of an error."""
    if tool is None:
        return _unknown(call)
    try:
        return _content(tool.invoke(call.arguments)), False
    except Exception as error:
        return _failure(call, error)


async def _async_outcome(tool: Tool | None, call: ToolCall) -> tuple[Content, bool]:
    if tool is None:
        return _unknown(call)
    try:
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
    # What JSON has no form for, such as NaN, is shown as Python's `str` has it.
    return JsonContent(from_json(to_json(value, fallback=str, inf_nan_mode="strings")))
