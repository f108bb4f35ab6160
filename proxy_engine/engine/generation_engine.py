"""Answers to one prompt, and the tool loop, as methods of the engine."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast, overload

from ..checks import reusable
from ..conversation.messages import Prompt, RawPrompt
from ..generation.forward_pass import PASS_TOKENS, following_logprobs
from ..options.overrides import OptionOverrides
from ..requests.streams import aevents_of, events_of
from ..results.generation import GenerationResult
from ..results.parts import Logprob, TokenLogprobs
from ..results.streams import AsyncEventStream, EventStream
from ..tools.tool_loop import ToolLoop, ToolRun
from .arguments import RequestArguments, ToolLoopArguments
from .core import EngineCore

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .arguments import Format, T


class GenerationEngine:
    """``generate``, ``stream`` and ``run_tools``, and the same for event loops."""

    _core: EngineCore

    def count_tokens(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> int:
        """Return the number of tokens of a prompt, as :meth:`generate` gives it to the model.

        The arguments and errors are those of :meth:`generate`. Nothing is generated.
        """
        return len(
            self._core.preparation.request(prompt, response_format, arguments).prompt.token_ids
        )

    def prompt_logprobs(
        self, prompt: str | Sequence[int], top_logprobs: int = 0
    ) -> tuple[TokenLogprobs, ...]:
        """Return the log-probabilities that the model gives to the tokens of a text.

        Nothing is generated, and no chat template is applied.

        Args:
            prompt: A text, or token ids.
            top_logprobs: The number of most likely tokens to report at each position.

        Returns:
            One item for each token. Nothing precedes the first one, which has the log-probability
            0 and no alternatives.

        Raises:
            PromptError: The prompt is empty, or has an unknown token.
            PromptTooLongError: The prompt does not fit into the context.
        """
        arguments: RequestArguments = {"max_tokens": 1, "reasoning": False}
        tokens = self._core.preparation.request(RawPrompt(prompt), None, arguments).prompt.token_ids
        cache = self._core.run_in_turn(self._core.caches.fresh)
        found = [TokenLogprobs(Logprob(tokens[0], 0.0, 0.0))]
        for start in range(0, len(tokens) - 1, PASS_TOKENS):
            end = min(start + PASS_TOKENS, len(tokens) - 1)
            read, following = tokens[start:end], tokens[start + 1 : end + 1]
            found += self._core.run_in_turn(
                partial(
                    following_logprobs,
                    self._core.loaded.model,
                    cache,
                    read,
                    following,
                    top_logprobs,
                )
            )
        return tuple(found)

    @overload
    def generate(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: Format[T] = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[T | None]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]: ...
    def generate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]:
        """Answer ``prompt``, and return the result.

        Args:
            prompt: A string, OpenAI messages, interactions, or a ``RawPrompt`` that bypasses the
                chat template.
            response_format: A pydantic model or another type, a ``TypeAdapter``, a JSON Schema,
                OpenAI's ``{"type": "json_schema", …}``, a state machine, or a composition of
                parts. Default: free text.
            arguments: ``tools`` (OpenAI-style dicts, pydantic models, dataclasses, functions or
                ``Tool``s), ``tool_choice`` (``"auto"``, ``"required"``, ``"none"`` or a name), and
                the options of ``GenerationOptions``. With tools and a response format, the model
                answers in the format or calls tools.

        Returns:
            The result. Its text is complete: it matches the response format within ``max_tokens``.

        Raises:
            PromptError: The prompt is invalid.
            InvalidOptionError: An option is unknown or invalid.
            InvalidResponseFormatError: The response format is none of the accepted kinds.
            InvalidToolError: A tool is invalid.
            SchemaError: A JSON Schema is invalid, unsupported or unsatisfiable.
            CompositionError: The parts of the answer cannot be combined.
            CompileLimitError: Compiling takes longer than ``max_compile_seconds``.
            MaxTokensTooSmallError: The shortest answer is longer than ``max_tokens``.
            GrammarBudgetError: No completion of the answer is found within the work budget.
            OutputValidationError: A validator of the response format's type rejects the answer, or
                with ``max_retries`` one of a tool its arguments. ``attempts`` has all answers.
            EngineClosedError: The engine is closed.
        """
        request = self._core.preparation.request(prompt, response_format, arguments)
        try:
            return self._core.attempts(request).run()
        finally:
            request.cancelled.set()

    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: Format[T] = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[T | None]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]: ...
    async def agenerate(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[Any]:
        """:meth:`generate` for event loops. Cancelling the task cancels the request."""
        request = await self._core.aprepare(prompt, response_format, arguments)
        attempts, loop = self._core.attempts(request), asyncio.get_running_loop()
        result = None
        try:
            while result is None:
                finish = await asyncio.wrap_future(attempts.submit())
                # Not on the loop: the caller's validators may take any time.
                result = await loop.run_in_executor(self._core.threads, attempts.finish, finish)
            return result
        finally:
            attempts.cancel()

    @overload
    def stream(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> EventStream[T]: ...
    @overload
    def stream(
        self,
        prompt: Prompt,
        response_format: Format[T] = None,
        **arguments: Unpack[RequestArguments],
    ) -> EventStream[T]: ...
    def stream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> EventStream[Any]:
        """Answer ``prompt`` as a stream of events; the last event is ``Finished``.

        The request is checked by this call, and queued when the first event is requested. The
        model does not wait for the reader. Closing or dropping the stream cancels the request.
        With ``max_retries``, ``AnswerRejected`` is between the events of two attempts.
        Arguments and exceptions are those of :meth:`generate`.
        """
        request = self._core.preparation.request(prompt, response_format, arguments)
        attempts = self._core.attempts(request, watches=True)
        # Once its events have ended, a stream keeps no model alive.
        return EventStream(events_of(attempts), request.cancelled.set)

    @overload
    def astream(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[T]: ...
    @overload
    def astream(
        self,
        prompt: Prompt,
        response_format: Format[T] = None,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncEventStream[T]: ...
    def astream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[Any]:
        """:meth:`stream` for event loops: ``async for event in engine.astream(…)``.

        The request is checked when the stream is awaited, entered with ``async with``, or first
        read.
        """
        core, cancelled = self._core, threading.Event()

        async def begin() -> AsyncGenerator[Any]:
            request = await core.aprepare(prompt, response_format, arguments, cancelled)
            return aevents_of(core.attempts(request, watches=True), core.threads)

        return AsyncEventStream(begin, cancelled.set)

    @overload
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: TypeForm[T],
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[Any]]: ...
    def run_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[Any]]:
        """Generate, run the tools that are called, and repeat until the model answers.

        The other arguments and exceptions are those of :meth:`generate`; see
        :class:`proxy_engine.tools.tool_loop.ToolLoop` for errors of tools.

        Args:
            prompt: The prompt.
            tools: The tools.
            response_format: The format of the last answer.
            arguments: ``tool_choice``, whether the first answer may or must call tools;
                ``max_rounds`` (8), the maximum number of answers with tool calls, after
                which the next one has none; ``on_turn``, a function that is called with each new
                message; and the options of ``GenerationOptions``. A call that has a result is not
                repeated unless ``allow_repeated_calls=True``, for tools whose result changes.
        """
        loop, options = self._tool_loop(prompt, tools, arguments)
        self._core.preparation.request("-", response_format, _last(options))
        generate = partial(self.generate, response_format=response_format, **options)
        return loop.run(lambda turns, choice: generate(turns, tools=loop.tools, tool_choice=choice))

    @overload
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: TypeForm[T],
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[T | None]]: ...
    @overload
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[Any]]: ...
    async def arun_tools(
        self,
        prompt: Prompt,
        tools: Iterable[Any],
        *,
        response_format: Any = None,
        **arguments: Unpack[ToolLoopArguments],
    ) -> ToolRun[GenerationResult[Any]]:
        """:meth:`run_tools` for event loops; async tools are awaited."""
        loop, options = self._tool_loop(prompt, tools, arguments)
        await self._core.aprepare("-", response_format, _last(options))
        generate = partial(self.agenerate, response_format=response_format, **options)
        return await loop.arun(
            lambda turns, choice: generate(turns, tools=loop.tools, tool_choice=choice)
        )

    def _tool_loop(
        self, prompt: Prompt, tools: Iterable[Any], arguments: ToolLoopArguments
    ) -> tuple[ToolLoop[GenerationResult[Any]], RequestArguments]:
        """Return the loop, and the arguments of its requests."""
        options: dict[str, Any] = {**arguments}
        names = ToolLoopArguments.__annotations__.keys() - OptionOverrides.__annotations__
        given = {name: options.pop(name) for name in names & options.keys()}
        loop: ToolLoop[GenerationResult[Any]] = ToolLoop(
            prompt, tools, media=self._core.input_modalities, **given
        )
        defaults = self._core.preparation.options
        allowed = options.get("allow_repeated_calls", defaults.allow_repeated_calls)
        options["allow_repeated_calls"] = False if allowed is None else allowed
        return loop, cast(RequestArguments, {**reusable(options), "tools": loop.tools})


def _last(options: RequestArguments) -> RequestArguments:
    """Return the arguments of an answer that may call no tool.

    A loop may end with one. Its errors are raised before a tool runs, since the effects of tools
    may be irreversible.
    """
    return {**options, "tool_choice": "none"}
