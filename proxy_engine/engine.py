"""The engine: a model, a queue of requests, and answers that match their format."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary

from .errors import InvalidOptionError, PromptTooLongError
from .models.loading import LoadedModel, load_model
from .models.vocabularies import vocabulary_of
from .options import GenerationOptions, OptionOverrides
from .progress import Report, to_stderr
from .prompts import Prompt, encode_prompt
from .request import Emit, Request, run_request
from .response_format import ResponseFormatCompiler
from .results import Finished, GenerationResult, PromptProgress, StreamEvent, TextDelta
from .worker import Worker

__all__ = ["InferenceEngine"]

T = TypeVar("T")


class InferenceEngine:
    """Runs one language model, for any number of threads and tasks.

    ``model`` is a directory, a hub id, or ``None`` for the embedded model; or a model in memory,
    with its ``tokenizer``, as ``mlx_lm.load`` returns them. ``options`` are what requests use
    unless they say otherwise. ``report`` is told of downloads and conversions, one line each.
    ``cache_vocabulary`` keeps the tokenizer's vocabulary in the user's cache directory, so that
    the next engine with the same one is ready sooner; the last few are kept.

    Requests are run one at a time in the order they come, on a thread of the engine's own.
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
    ) -> None:
        if isinstance(model, Module) != (tokenizer is not None):
            raise InvalidOptionError(
                "a model in memory comes with its tokenizer, a named one without",
                option="tokenizer",
            )
        self._options = options or GenerationOptions()
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
        except BaseException:
            self._finalizer()
            raise
        self._formats = ResponseFormatCompiler()
        # Tokenizers are not safe to call from several threads at once.
        self._tokenizer_lock = threading.Lock()

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
        self, prompt: Prompt, *, response_format: type[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    def generate(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[Any]: ...
    def generate(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[Any]:
        """Answer ``prompt``, and return when the answer is whole.

        ``prompt`` is a string, OpenAI-style messages, or interactions. ``response_format`` is a
        pydantic model, another type, a JSON Schema, OpenAI's dict, a state machine, or ``None``
        for free text (see ``proxy_engine.response_format``). ``options`` are the fields of
        ``OptionOverrides``.

        Raises, before the model runs: ``PromptError``, ``InvalidOptionError``,
        ``InvalidResponseFormatError``, ``SchemaError``, ``EngineClosedError``. After:
        ``IncompleteOutputError`` where structured output was not whole within ``max_tokens``,
        ``OutputValidationError`` where a type's own validators refuse it.
        """
        request = self._prepare(prompt, response_format, options)
        future = self._submit(request, _ignore)
        with _cancelling(request):
            return future.result()

    @overload
    def stream(
        self, prompt: Prompt, *, response_format: type[T], **options: Unpack[OptionOverrides]
    ) -> Iterator[StreamEvent[T]]: ...
    @overload
    def stream(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> Iterator[StreamEvent[Any]]: ...
    def stream(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> Iterator[StreamEvent[Any]]:
        """``generate``, event by event; the last one is ``Finished``.

        The request is checked by this call, and queued when the first event is asked for. The
        model does not wait for the reader. A closed or forgotten iterator cancels the request.
        """
        return self._events(self._prepare(prompt, response_format, options))

    @overload
    async def __call__(
        self, prompt: Prompt, *, response_format: type[T], **options: Unpack[OptionOverrides]
    ) -> GenerationResult[T]: ...
    @overload
    async def __call__(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[Any]: ...
    async def __call__(
        self, prompt: Prompt, *, response_format: Any = None, **options: Unpack[OptionOverrides]
    ) -> GenerationResult[Any]:
        """``generate``, without blocking the event loop. A cancelled task cancels the request."""
        # Compiling a large schema takes a while, too.
        request = await asyncio.to_thread(self._prepare, prompt, response_format, options)
        with _cancelling(request):
            return await asyncio.wrap_future(self._submit(request, _ignore))

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

    def _prepare(self, prompt: Prompt, given: Any, overrides: OptionOverrides) -> Request:
        """Check and compile everything that can be wrong with a request."""
        options = self._options.override(overrides)
        response_format = self._formats.compile(given)
        with self._tokenizer_lock:
            # Where the grammar begins with the answer there is no room to think before it.
            prompt_ids = encode_prompt(
                prompt, self._loaded.tokenizer, thinking=response_format.machine is None
            )
        for token_id in dict(options.sampling.logit_bias):
            if token_id >= self._vocabulary.size:
                raise InvalidOptionError(
                    f"logit_bias names token {token_id}; the model has {self._vocabulary.size}",
                    option="logit_bias",
                )
        room = options.max_tokens
        if self.context_length is not None:
            room = min(room, self.context_length - len(prompt_ids))
            if room < 1:
                raise PromptTooLongError(
                    f"the prompt has {len(prompt_ids)} tokens, and the model's context "
                    f"{self.context_length}",
                    prompt_tokens=len(prompt_ids),
                    context_length=self.context_length,
                )
        return Request(prompt_ids, response_format, options, room)

    def _submit(self, request: Request, emit: Emit) -> Future[GenerationResult[Any]]:
        # Only what the run needs: a queued request must not keep the engine from being collected.
        loaded, vocabulary, worker = self._loaded, self._vocabulary, self._worker
        return worker.submit(
            lambda: run_request(
                request, loaded, vocabulary, emit=emit, is_closing=lambda: worker.is_closing
            )
        )

    def _events(self, request: Request) -> Iterator[StreamEvent[Any]]:
        events: SimpleQueue[PromptProgress | TextDelta | None] = SimpleQueue()
        future = self._submit(request, events.put)
        future.add_done_callback(lambda _: events.put(None))
        with _cancelling(request):
            while (event := events.get()) is not None:
                yield event
            yield Finished(future.result())


@contextlib.contextmanager
def _cancelling(request: Request) -> Iterator[None]:
    """However the caller stops waiting, nobody listens to the request any more."""
    try:
        yield
    finally:
        request.cancelled.set()


def _ignore(event: PromptProgress | TextDelta) -> None:
    """Nobody wants to hear of this request before it is finished."""
