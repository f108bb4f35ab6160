"""The engine: a model, a queue of requests, and answers that match their format."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary
from state_machines.tools import ToolFormat

from .errors import InvalidOptionError
from .generation import DeviceMasks, ForcedTokens, text_encoder
from .interaction import Interaction
from .models.loading import LoadedModel, load_model
from .models.vocabularies import vocabulary_of
from .options import GenerationOptions, OptionOverrides
from .preparation import Preparation
from .progress import Report, to_stderr
from .prompt_cache import CacheOptions, PromptCaches
from .prompts import Prompt
from .request import Request
from .results import GenerationResult
from .running import Emit, RowMaker, usable_tokens
from .scheduler import Scheduler
from .streams import AsyncEventStream, EventStream, Submit, cancelling, ignore
from .tool_loop import ToolRun, arun_tools, run_tools
from .tools import resolve_tools
from .worker import Worker

__all__ = ["InferenceEngine"]

T = TypeVar("T")


class InferenceEngine:
    """Runs one language model, for any number of threads and tasks.

    ``model`` is a directory, a hub id, or ``None`` for the embedded model; or a model in memory,
    with its ``tokenizer``, as ``mlx_lm.load`` returns them. ``options`` are what requests use
    unless they say otherwise. ``report`` is told of downloads and conversions, one line each.
    ``cache_vocabulary`` keeps the tokenizer's vocabulary in the user's cache directory, so that
    the next engine with the same one is ready sooner; the last few are kept. ``tool_format`` is the
    way in which the model writes tool calls, or names it, where its tokenizer does not tell (see
    ``docs/tools.md``). ``cache`` says what is kept of prompts that were read, and how.

    Requests are run on a thread of the engine's own, in the order they come, up to ``batch_size``
    together: they share the model's passes, and nothing else.
    Whatever is wrong with a request is raised by the call that makes it, before the model runs.
    A request that is interrupted, cancelled or no longer listened to stops at the next token,
    and the engine is ready for the next one.

    Raises ``ModelError`` where there is no such model, ``VocabularyError`` where its tokenizer
    cannot be understood.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Module | None = None,
        tokenizer: Any = None,
        *,
        options: GenerationOptions | None = None,
        report: Report = to_stderr,
        cache_vocabulary: bool = True,
        tool_format: str | ToolFormat | None = None,
        cache: CacheOptions | None = None,
        batch_size: int = 8,
    ) -> None:
        if isinstance(model, Module) != (tokenizer is not None):
            raise InvalidOptionError(
                "a model in memory comes with its tokenizer, a named one without",
                option="tokenizer",
            )
        self._worker = Worker()
        # Runs when the engine is collected and at interpreter exit, whichever is first.
        self._finalizer = weakref.finalize(self, self._worker.close)
        try:
            if isinstance(model, Module):
                wrapper = (
                    tokenizer
                    if isinstance(tokenizer, TokenizerWrapper)
                    else TokenizerWrapper(tokenizer)
                )
                self._loaded = LoadedModel.of(model, wrapper, name=type(model).__module__)
            else:
                self._loaded = self._worker.submit(lambda: load_model(model, report)).result()
            self._vocabulary = vocabulary_of(self._loaded, cached=cache_vocabulary)
            self._caches = self._worker.submit(
                lambda: PromptCaches(self._loaded.model, cache)
            ).result()
            # Tokenizers are not safe to call from several threads at once.
            lock = threading.Lock()
            maker = RowMaker(
                self._loaded,
                self._vocabulary,
                ForcedTokens(text_encoder(self._loaded.tokenizer, lock), self._vocabulary),
                DeviceMasks(),
                usable_tokens(self._vocabulary),
            )
            self._scheduler = Scheduler(self._worker, maker, self._caches, batch_size=batch_size)
            self._preparation = Preparation(
                self._loaded,
                self._vocabulary,
                options or GenerationOptions(),
                tool_format,
                lock,
                self._caches,
            )
        except BaseException:
            self._finalizer()
            raise

    @property
    def model_name(self) -> str:
        """The model's path, hub id, or the embedded model's name."""
        return self._loaded.name

    @property
    def tokenizer(self) -> TokenizerWrapper:
        """The model's tokenizer."""
        return self._loaded.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary, as wide as the model's logits."""
        return self._vocabulary

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and answer together, or ``None`` where the model sets no limit."""
        return self._loaded.context_length

    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        response_format: type[T],
        tools: None = None,
        tool_choice: None = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[Any]: ...
    def generate(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[Any]:
        """Answer ``prompt``, and return when the answer is whole.

        ``prompt`` is a string, OpenAI-style messages, or interactions. ``response_format`` is a
        pydantic model, another type, a JSON Schema, OpenAI's dict, a state machine, a composition
        of sub-states, or ``None`` for free text (see ``proxy_engine.response_format``). ``tools``
        are OpenAI-style dicts, pydantic models, functions, or ``Tool``s; ``tool_choice`` says
        whether they may, must or must not be called (see ``proxy_engine.tools``). With tools and
        a response format the model answers in the format or calls tools. ``options`` are the
        fields of ``OptionOverrides``.

        Raises, before the model runs: ``PromptError``, ``InvalidOptionError``,
        ``InvalidResponseFormatError``, ``InvalidToolError``, ``SchemaError``,
        ``CompositionError``, ``EngineClosedError``; and ``BudgetTooSmallError`` where even the
        shortest output is longer than ``max_tokens``. What is returned is always complete. After:
        ``OutputValidationError`` where a type's own validators refuse it; and
        ``IncompleteOutputError``, for grammars too involved to plan their end.
        """
        request = self._preparation.request(prompt, response_format, tools, tool_choice, options)
        future = self._submit(request, ignore)
        with cancelling(request.cancelled):
            return future.result()

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        response_format: type[T],
        tools: None = None,
        tool_choice: None = None,
        **options: Unpack[OptionOverrides],
    ) -> EventStream[T]: ...
    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> EventStream[Any]: ...
    def stream(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> EventStream[Any]:
        """``generate``, event by event; the last one is ``Finished``.

        The request is checked by this call, and queued when the first event is asked for. The
        model does not wait for the reader. A closed or forgotten stream cancels the request.
        """
        request = self._preparation.request(prompt, response_format, tools, tool_choice, options)
        return EventStream(self._submitter(request), request.cancelled)

    @overload
    async def __call__(
        self,
        prompt: Prompt,
        *,
        response_format: type[T],
        tools: None = None,
        tool_choice: None = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[T]: ...
    @overload
    async def __call__(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[Any]: ...
    async def __call__(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> GenerationResult[Any]:
        """``generate``, without blocking the event loop. A cancelled task cancels the request."""
        # Compiling a large schema takes a while, too.
        request = await asyncio.to_thread(
            self._preparation.request, prompt, response_format, tools, tool_choice, options
        )
        with cancelling(request.cancelled):
            return await asyncio.wrap_future(self._submit(request, ignore))

    @overload
    async def astream(
        self,
        prompt: Prompt,
        *,
        response_format: type[T],
        tools: None = None,
        tool_choice: None = None,
        **options: Unpack[OptionOverrides],
    ) -> AsyncEventStream[T]: ...
    @overload
    async def astream(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> AsyncEventStream[Any]: ...
    async def astream(
        self,
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> AsyncEventStream[Any]:
        """``stream`` for an event loop: ``async for event in await engine.astream(…)``."""
        request = await asyncio.to_thread(
            self._preparation.request, prompt, response_format, tools, tool_choice, options
        )
        return AsyncEventStream(self._submitter(request), request.cancelled)

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
        """Generate, run the tools that are called, and so on until the model answers.

        What a tool returns, or the error that it raises, is given to the model as its result;
        after ``max_rounds`` answers with calls the model answers without. ``on_turn`` is told of
        every new turn. See ``proxy_engine.tool_loop.run_tools``; raises what :meth:`generate` does.
        """
        known_tools = resolve_tools(tools)

        def generate(turns: Sequence[Interaction], choice: Any) -> GenerationResult[Any]:
            return self.generate(
                turns,
                response_format=response_format,
                tools=known_tools,
                tool_choice=choice,
                **options,
            )

        return run_tools(
            generate,
            prompt,
            known_tools,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            on_turn=on_turn,
        )

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
        """``run_tools`` without blocking the event loop; async tools are awaited."""
        known_tools = resolve_tools(tools)

        async def generate(turns: Sequence[Interaction], choice: Any) -> GenerationResult[Any]:
            return await self(
                turns,
                response_format=response_format,
                tools=known_tools,
                tool_choice=choice,
                **options,
            )

        return await arun_tools(
            generate,
            prompt,
            known_tools,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            on_turn=on_turn,
        )

    def close(self) -> None:
        """Stop the running request, refuse all others, and free the thread. Idempotent."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _submitter(self, request: Request) -> Submit:
        request.watches = True
        # Not the engine: a stream that is not begun must not keep it from being collected.
        return partial(self._scheduler.submit, request)

    def _submit(self, request: Request, emit: Emit) -> Future[GenerationResult[Any]]:
        return self._scheduler.submit(request, emit)
