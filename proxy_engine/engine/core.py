"""Builds and owns the engine's components, and states their properties."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mlx.nn.layers.base import Module

from state_machines import Vocabulary

from ..answers.compile_queue import CompileQueue
from ..checks import short_repr
from ..conversation.prompts import Prompt
from ..conversation.tool_format_detection import DetectedFormat
from ..errors import InvalidOptionError
from ..media import MediaOptions
from ..models.load_options import LoadArguments, LoadOptions
from ..models.loading import LoadedModel, load_model, share_model
from ..models.tokenizer import vocabulary_of, with_chat_template
from ..options.generation import GenerationOptions
from ..prompt_cache.prompt_caches import PromptCaches
from ..requests.continuous_batch import ContinuousBatch
from ..requests.preparation import Preparation
from ..requests.prompt_encoding import PromptEncoder
from ..requests.request import Request
from ..requests.retries import Attempts
from ..requests.scheduler import Scheduler
from ..requests.sequence_factory import SequenceFactory
from ..runtime.device_memory import leave_unwired, model_bytes, wired_memory
from ..runtime.process_runtime import OnProgress
from ..runtime.worker import Worker
from .arguments import (
    EngineOptions,
    ModelSource,
    RequestArguments,
    check_model,
    parse_load_options,
)

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

    from ..generation import ModelDrafter
    from ..models.draft_heads import LoadedHead

T = TypeVar("T")

_log = logging.getLogger(__name__)

_MAX_THREADS = 128
"""Maximum number of threads that prepare requests of event loops and compute slow masks.

They are created on demand; one of them works at a time, see ``CompileQueue``.
"""


class EngineCore:
    """The components of an engine, from the model to the queue of requests.

    Args:
        worker: Owns the model thread.
        model: The model, or where it is.
        tokenizer: The tokenizer of a model in memory.
        options: The other arguments of ``InferenceEngine``.
        load: How the model is loaded.

    Raises:
        ProxyError: See :class:`InferenceEngine`.
    """

    def __init__(
        self,
        worker: Worker,
        model: ModelSource | None,
        tokenizer: Any,
        options: EngineOptions,
        load: LoadArguments,
    ) -> None:
        load_options = parse_load_options(load)
        check_model(model, tokenizer, options, load_options)
        drafting = None if options.draft_model is None else _drafting()
        if drafting is not None:
            drafting.check_source(options.draft_model, model)
        if not load_options.wired_memory:
            leave_unwired()
        self.worker = worker
        self.is_distributed = load_options.distributed
        self.media = options.media or MediaOptions()
        started = time.perf_counter()
        self.loaded = loaded = _loaded(worker, model, tokenizer, options.on_progress, load_options)
        seconds = time.perf_counter() - started
        _log.info("loaded %r (%s) in %.1f s", loaded.name, loaded.model_type, seconds)
        self.vocabulary = vocabulary_of(loaded, cached=options.cache_vocabulary)
        self.draft_model: LoadedModel | LoadedHead | None = None
        if drafting is not None:
            self.draft_model = drafting.load_draft(
                worker, loaded, self.vocabulary, options, is_distributed=load_options.distributed
            )
        self.caches = worker.submit(lambda: PromptCaches(loaded.model, options.cache)).result()
        worker.at_close(self.caches.close)
        # Tokenizers are not safe to call from several threads at once.
        lock = threading.Lock()
        self.drafter: ModelDrafter | None = None
        draft_cost = 0.0
        if drafting is not None and self.draft_model is not None:
            make = partial(drafting.make_drafter, self.draft_model, loaded, options.cache)
            self.drafter = worker.submit(make).result()
            draft_cost = self.drafter.token_bytes / model_bytes(loaded.model)
        factory = SequenceFactory(
            loaded,
            self.vocabulary,
            lock,
            draft_model=self.drafter,
            draft_cost=draft_cost,
            num_draft_tokens=options.num_draft_tokens,
        )
        compile_queue = CompileQueue()
        self.preparation = Preparation(
            PromptEncoder(loaded, self.vocabulary, lock, self.caches, self.media),
            options.options or GenerationOptions(),
            options.tool_format,
            compile_queue,
            options.max_compile_seconds,
        )
        self.threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="proxy-engine-compile")
        self.batch = ContinuousBatch(
            factory,
            self.caches,
            compile_queue,
            self.threads,
            batch_size=options.batch_size,
            draft_model=self.drafter,
        )
        models = [model.model for model in (loaded, self.draft_model) if model is not None]
        self.scheduler = Scheduler(
            worker, self.batch, model_name=loaded.name, model_bytes=sum(map(model_bytes, models))
        )
        if not load_options.lazy:
            # Both read the weights, which the first request does otherwise.
            worker.submit(self.batch.split_output_layer).result()
            worker.submit(self.caches.open_disk).result()

    @property
    def input_modalities(self) -> frozenset[Literal["text", "image", "audio"]]:
        """The kinds of content that the model reads in prompts."""
        loaded = self.loaded
        if loaded.speech is not None:
            return frozenset({"audio"})
        return frozenset(
            {"text"} if loaded.processor is None else {"text", *loaded.processor.reads}
        )

    async def aprepare(
        self,
        prompt: Prompt,
        response_format: Any,
        arguments: RequestArguments,
        cancelled: threading.Event | None = None,
    ) -> Request:
        """Prepare a request on another thread; cancelling the task stops that.

        The event loop's own threads are too few: a compilation waits for its turns.
        """
        cancelled, started = cancelled or threading.Event(), time.perf_counter()
        prepare = partial(self.preparation.request, prompt, response_format, arguments, cancelled)
        try:
            request = await asyncio.get_running_loop().run_in_executor(self.threads, prepare)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        # The wait for a thread is a part of it.
        request.preparation_seconds = time.perf_counter() - started
        return request

    def attempts(self, request: Request, *, watches: bool = False) -> Attempts:
        """Return the attempts at a request. The first one is not queued yet.

        Args:
            request: The request.
            watches: Whether its events are read.
        """
        request.watches = watches
        # Does not refer to the engine: a stream that has not begun must not keep it alive.
        return Attempts(request, self.scheduler.submit)

    def run_in_turn(self, call: Callable[[], T]) -> T:
        """Run a call on the model thread, in turns with the requests there.

        Raises:
            EngineError: Called on the model thread, which cannot wait for itself.
        """
        self.worker.check_caller()

        def wired() -> T:
            with wired_memory(model_bytes(self.loaded.model)):
                return call()

        return self.worker.submit(wired).result()


class EngineProperties:
    """Properties of an engine's model and requests."""

    _core: EngineCore

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
        return self._core.input_modalities

    @property
    def draft_model_name(self) -> str | None:
        """The draft model's path, its Hugging Face repo id, or ``None`` without a draft model."""
        draft_model = self._core.draft_model
        return None if draft_model is None else draft_model.name

    @property
    def tokenizer(self) -> TokenizerWrapper:
        """The model's tokenizer, as mlx-lm loads it."""
        tokenizer: Any = self._core.loaded.tokenizer
        # A cached tokenizer loads it with transformers.
        wrapper: TokenizerWrapper = getattr(tokenizer, "wrapper", tokenizer)
        return wrapper

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
    def tool_format(self) -> DetectedFormat:
        """The format of the model's tool calls and reasoning, and how it is known."""
        return self._core.preparation.detected

    @property
    def options(self) -> GenerationOptions:
        """Options of requests that do not override them."""
        return self._core.preparation.options

    @property
    def media(self) -> MediaOptions:
        """Limits on the images and recordings of prompts."""
        return self._core.media

    @property
    def batch_size(self) -> int:
        """Maximum number of requests that run together."""
        return self._core.batch.batch_size

    @property
    def queued_requests(self) -> int:
        """Number of requests in the queue."""
        return self._core.scheduler.waiting

    @property
    def running_requests(self) -> int:
        """Number of requests that have begun and not finished."""
        return len(self._core.batch)


def _drafting() -> ModuleType:
    """Import the parts that only engines with a draft model need."""
    from . import drafting  # noqa: PLC0415

    return drafting


def _loaded(
    worker: Worker,
    model: ModelSource | None,
    tokenizer: Any,
    on_progress: OnProgress | None,
    options: LoadOptions,
) -> LoadedModel:
    if not isinstance(model, Module):
        if options.distributed:
            # Deferred: an engine on one computer has no ranks.
            from ..distributed.leader import lead_or_follow, load_on_all_ranks  # noqa: PLC0415

            leader = lead_or_follow(worker)
            return worker.submit(lambda: load_on_all_ranks(leader, model, options)).result()
        return worker.submit(lambda: load_model(model, on_progress, options)).result()
    # Deferred: it imports transformers, which made the tokenizer of a model in memory.
    from mlx_lm.tokenizer_utils import TokenizerWrapper  # noqa: PLC0415

    is_wrapped = isinstance(tokenizer, TokenizerWrapper)
    try:
        wrapper = tokenizer if is_wrapped else TokenizerWrapper(tokenizer)
    except AttributeError as error:
        raise InvalidOptionError(
            f"tokenizer should be a tokenizer, not {short_repr(tokenizer)}",
            option="tokenizer",
            hint="mlx_lm.load returns the model and its tokenizer.",
        ) from error
    if options.chat_template is not None:
        wrapper = with_chat_template(wrapper, options.chat_template)
    share_model(model, worker.at_close)
    name = type(model).__module__
    return worker.submit(lambda: LoadedModel.of(model, wrapper, name=name)).result()
