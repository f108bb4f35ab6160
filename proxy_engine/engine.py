"""The engine: a model, a queue of requests, and answers that match their format."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary
from state_machines.tool_calls import ToolFormat

from .batch_engine import BatchEngine
from .conversation.interaction import Interaction
from .conversation.prompts import Prompt
from .core import EngineCore
from .option_overrides import OptionOverrides
from .options import GenerationOptions
from .progress import OnProgress, to_stderr
from .prompt_cache import CacheOptions
from .requests.batches import Begun
from .requests.request import Request
from .requests.streams import AsyncEventStream, Closing, EventStream, Submit, cancelling, ignore
from .requests.worker import Worker
from .results import GenerationResult
from .tools import resolve_tools
from .tools.tool_loop import ToolRun, arun_tools, run_tools

__all__ = ["InferenceEngine"]

T = TypeVar("T")


class InferenceEngine(Closing, BatchEngine):
    """Runs one language model, for any number of threads and tasks.

    ``model`` is a directory, a hub id, or ``None`` for the embedded model; or a model in memory,
    with its ``tokenizer``, as ``mlx_lm.load`` returns them. ``options`` are what requests use
    unless they say otherwise. ``on_progress`` is called with a line at each step of downloads and
    conversions; these lines are logged, too.
    ``cache_vocabulary`` keeps the tokenizer's vocabulary in the user's cache directory, so that
    the next engine with the same one is ready sooner; the last few are kept. ``tool_format`` is the
    way in which the model writes tool calls, or names it, where its tokenizer does not tell (see
    ``docs/tools.md``). ``cache`` says what is kept of prompts that were read, and how.
    ``max_compile_seconds`` limits the processor time in which a request's response format and tools
    are compiled: set it where strangers choose these. Without it only the limits in steps apply,
    which give the same answer on every machine.

    Requests are run on a thread of the engine's own, in the order they come, up to ``batch_size``
    together: they share the model's passes, and nothing else.
    Whatever is wrong with a request is raised by the call that makes it, before the model runs.
    A request that is interrupted, cancelled or no longer listened to stops at the next token,
    and the engine is ready for the next one.

    An engine belongs to the process that created it. In a forked child its methods raise
    ``EngineForkedError``, and so does a new engine, since MLX does not work there; use the
    ``spawn`` method of ``multiprocessing``.

    Raises ``ModelError`` where there is no such model, ``VocabularyError`` where its tokenizer
    cannot be understood.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Module | None = None,
        tokenizer: Any = None,
        *,
        options: GenerationOptions | None = None,
        on_progress: OnProgress | None = to_stderr,
        cache_vocabulary: bool = True,
        tool_format: str | ToolFormat | None = None,
        cache: CacheOptions | None = None,
        batch_size: int = 8,
        max_compile_seconds: float | None = None,
    ) -> None:
        worker = Worker()
        # Runs when the engine is collected and at interpreter exit, whichever is first.
        self._finalizer = weakref.finalize(self, worker.close)
        try:
            self._core = EngineCore.build(
                worker,
                model,
                tokenizer,
                options=options,
                on_progress=on_progress,
                cache_vocabulary=cache_vocabulary,
                tool_format=tool_format,
                cache=cache,
                batch_size=batch_size,
                max_compile_seconds=max_compile_seconds,
            )
        except BaseException:
            self._finalizer()
            raise

    @property
    def model_name(self) -> str:
        """The model's path, hub id, or the embedded model's name."""
        return self._core.loaded.name

    @property
    def model_type(self) -> str:
        """The model's architecture, as its configuration names it."""
        return self._core.loaded.model_type

    @property
    def tokenizer(self) -> TokenizerWrapper:
        """The model's tokenizer."""
        return self._core.loaded.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary, as wide as the model's logits."""
        return self._core.vocabulary

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and answer together, or ``None`` where the model sets no limit."""
        return self._core.loaded.context_length

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

        ``prompt`` is a string, OpenAI-style messages, interactions, or a ``RawPrompt`` that no
        chat template sees. ``response_format`` is a pydantic model, another type, a JSON Schema,
        OpenAI's dict, a state machine, a composition of sub-states, or ``None`` for free text (see
        ``answers.response_format``). ``tools`` are OpenAI-style dicts, pydantic models, functions,
        or ``Tool``s; ``tool_choice`` says whether they may, must or must not be called (see
        ``proxy_engine.tools``). With tools and a response format the model answers in the format
        or calls tools. ``options`` are the fields of ``OptionOverrides``.

        Raises, before the model runs: ``PromptError``, ``InvalidOptionError``,
        ``InvalidResponseFormatError``, ``InvalidToolError``, ``SchemaError``,
        ``CompositionError``, ``CompileLimitError``, ``EngineClosedError``; and
        ``MaxTokensTooSmallError`` where even the shortest output is longer than ``max_tokens``;
        ``GrammarBudgetError`` where no way to a complete output is found in time. What is returned
        is always complete. After: ``OutputValidationError`` where a type's own validators refuse
        it.
        """
        begun = self._begin(prompt, response_format, tools, tool_choice, options)
        with cancelling(begun.cancelled):
            return begun.future.result()

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
        request = self._request(prompt, response_format, tools, tool_choice, options)
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
        request = await self._core.prepare(prompt, response_format, tools, tool_choice, options)
        with cancelling(request.cancelled):
            return await asyncio.wrap_future(self._core.scheduler.submit(request, ignore))

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
        request = await self._core.prepare(prompt, response_format, tools, tool_choice, options)
        return AsyncEventStream(self._submitter(request), request.cancelled)

    def save_prompt_cache(
        self,
        path: str | os.PathLike[str],
        prompt: Prompt,
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        **options: Unpack[OptionOverrides],
    ) -> int:
        """Read a prompt, and save what the model makes of it, for :meth:`load_prompt_cache`.

        With ``mlx_lm``'s ``save_prompt_cache``, in a file whose name ends in ``.safetensors``.
        The arguments are those of the requests that are to begin with it. Returns how many of the
        prompt's tokens are in the file. Raises what :meth:`generate` does, and
        ``PromptCacheFileError`` where the model's cache cannot be saved; ``InvalidOptionError``
        for another name; :class:`OSError`.
        """
        request = self._request(prompt, response_format, tools, tool_choice, options)
        return self._core.save_prompt_cache(path, request)

    def load_prompt_cache(self, path: str | os.PathLike[str]) -> int:
        """Load a saved prompt: requests that begin like it need not read it. Returns its tokens.

        Raises ``PromptCacheFileError`` for a file that is none or is damaged, and its kind
        ``PromptCacheMismatchError`` for one of another model, adapter, quantization or of other
        options; :class:`OSError`.
        """
        return self._core.load_prompt_cache(path)

    @property
    def batch_size(self) -> int:
        """How many requests are run together at most."""
        return self._core.scheduler.batch_size

    @property
    def queued_requests(self) -> int:
        """How many requests wait to be begun."""
        return self._core.scheduler.waiting

    @property
    def running_requests(self) -> int:
        """How many requests are begun and not finished, ``batch_size`` at most."""
        return self._core.scheduler.running

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
        every new turn. See ``tools.tool_loop.run_tools``; raises what :meth:`generate` does.
        """
        known_tools = resolve_tools(tools)

        return run_tools(
            lambda turns, choice: self.generate(
                turns,
                response_format=response_format,
                tools=known_tools,
                tool_choice=choice,
                **options,
            ),
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

        return await arun_tools(
            lambda turns, choice: self(
                turns,
                response_format=response_format,
                tools=known_tools,
                tool_choice=choice,
                **options,
            ),
            prompt,
            known_tools,
            tool_choice=tool_choice,
            max_rounds=max_rounds,
            on_turn=on_turn,
        )

    def warm_up(self) -> None:
        """Check now how requests can share passes of the model.

        The check takes about a second. Without this call the first requests that run together wait
        for it. Servers call it once.
        """
        self._core.worker.submit(self._core.scheduler.probe_batches).result()

    def close(self) -> None:
        """Stop the running requests, refuse all others, and free the thread. Idempotent.

        Has no effect in a forked process.
        """
        self._finalizer()

    def _request(
        self,
        prompt: Prompt,
        response_format: Any,
        tools: Iterable[Any] | None,
        tool_choice: Any,
        options: OptionOverrides,
    ) -> Request:
        """Check a request. In a forked process, where locks may be held for ever, raise first."""
        self._core.worker.guard.check()
        return self._core.preparation.request(prompt, response_format, tools, tool_choice, options)

    def _begin(
        self,
        prompt: Prompt,
        response_format: Any,
        tools: Iterable[Any] | None,
        tool_choice: Any,
        options: OptionOverrides,
        *,
        counts_waiting: bool = True,
    ) -> Begun:
        """Check and queue a request."""
        request = self._request(prompt, response_format, tools, tool_choice, options)
        request.counts_waiting = counts_waiting
        return Begun(self._core.scheduler.submit(request, ignore), request.cancelled)

    def _submitter(self, request: Request) -> Submit:
        request.watches = True
        # Not the engine: a stream that is not begun must not keep it from being collected.
        return partial(self._core.scheduler.submit, request)
