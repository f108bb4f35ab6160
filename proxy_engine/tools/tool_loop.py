"""The tool loop: generate, run the called tools, and repeat until the model answers.

The answers come from a function, so the loop is independent of the engine.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic_core import from_json, to_json

from ..checks import as_list, short_repr, summary
from ..conversation.content import (
    AudioContent,
    Content,
    FileContent,
    ImageContent,
    JsonContent,
    TextContent,
    ToolCall,
)
from ..conversation.interaction import Interaction, Role
from ..conversation.messages import Prompt, to_interactions
from ..errors import (
    EventLoopBlockedError,
    InvalidOptionError,
    MediaError,
    ToolArgumentsError,
    ToolFailedError,
)
from ..results.generation import GenerationResult
from ..runtime.tracing import tool_span
from .choice import ToolChoice, resolve_tools
from .tool import Tool

_log = logging.getLogger(__name__)

A = TypeVar("A", bound=GenerationResult[Any])

Contents: TypeAlias = tuple[Content, ...]
"""The result of a call."""

OnTurn: TypeAlias = Callable[[Interaction], None]
"""Called with each new message of a conversation."""

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

    def __str__(self) -> str:
        """Return the text of the last answer, as ``str(result)``."""
        return str(self.result)

    def __repr__(self) -> str:
        return summary(
            self,
            str(self),
            rounds=self.rounds,
            messages=len(self.conversation),
            pending=tuple(call.name for call in self.pending),
        )


class ToolLoop(Generic[A]):
    """Generates, runs the called tools in order, and repeats until the model answers.

    A tool's string result is passed to the model as it is, an image or a recording as content, a
    list of contents as its parts, and another result as JSON. An exception of a tool, arguments
    that it does not accept, and a medium that the model does not read or that cannot be read are
    passed as ``{"error": …}``, and the
    message's ``metadata`` has ``"is_error": True``. Async tools are awaited to their end.

    A call that a limit cut short is not run, nor are those behind it: their arguments are not the
    model's own to the end. Their messages are errors that say so, with ``"is_cut_short": True`` in
    the ``metadata``, and the model may call again.

    Args:
        prompt: The prompt.
        tools: The tools, in any form that ``resolve_tools`` accepts. A list that changes is read
            again for each answer.
        tool_choice: The tool choice of the first answer; later answers may call tools or not.
        max_rounds: Maximum number of answers with tool calls. The next answer has tool choice
            ``"none"``, so the loop always ends with an answer.
        on_turn: Called with each new message, and with the message that replaces a medium which
            cannot be read.
        media: The kinds of media that the model reads: ``"image"``, ``"audio"``.

    Raises:
        InvalidToolError: A tool is invalid.
        InvalidOptionError: Another argument is invalid.
        PromptError: The prompt is invalid.
    """

    def __init__(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: OnTurn | None = None,
        media: Collection[str] = ("image", "audio"),
    ) -> None:
        if not isinstance(max_rounds, int) or isinstance(max_rounds, bool) or max_rounds < 1:
            raise InvalidOptionError(
                f"max_rounds must be an integer of at least 1, not {short_repr(max_rounds)}",
                option="max_rounds",
            )
        if on_turn is not None and not callable(on_turn):
            raise InvalidOptionError(
                f"on_turn should be callable, not {short_repr(on_turn)}", option="on_turn"
            )
        self._max_rounds = max_rounds
        self._on_turn = on_turn
        self._media = media
        self._source = tools
        self._items = as_list(tools)
        resolved = resolve_tools(tools if self._items is None else self._items)
        self._tools = {tool.name: tool for tool in resolved}
        # Checked before a tool runs, since its effects may be irreversible.
        self._choice = ToolChoice.of(tool_choice, self.tools)
        self._conversation = to_interactions(prompt)
        self._is_over = False
        # The number of messages up to the last answer; the results of its calls follow.
        self._answered = len(self._conversation)
        self._rounds = 0
        self._pending: list[ToolCall] = []

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools."""
        return tuple(self._tools.values())

    def run(self, generate: Generate[A]) -> ToolRun[A]:
        """Run the loop with a function that returns an answer, whose exceptions are raised."""
        while True:
            try:
                result = generate(tuple(self._conversation), self._choice)
            except MediaError as error:
                self._refuse_media(error)
                continue
            for call, tool in self._calls_of(result):
                with self._outcome_of(call) as values:
                    values.append(tool.invoke(call.arguments))
            if self._is_over:
                return self._ended(result)

    async def arun(self, generate: AsyncGenerate[A]) -> ToolRun[A]:
        """:meth:`run` for event loops; tools that are not async run on a thread."""
        while True:
            try:
                result = await generate(tuple(self._conversation), self._choice)
            except MediaError as error:
                self._refuse_media(error)
                continue
            for call, tool in self._calls_of(result):
                with self._outcome_of(call) as values:
                    values.append(await tool.ainvoke(call.arguments))
            if self._is_over:
                return self._ended(result)

    def _calls_of(self, result: A) -> Iterator[tuple[ToolCall, Tool]]:
        """Add an answer to the conversation, and yield its calls that are to run.

        Calls of tools without a function become pending. Calls that were cut short and those of
        unknown tools have a result at once.
        """
        self._add(result.to_interaction())
        self._answered = len(self._conversation)
        calls = self._conversation[-1].tool_calls
        if not calls or result.finish_reason == "cancelled":
            # A cancelled answer runs no tools.
            self._pending, self._is_over = list(calls), True
            return
        self._rounds += 1
        self._read_tools()
        mode = "none" if self._rounds >= self._max_rounds else "auto"
        self._choice = ToolChoice.of(mode, self.tools)
        complete = _complete_calls(result, len(calls))
        for index, call in enumerate(calls):
            tool = self._tools.get(call.name)
            if index >= complete:
                self._add_result(call, (_CUT_SHORT,), is_error=True, is_cut_short=True)
            elif tool is not None and tool.function is None:
                self._pending.append(call)
                self._is_over = True
            elif tool is None:
                unknown = JsonContent({"error": f"there is no tool {call.name!r}"})
                self._add_result(call, (unknown,), is_error=True)
            else:
                yield call, tool

    @contextmanager
    def _outcome_of(self, call: ToolCall) -> Iterator[list[Any]]:
        """Add the result of a call: the value that is appended to the list, or the exception."""
        values: list[Any] = []
        is_error = False
        try:
            with tool_span(call.name, call.id):
                yield values
                content = _contents(values[0], self._media)
        except EventLoopBlockedError:
            # The caller has to mend it, and no later call could succeed.
            raise
        except Exception as error:
            content, is_error = (_failure(call, error),), True
        self._add_result(call, content, is_error=is_error)

    def _refuse_media(self, error: MediaError) -> None:
        """Put an error in place of the media in the latest results; without media, raise it."""
        results = self._conversation[self._answered :]
        media = [any(isinstance(part, _MEDIA) for part in turn.content) for turn in results]
        if not any(media):
            raise error
        del self._conversation[self._answered :]
        calls = {call.id: call for call in self._conversation[-1].tool_calls}
        for turn, has_media in zip(results, media, strict=True):
            if has_media:
                call = calls[turn.tool_call_id or ""]
                self._add_result(call, (_failure(call, error),), is_error=True)
            else:
                self._conversation.append(turn)

    def _ended(self, result: A) -> ToolRun[A]:
        return ToolRun(result, tuple(self._conversation), self._rounds, tuple(self._pending))

    def _read_tools(self) -> None:
        """Read the tools again, if the list of them has changed."""
        items = None if isinstance(self._source, Iterator) else as_list(self._source)
        known = self._items or []
        if items is not None and not (len(items) == len(known) and all(map(is_, items, known))):
            self._items = items
            self._tools = {tool.name: tool for tool in resolve_tools(items)}

    def _add_result(self, call: ToolCall, content: Contents, **flags: bool) -> None:
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

    def _add(self, turn: Interaction) -> None:
        self._conversation.append(turn)
        if self._on_turn is not None:
            self._on_turn(turn)


_MEDIA = (ImageContent, AudioContent)
_PARTS = (TextContent, JsonContent, FileContent, *_MEDIA)
_CUT_SHORT = JsonContent(
    {"error": "The call was cut short and not run. Call again with shorter arguments."}
)


def _complete_calls(result: GenerationResult[Any], count: int) -> int:
    """Return how many of the calls of an answer no limit has cut short."""
    if result.finish_reason != "length" or result.cut_short is None:
        return count
    return result.cut_short.complete_calls(count)


def _failure(call: ToolCall, error: Exception) -> Content:
    if isinstance(error, ToolArgumentsError | ToolFailedError):
        return JsonContent({"error": str(error)})
    _log.info("tool %r failed", call.name, exc_info=error)
    text = str(error)
    kind = type(error).__name__
    return JsonContent({"error": f"{kind}: {text}" if text else kind})


def _contents(value: Any, media: Collection[str]) -> Contents:
    """Return the parts of a tool's result; raise ``PromptError`` if the model can read none.

    Of several parts, the media that the model does not read become placeholders.
    """
    is_list = isinstance(value, list | tuple) and bool(value)
    if not is_list or not all(isinstance(part, _PARTS) for part in value):
        return (_content(value, media),)
    unread = [isinstance(part, _MEDIA) and part.kind not in media for part in value]
    if all(unread):
        return (_content(value[0], media),)
    return tuple(
        TextContent(f"[1 {part.kind}]") if is_unread else _content(part, media)
        for part, is_unread in zip(value, unread, strict=True)
    )


def _content(value: Any, media: Collection[str]) -> Content:
    """Return the result of a tool as content; raise ``PromptError`` if the model cannot read it."""
    match value:
        case ImageContent() | AudioContent() | FileContent():
            if value.kind not in media:
                value.to_text()
            return value
        case TextContent() | JsonContent():
            return value
    if isinstance(value, str):
        return TextContent(value)
    # Values that JSON cannot represent, such as NaN, become strings.
    return JsonContent(from_json(to_json(value, fallback=str, inf_nan_mode="strings")))
