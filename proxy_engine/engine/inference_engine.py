"""The inference engine: the public entry point of the package."""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from ..runtime.backends import requires_backend

with requires_backend():
    from mlx.nn.layers.base import Module

from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary
from state_machines.tool_calls import ToolFormat

from ..conversation.messages import Prompt
from ..media.options import MediaOptions
from ..models.load_options import LoadArguments
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..prompt_cache.options import CacheOptions
from ..requests.batches import Begun
from ..requests.request import Request
from ..requests.streams import AsyncEventStream, Closing, EventStream, Submit, cancelling, ignore
from ..requests.worker import Worker, on_own_thread
from ..results.generation import GenerationResult
from ..runtime.progress import OnProgress, to_stderr
from .batch_engine import BatchEngine
from .core import EngineCore
from .engine_arguments import with_option_signatures
from .extraction_engine import ExtractionEngine
from .prompt_cache_engine import PromptCacheEngine
from .request_arguments import RequestArguments
from .tool_engine import ToolEngine
from .transcription_engine import TranscriptionEngine

if TYPE_CHECKING:
    from pydantic import TypeAdapter as Adapter
    from typing_extensions import TypeForm

T = TypeVar("T")


@with_option_signatures
class InferenceEngine(
    Closing, BatchEngine, ExtractionEngine, PromptCacheEngine, ToolEngine, TranscriptionEngine
):
    """Runs a language model for any number of threads and tasks.

    Requests run on a thread of the engine. Up to ``batch_size`` of them share each forward pass;
    others wait in a queue, first in, first out. An invalid request raises in the call that makes
    it, before the model runs. A request that is interrupted, cancelled or whose stream is closed
    stops at its next token.

    Use it as a context manager (``with`` or ``async with``), or call :meth:`close`.

    An engine belongs to the process that created it. In a forked child, its methods and the
    constructor raise ``EngineForkedError``, since MLX does not work there. Use the ``spawn`` method
    of ``multiprocessing``.

    Args:
        model: A directory, a Hugging Face repo id, or a model in memory as ``mlx_lm.load`` returns
            it. Default: the embedded model.
        tokenizer: The tokenizer of a model in memory.
        options: Options of requests that do not override them.
        on_progress: Called with a line of text at each step of a download or conversion. The lines
            are logged, too.
        cache_vocabulary: Store the tokenizer's vocabulary in the user's cache directory, so that
            later engines with the same tokenizer start faster.
        tool_format: The model's tool format or its name. Default: detected from the tokenizer.
        cache: Options of prompt caching.
        batch_size: Maximum number of requests that run together.
        max_compile_seconds: Limit on the processor time of compiling a request's response format
            and tools. Set it where untrusted users choose these. Without it, only limits in steps
            apply, which give the same outcome on every machine.
        draft_model: A smaller model with the same tokenizer, which drafts tokens for speculative
            decoding (Leviathan et al. 2023): a directory, a Hugging Face repo id, or a model in
            memory.
        num_draft_tokens: Number of tokens that the draft model drafts for each forward pass, from 1
            to 64. ``None``: chosen by the share of drafted tokens that are accepted.
        media: Limits on the images and recordings of prompts.
        **load: How the model is loaded: ``adapter_path``, ``revision``, ``trust_remote_code``,
            ``tokenizer_config``, ``model_config`` and ``lazy`` as in ``mlx_lm.load``, and
            ``chat_template``, which also applies to a model in memory. ``LoadOptions`` describes
            them. They do not apply to the draft model.

    Raises:
        InvalidOptionError: An argument is invalid, or does not apply to the model.
        ModelError: There is no such model, or it cannot be loaded.
        AdapterError: The adapter cannot be read, or belongs to another model. Also a
            ``ModelError``.
        DraftModelError: The draft model has another vocabulary. Also a ``ModelError``.
        VocabularyError: The tokenizer cannot be read.
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
        draft_model: str | os.PathLike[str] | Module | None = None,
        num_draft_tokens: int | None = None,
        media: MediaOptions | None = None,
        **load: Unpack[LoadArguments],
    ) -> None:
        worker = Worker()
        # Runs when the engine is collected, or at interpreter exit.
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
                draft_model=draft_model,
                num_draft_tokens=num_draft_tokens,
                media=media,
                load=load,
            )
        except BaseException:
            self._finalizer()
            raise

    @property
    def model_name(self) -> str:
        """The model's path, its Hugging Face repo id, or the name of the embedded model."""
        return self._core.loaded.name

    @property
    def model_type(self) -> str:
        """The model's architecture, from its configuration."""
        return self._core.loaded.model_type

    @property
    def input_modalities(self) -> frozenset[Literal["text", "image", "audio"]]:
        """The kinds of content that the model reads in prompts."""
        loaded = self._core.loaded
        if loaded.speech is not None:
            return frozenset({"audio"})
        return frozenset(
            {"text"} if loaded.processor is None else {"text", *loaded.processor.reads}
        )

    @property
    def draft_model_name(self) -> str | None:
        """The draft model's path, its Hugging Face repo id, or ``None`` without a draft model."""
        draft_model = self._core.draft_model
        return None if draft_model is None else draft_model.name

    @property
    def tokenizer(self) -> TokenizerWrapper:
        """The model's tokenizer."""
        return self._core.loaded.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokenizer's vocabulary, padded to the width of the model's logits."""
        return self._core.vocabulary

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens of prompt and answer together; ``None``: no limit."""
        return self._core.loaded.context_length

    @property
    def num_layers(self) -> int | None:
        """The model's number of layers; ``None`` if unknown."""
        return self._core.loaded.num_layers

    @property
    def hidden_size(self) -> int | None:
        """The width of the model's hidden states; ``None`` if unknown."""
        return self._core.loaded.hidden_size

    @property
    def batch_size(self) -> int:
        """Maximum number of requests that run together."""
        return self._core.scheduler.batch_size

    @property
    def queued_requests(self) -> int:
        """Number of requests in the queue."""
        return self._core.scheduler.waiting

    @property
    def running_requests(self) -> int:
        """Number of requests that have begun and not finished."""
        return self._core.scheduler.running

    @overload
    def generate(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: Adapter[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[T | None]: ...
    @overload
    def generate(
        self, prompt: Prompt, response_format: Adapter[T], **arguments: Unpack[RequestArguments]
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
            OutputValidationError: A validator of the response format's type rejects the answer.
            EngineClosedError: The engine is closed.
        """
        begun = self._begin(prompt, response_format, arguments)
        with cancelling(begun.cancelled):
            return begun.result()

    @overload
    def stream(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> EventStream[T]: ...
    @overload
    def stream(
        self, prompt: Prompt, response_format: Adapter[T], **options: Unpack[OptionOverrides]
    ) -> EventStream[T]: ...
    @overload
    def stream(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> EventStream[T | None]: ...
    @overload
    def stream(
        self, prompt: Prompt, response_format: Adapter[T], **arguments: Unpack[RequestArguments]
    ) -> EventStream[T | None]: ...
    @overload
    def stream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> EventStream[Any]: ...
    def stream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> EventStream[Any]:
        """Answer ``prompt`` as a stream of events; the last one is ``Finished``.

        The request is checked by this call, and queued when the first event is requested. The
        model does not wait for the reader. Closing or dropping the stream cancels the request.
        Arguments and exceptions are those of :meth:`generate`.
        """
        request = self._core.prepare(prompt, response_format, arguments)
        return EventStream(self._submitter(request), request.cancelled)

    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: Adapter[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> GenerationResult[T | None]: ...
    @overload
    async def agenerate(
        self, prompt: Prompt, response_format: Adapter[T], **arguments: Unpack[RequestArguments]
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
        with cancelling(request.cancelled):
            finish = await asyncio.wrap_future(self._core.scheduler.submit(request, ignore))
            # Not on the loop: the caller's validators may take any time.
            return await asyncio.get_running_loop().run_in_executor(self._core.threads, finish)

    @overload
    async def astream(
        self, prompt: Prompt, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> AsyncEventStream[T]: ...
    @overload
    async def astream(
        self, prompt: Prompt, response_format: Adapter[T], **options: Unpack[OptionOverrides]
    ) -> AsyncEventStream[T]: ...
    @overload
    async def astream(
        self, prompt: Prompt, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[T | None]: ...
    @overload
    async def astream(
        self, prompt: Prompt, response_format: Adapter[T], **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[T | None]: ...
    @overload
    async def astream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[Any]: ...
    async def astream(
        self, prompt: Prompt, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> AsyncEventStream[Any]:
        """:meth:`stream` for event loops: ``async for event in await engine.astream(…)``."""
        request = await self._core.aprepare(prompt, response_format, arguments)
        return AsyncEventStream(self._submitter(request), request.cancelled, self._core.threads)

    def warm_up(self) -> None:
        """Find out now how requests can share forward passes, which takes about a second.

        Without this call, the first requests that run together wait for it.
        """
        self._core.worker.submit(self._core.scheduler.probe_batches).result()

    def close(self) -> None:
        """Stop the running requests, refuse new ones, and end the thread. Idempotent.

        Has no effect in a forked process.
        """
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await on_own_thread(self.close)

    def _begin(
        self,
        prompt: Prompt,
        response_format: Any,
        arguments: RequestArguments,
        *,
        counts_waiting: bool = True,
    ) -> Begun:
        request = self._core.prepare(prompt, response_format, arguments)
        request.counts_waiting = counts_waiting
        future = self._core.scheduler.submit(request, ignore)
        return Begun(future, request.cancelled, request.prompt.media_bytes)

    def _submitter(self, request: Request) -> Submit:
        request.watches = True
        # Does not refer to the engine: a stream that has not begun must not keep it alive.
        return partial(self._core.scheduler.submit, request)
