"""The inference engine: the public entry point of the package."""

from __future__ import annotations

import os
import weakref
from dataclasses import replace
from typing import Any, Self, Unpack

from ..runtime.extras import requires_backend

with requires_backend():
    from mlx.nn.layers.base import Module

from state_machines.tool_calls import ToolFormat

from ..conversation.messages import Prompt
from ..errors import InvalidOptionError
from ..media import MediaOptions
from ..models.load_options import LoadArguments
from ..options.generation import GenerationOptions
from ..prompt_cache import CacheOptions
from ..results.events import Event, PromptProgress
from ..runtime.process_runtime import OnProgress, to_stderr
from ..runtime.worker import Worker, on_own_thread
from .applications import Applications
from .arguments import EngineOptions, RequestArguments, with_option_signatures
from .batch_engine import BatchEngine
from .core import EngineCore, EngineProperties
from .generation_engine import GenerationEngine


@with_option_signatures
class InferenceEngine(GenerationEngine, BatchEngine, Applications, EngineProperties):
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
        draft_model: A smaller model with the same tokenizer, or a draft head, which drafts tokens
            for speculative decoding (Leviathan et al. 2023): a directory, a Hugging Face repo id,
            or a model in memory. ``"own"``: the heads in the model's own checkpoint.
        num_draft_tokens: Number of tokens that the draft model drafts for each forward pass, from 1
            to 64. ``None``: chosen by the share of drafted tokens that are accepted.
        media: Limits on the images and recordings of prompts.
        **load: How the model is loaded: ``adapter_path``, ``revision``, ``trust_remote_code``,
            ``tokenizer_config``, ``model_config`` and ``lazy`` as in ``mlx_lm.load``, and
            ``chat_template`` and ``wired_memory``, which also apply to a model in memory.
            ``LoadOptions`` describes them. They do not apply to the draft model.

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
        arguments = EngineOptions(
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
        )
        super().__init__()
        worker = Worker()
        # Runs when the engine is collected, or at interpreter exit.
        self._finalizer = weakref.finalize(self, worker.close)
        try:
            self._core = EngineCore(worker, model, tokenizer, arguments, load)
        except BaseException:
            self._finalizer()
            raise

    def save_prompt_cache(
        self,
        path: str | os.PathLike[str],
        prompt: Prompt,
        response_format: Any = None,
        **arguments: Unpack[RequestArguments],
    ) -> int:
        """Process a prompt, and save its model cache for :meth:`load_prompt_cache`.

        The file has the format of ``mlx_lm``'s ``save_prompt_cache``.

        Args:
            path: A file name that ends in ``.safetensors``.
            prompt: The prompt; later requests that begin with it reuse its cache.
            response_format: As in these requests.
            arguments: As in these requests.

        Returns:
            The number of the prompt's tokens.

        Raises:
            PromptCacheFileError: The model's cache cannot be saved.
            InvalidOptionError: The file name or an argument is invalid; see :meth:`generate`. Or
                the model is distributed.
            OSError: The file cannot be written.
        """
        core = self._core
        request = core.preparation.request(prompt, response_format, arguments)
        self._check_has_whole_caches()
        # An answer that is forced entirely would need no forward pass over the prompt.
        changed = request.options.override({"fast_forward": False, "n": 1})
        request = replace(request, options=changed)

        def emit(event: Event) -> None:
            if isinstance(event, PromptProgress) and event.processed == event.total:
                request.cancelled.set()

        core.scheduler.submit(request, emit).result()
        return core.worker.submit(lambda: core.caches.save(path, request.cache_key())).result()

    def load_prompt_cache(self, path: str | os.PathLike[str]) -> int:
        """Load a saved prompt cache. Requests that begin with its prompt reuse it.

        Returns:
            The number of the prompt's tokens.

        Raises:
            PromptCacheFileError: The file is damaged or no prompt cache.
            PromptCacheMismatchError: It belongs to another model, adapter, quantization, or to
                other cache options.
            InvalidOptionError: The model is distributed.
            OSError: The file cannot be read.
        """
        self._check_has_whole_caches()
        return self._core.worker.submit(lambda: self._core.caches.load(path)).result()

    def _check_has_whole_caches(self) -> None:
        if self._core.is_distributed:
            raise InvalidOptionError(
                "prompt caches of a distributed model cannot be saved or loaded: each rank has a "
                "shard of them",
                option="distributed",
            )

    def clear_prompt_cache(self) -> None:
        """Remove the cached texts of earlier requests, and free their memory.

        Running requests keep theirs.
        """
        self._core.worker.submit(self._core.caches.clear).result()
        if self._core.drafter is not None:
            self._core.worker.submit(self._core.drafter.clear_prompt_cache).result()

    def warm_up(self) -> None:
        """Find out now how requests can share forward passes, which takes about a second.

        Without this call, the first requests that run together wait for it.
        """
        self._core.worker.submit(self._core.batch.probe).result()

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Stop the running requests, refuse new requests, and end the thread. Idempotent.

        Has no effect in a forked process.
        """
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await on_own_thread(self.close)
