"""The tool loop as methods of the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from ..conversation.interaction import Interaction
from ..conversation.messages import Prompt
from ..options.overrides import OptionOverrides
from ..results.generation import GenerationResult
from ..tools import resolve_tools
from ..tools.tool_loop import ToolRun, arun_tools, run_tools
from .request_arguments import RequestArguments

if TYPE_CHECKING:
    from pydantic import TypeAdapter as Adapter
    from typing_extensions import TypeForm

T = TypeVar("T")


class ToolEngine(ABC):
    """``run_tools`` and ``arun_tools``, built on ``generate`` and ``agenerate``."""

    @abstractmethod
    def generate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]:
        """Answer a prompt."""

    @abstractmethod
    async def agenerate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]:
        """Answer a prompt without blocking the event loop."""

    @overload
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: TypeForm[T],
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Adapter[T],
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[Any]]: ...
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[Any]]:
        """Generate, run the tools that are called, and repeat until the model answers.

        The other arguments and exceptions are those of :meth:`generate`; see
        :func:`proxy_engine.tools.tool_loop.run_tools` for errors of tools.

        Args:
            prompt: The prompt.
            tools: The tools.
            response_format: The format of the last answer.
            tool_choice: Whether the first answer may or must call tools.
            max_rounds: Maximum number of answers with tool calls; the next one has none.
            on_turn: Called with each new message.
            options: The options of ``GenerationOptions``.
        """
        resolved = resolve_tools(tools)
        generate = partial(self.generate, response_format=response_format, **options)
        return run_tools(
            lambda turns, choice: generate(turns, tools=resolved, tool_choice=choice),
            prompt,
            resolved,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            on_turn=on_turn,
        )

    @overload
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: TypeForm[T],
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Adapter[T],
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[Any]]: ...
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        tool_choice: Any = None,
        max_rounds: int = 8,
        on_turn: Callable[[Interaction], None] | None = None,
        **options: Unpack[OptionOverrides],
    ) -> ToolRun[GenerationResult[Any]]:
        """:meth:`run_tools` for event loops; async tools are awaited."""
        resolved = resolve_tools(tools)
        generate = partial(self.agenerate, response_format=response_format, **options)
        return await arun_tools(
            lambda turns, choice: generate(turns, tools=resolved, tool_choice=choice),
            prompt,
            resolved,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            on_turn=on_turn,
        )
