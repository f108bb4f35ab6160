"""Builds and owns the engine's components."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper

from state_machines import Vocabulary
from state_machines.tool_calls import ToolFormat

from ..answers.compile_queue import CompileQueue
from ..checks.texts import short_repr
from ..conversation.encoded_prompt import EncodedPrompt
from ..conversation.prompts import Prompt
from ..distributed.loading import lead_or_follow, load_on_all_ranks
from ..errors import InvalidOptionError, ModelFormatError, PromptError
from ..generation import DraftModel, SamplingHooks, model_bytes
from ..media.options import MediaOptions
from ..models.chat_templates import with_chat_template
from ..models.draft_models import load_draft_model
from ..models.load_options import LoadArguments, LoadOptions
from ..models.loading import LoadedModel, evaluate_weights, load_model
from ..models.vocabularies import vocabulary_of
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from ..prompt_cache.options import CacheOptions
from ..prompt_cache.prompt_caches import PromptCaches
from ..replication import replica_of
from ..requests.preparation import Preparation
from ..requests.request import Request
from ..requests.scheduler import Scheduler
from ..requests.sequence_factory import SequenceFactory
from ..requests.worker import Worker
from ..results.events import Event, PromptProgress
from ..runtime.progress import OnProgress
from .engine_arguments import check_components, check_draft_model, check_model
from .engine_arguments import load_options as checked_load_options
from .request_arguments import RequestArguments

_ARGUMENTS = (
    "options",
    "on_progress",
    "cache_vocabulary",
    "tool_format",
    "cache",
    "batch_size",
    "max_compile_seconds",
    "draft_model",
    "num_draft_tokens",
    "media",
)
"""The names of the engine's arguments besides those of loading."""

_log = logging.getLogger(__name__)

_MAX_THREADS = 128
"""Maximum number of threads that prepare requests of event loops and compute slow masks.

They are created on demand; one of them works at a time, see ``CompileQueue``.
"""

_DRAFT_CACHE_SHARE = 4
"""The prompt caches of the draft model take at most this fraction of ``max_bytes`` in addition."""


@dataclass(frozen=True, slots=True)
class EngineCore:
    """The components of an engine, from the model to the queue of requests."""

    loaded: LoadedModel
    vocabulary: Vocabulary
    preparation: Preparation
    scheduler: Scheduler
    caches: PromptCaches
    worker: Worker
    threads: ThreadPoolExecutor
    draft_model: LoadedModel | None
    drafter: DraftModel | None
    media: MediaOptions

    @classmethod
    def build(
        cls,
        worker: Worker,
        model: str | os.PathLike[str] | Module | None,
        tokenizer: Any,
        *,
        options: GenerationOptions | None,
        on_progress: OnProgress | None,
        cache_vocabulary: bool,
        tool_format: str | ToolFormat | None,
        cache: CacheOptions | None,
        batch_size: int,
        max_compile_seconds: float | None,
        draft_model: str | os.PathLike[str] | Module | None,
        num_draft_tokens: int | None,
        media: MediaOptions | None,
        load: LoadArguments,
    ) -> EngineCore:
        """Load a model and build the components; the arguments are those of ``InferenceEngine``."""
        check_components(options, cache, media, on_progress, batch_size, max_compile_seconds)
        check_draft_model(draft_model, num_draft_tokens)
        load_options = checked_load_options(load, _ARGUMENTS)
        check_model(model, tokenizer, load_options)
        if load_options.distributed and cache is not None:
            cache.check_distributed()
        started = time.perf_counter()
        loaded = _loaded(worker, model, tokenizer, on_progress, load_options)
        seconds = time.perf_counter() - started
        _log.info("loaded %r (%s) in %.1f s", loaded.name, loaded.model_type, seconds)
        vocabulary = vocabulary_of(loaded, cached=cache_vocabulary)
        draft = _loaded_draft(
            worker, draft_model, loaded, vocabulary, on_progress, cache_vocabulary
        )
        caches = worker.submit(lambda: PromptCaches(loaded.model, cache)).result()
        worker.at_close(caches.close)
        # Tokenizers are not safe to call from several threads at once.
        lock = threading.Lock()
        factory = SequenceFactory.of(loaded, vocabulary, lock)
        drafter = None
        if draft is not None:
            drafter = worker.submit(partial(_draft_model, draft, loaded, cache)).result()
            factory = replace(
                factory,
                draft_cost=model_bytes(draft.model) / model_bytes(loaded.model),
                num_draft_tokens=num_draft_tokens,
            )
        media = media or MediaOptions()
        compile_queue = CompileQueue()
        preparation = Preparation(
            loaded,
            vocabulary,
            options or GenerationOptions(),
            tool_format,
            lock,
            caches,
            compile_queue,
            max_compile_seconds,
            batch_size,
            media,
        )
        threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="proxy-engine-compile")
        scheduler = Scheduler(
            worker,
            factory,
            caches,
            compile_queue,
            threads,
            batch_size=batch_size,
            draft_model=drafter,
        )
        if not load_options.lazy:
            # They read the weights. Otherwise the first request does it.
            worker.submit(scheduler.split_output_layer).result()
            worker.submit(caches.open_disk).result()
        return cls(
            loaded,
            vocabulary,
            preparation,
            scheduler,
            caches,
            worker,
            threads,
            draft,
            drafter,
            media,
        )

    def prepare(
        self,
        prompt: Prompt | EncodedPrompt,
        response_format: Any,
        arguments: RequestArguments,
        cancelled: threading.Event | None = None,
    ) -> Request:
        """Check and compile a request. Setting ``cancelled`` stops that.

        Raises:
            EngineForkedError: The process was forked. Locks may be held for ever there.
            ProxyError: The request is invalid; see :meth:`InferenceEngine.generate`.
        """
        self.worker.guard.check()
        started = time.perf_counter()
        if self.loaded.speech is not None and not isinstance(prompt, EncodedPrompt):
            raise PromptError(
                "the model transcribes speech and answers no prompts",
                hint="Use engine.transcribe(audio).",
            )
        options: dict[str, Any] = dict(arguments)
        tools, tool_choice = options.pop("tools", None), options.pop("tool_choice", None)
        hooks = SamplingHooks.of(
            options.pop("sampler", None),
            options.pop("logits_processors", None),
            options.pop("logprob_vectors", None),
        )
        request = self.preparation.request(
            prompt,
            response_format,
            tools,
            tool_choice,
            cast(OptionOverrides, options),
            cancelled,
            hooks,
        )
        request.preparation_seconds = time.perf_counter() - started
        return request

    async def aprepare(
        self, prompt: Prompt, response_format: Any, arguments: RequestArguments
    ) -> Request:
        """Prepare a request on another thread; cancelling the task stops that.

        The event loop's own threads are too few: a compilation waits for its turns.
        """
        cancelled, started = threading.Event(), time.perf_counter()
        prepare = partial(self.prepare, prompt, response_format, arguments, cancelled)
        try:
            request = await asyncio.get_running_loop().run_in_executor(self.threads, prepare)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        # The wait for a thread is a part of it.
        request.preparation_seconds = time.perf_counter() - started
        return request

    def save_prompt_cache(self, path: str | os.PathLike[str], request: Request) -> int:
        """Process a request's prompt, and save the model's cache of it."""
        self._check_has_whole_caches()
        # An answer that is forced entirely would need no forward pass over the prompt.
        changed = request.options.override({"fast_forward": False, "particles": 1, "n": 1})
        request = replace(request, options=changed)
        self.scheduler.submit(request, _until_read(request)).result()
        return self.worker.submit(lambda: self.caches.save(path, request.cache_key())).result()

    def _check_has_whole_caches(self) -> None:
        if replica_of(self.loaded.model) is not None:
            raise InvalidOptionError(
                "prompt caches of a distributed model cannot be saved or loaded: each rank has a "
                "shard of them",
                option="distributed",
            )

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts of earlier requests."""
        self.worker.submit(self.caches.clear).result()
        if self.drafter is not None:
            self.worker.submit(self.drafter.clear_prompt_cache).result()

    def load_prompt_cache(self, path: str | os.PathLike[str]) -> int:
        """Load a saved prompt cache."""
        self._check_has_whole_caches()
        return self.worker.submit(lambda: self.caches.load(path)).result()


def _loaded(
    worker: Worker,
    model: str | os.PathLike[str] | Module | None,
    tokenizer: Any,
    on_progress: OnProgress | None,
    options: LoadOptions,
) -> LoadedModel:
    if not isinstance(model, Module):
        if options.distributed:
            leader = lead_or_follow(worker)
            return worker.submit(lambda: load_on_all_ranks(leader, model, options)).result()
        return worker.submit(lambda: load_model(model, on_progress, options)).result()
    is_wrapped = isinstance(tokenizer, TokenizerWrapper)
    try:
        wrapper = tokenizer if is_wrapped else TokenizerWrapper(tokenizer)
    except AttributeError as error:
        raise InvalidOptionError(
            f"tokenizer should be a tokenizer, not {short_repr(tokenizer)}: {error}",
            option="tokenizer",
        ) from error
    if options.chat_template is not None:
        wrapper = with_chat_template(wrapper, options.chat_template)
    _share(model, worker)
    name = type(model).__module__
    return worker.submit(lambda: LoadedModel.of(model, wrapper, name=name)).result()


def _share(model: Module, worker: Worker) -> None:
    """Let any thread run a model in memory, now and after the engine is closed or refused.

    Some architectures replace their arrays in each pass. The lazy arrays of a pass that was not
    evaluated belong to the worker's thread, and would fail on all others.
    """
    evaluate = partial(evaluate_weights, model, type(model).__module__)
    evaluate()

    def evaluate_last() -> None:
        with suppress(ModelFormatError):
            evaluate()

    worker.at_close(evaluate_last)


def _loaded_draft(
    worker: Worker,
    draft_model: str | os.PathLike[str] | Module | None,
    target: LoadedModel,
    vocabulary: Vocabulary,
    on_progress: OnProgress | None,
    cache_vocabulary: bool,
) -> LoadedModel | None:
    if draft_model is None:
        return None
    if isinstance(draft_model, Module):
        _share(draft_model, worker)
    load = partial(
        load_draft_model,
        draft_model,
        target,
        vocabulary,
        on_progress,
        cache_vocabulary=cache_vocabulary,
    )
    return worker.submit(load).result()


def _draft_model(
    draft: LoadedModel, target: LoadedModel, options: CacheOptions | None
) -> DraftModel:
    options = options or CacheOptions()
    caches = PromptCaches(
        draft.model,
        CacheOptions(
            max_bytes=options.max_bytes // _DRAFT_CACHE_SHARE,
            max_checkpoints=options.max_checkpoints,
        ),
    )
    return DraftModel(
        draft.model, caches, width=target.logits_width, context_length=draft.context_length
    )


def _until_read(request: Request) -> Callable[[Event], None]:
    def emit(event: Event) -> None:
        if isinstance(event, PromptProgress) and event.processed == event.total:
            request.cancelled.set()

    return emit
