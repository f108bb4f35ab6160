"""Checks whether a model can be loaded, before the current model leaves memory.

Its weights have to fit into memory, and its files have to be those of a model.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import mlx.core as mx
import psutil

from state_machines.errors import ProxyError

from ..engine.drafting import check_draft_loadable
from ..errors import DraftModelError, ModelError
from ..models.draft_heads import check_own_heads, is_own
from ..models.load_options import LoadOptions
from ..models.loading import check_loadable
from ..prompt_cache import CacheOptions
from ..runtime import process_runtime
from ..runtime.worker import Worker
from .errors import ApiError, api_error
from .models import KnownModel

# A model needs memory for its weights, and for prompts and answers.
_MEMORY_PER_WEIGHTS = 1.1
# The operating system frees memory some time after a process has released it.
_RELEASE_SECONDS = 10.0
_POLL_SECONDS = 0.5
# An absolute path, to the end of its line, since a path may contain spaces. URLs are none.
_PATH = re.compile(r"(?<![\w.])(?<!:/)/[^/\s].*")

_logger = logging.getLogger(__name__)


def used_bytes() -> int:
    """Bytes of all MLX arrays."""
    return int(mx.get_active_memory())


def release_unused() -> int:
    """Free memory that is no longer referenced; return the bytes still in use."""
    # A model's layers reference each other in cycles.
    process_runtime.collect()
    mx.clear_cache()
    return used_bytes()


def available_bytes(limit: int | None = None) -> int:
    """Bytes that can be allocated besides the bytes in use.

    That is what MLX leaves of the memory that the device recommends to use and, where the device
    shares the computer's memory, what all programs leave of it.

    Args:
        limit: Bytes for MLX arrays, which other programs do not reduce.
    """
    if limit is not None:
        return limit - used_bytes()
    device = _device_bytes()
    if device is not None and not mx.metal.is_available():
        return device - used_bytes()
    # MLX keeps freed memory to use it again.
    system = psutil.virtual_memory().available + mx.get_cache_memory()
    return system if device is None else min(device - used_bytes(), system)


def total_bytes(limit: int | None = None) -> int:
    """Bytes for models in an otherwise idle system; ``limit`` if it is given."""
    if limit is not None:
        return limit
    return _device_bytes() or int(psutil.virtual_memory().total)


class MemoryGate:
    """Refuses models that do not fit into memory.

    Args:
        limit: Bytes for models; ``None`` for the available memory.
        available: Returns the bytes that can be allocated.
        clock: Returns the time in seconds.
        pause: Waits for a number of seconds.
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        available: Callable[[int | None], int] = available_bytes,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._limit = limit
        self._available = available
        self._clock = clock
        self._pause = pause
        self._settled_at = clock()

    @property
    def is_settling(self) -> bool:
        """Whether memory that was released may not be available yet."""
        return self._clock() < self._settled_at

    async def release(self) -> int:
        """Free the memory of a closed model; return the bytes still in use."""
        self._settled_at = self._clock() + _RELEASE_SECONDS
        return await asyncio.to_thread(release_unused)

    def can_hold(self, model: KnownModel) -> bool:
        """Whether a model fits into memory while no other model is there."""
        return _needed_bytes(model) <= total_bytes(self._limit)

    def shortage(self, model: KnownModel, freed: int = 0) -> ApiError | None:
        """Return the error for a model that does not fit, with status 507; ``None`` if it fits.

        Args:
            model: The model.
            freed: Bytes that are freed before it is loaded.
        """
        needed = _needed_bytes(model)
        room = self._available(self._limit) + freed
        if needed <= room:
            return None
        name, param = repr(model.name), "model"
        if model.draft is not None and _needed_bytes(replace(model, draft=None)) <= room:
            name, param = f"{name} with draft model {model.draft.name!r}", "draft_model"
        return ApiError(
            507,
            f"{name} needs about {needed:,} bytes of memory; {room:,} are available",
            code="insufficient_memory",
            param=param,
            facts={"needed_bytes": needed, "available_bytes": room},
        )

    def check(self, model: KnownModel, freed: int = 0) -> None:
        """Raise ``shortage``, whose arguments these are, as an ``ApiError``."""
        shortage = self.shortage(model, freed)
        if shortage is not None:
            raise shortage

    async def wait(self, model: KnownModel, freed: int = 0) -> None:
        """Like ``check``, but wait for memory that was released in the last ten seconds."""
        while self.is_settling and self.shortage(model, freed) is not None:
            await self._pause(_POLL_SECONDS)
            mx.clear_cache()
        self.check(model, freed)


def _needed_bytes(model: KnownModel) -> int:
    return int(model.total_weights_bytes * _MEMORY_PER_WEIGHTS)


def _device_bytes() -> int | None:
    if mx.default_device().type != mx.DeviceType.gpu:
        return None
    # Older versions of MLX offer it for Metal only.
    facts = (getattr(mx, "device_info", None) or mx.metal.device_info)()
    total = facts.get("max_recommended_working_set_size") or facts.get("memory_size")
    return total if isinstance(total, int) else None


class LoadChecks:
    """Checks the files of models, and remembers the results until one changes. For one event loop.

    Args:
        cache: The options of the prompt caches of models; ``None`` for the defaults.
        trusts_code: Whether code of checkpoints may be run.
    """

    def __init__(self, cache: CacheOptions | None = None, *, trusts_code: bool = False) -> None:
        self._cache = cache or CacheOptions()
        self._trusts_code = trusts_code
        # By ``KnownModel.key``: the signature of their files, and the error of loading.
        self._results: dict[tuple[str, ...], tuple[object, ApiError | None]] = {}
        self._turn = asyncio.Lock()

    async def check_files(self, model: KnownModel) -> None:
        """Load a model without its weights, in about a second.

        Raises:
            ApiError: The model or its draft model cannot be loaded, the draft model has another
                vocabulary, or the adapter belongs to another model.
        """
        for part in model.files:
            if part.problem is not None:
                raise for_client(part.problem.error(part.name), model)
        if model.directory is None:
            return
        # One check at a time: each takes a second of processor time.
        async with self._turn:
            signature = await asyncio.to_thread(model.signature)
            known = self._results.get(model.key)
            if known is None or known[0] != signature:
                problem = await asyncio.to_thread(self._problem, model)
                known = self._results[model.key] = (signature, problem)
        if known[1] is not None:
            raise known[1].with_traceback(None)

    def record_loaded(self, model: KnownModel) -> None:
        """Remember that a model was loaded, so that it is not checked again."""
        self._results[model.key] = (model.signature(), None)

    def has_failed(self, model: KnownModel) -> bool:
        """Whether ``check_files`` found that a model without a draft model cannot be loaded."""
        alone = replace(model, draft=None)
        known = self._results.get(alone.key)
        return known is not None and known[1] is not None and known[0] == alone.signature()

    def _problem(self, model: KnownModel) -> ApiError | None:
        """Return the error of loading a model's files, if any. Takes about a second."""
        # On a worker: MLX may abort the process if a thread that has used it ends at process exit.
        worker = Worker()
        try:
            worker.submit(partial(self._check, model)).result()
        except ModelError as error:
            fields = {"model": model.name, "error": str(error)}
            _logger.warning("model cannot be loaded", extra={"fields": fields})
            return for_client(error, model)
        finally:
            worker.close()
        return None

    def _check(self, model: KnownModel) -> None:
        directory, draft, cache = model.directory, model.draft, self._cache
        if directory is None:
            return
        options = LoadOptions(adapter_path=model.adapter, trust_remote_code=self._trusts_code)
        is_bounded = cache.kv_bits is not None or cache.max_kv_size is not None
        checked_cache = cache if is_bounded and not model.transcribes else None
        loaded = check_loadable(directory, model.name, options, checked_cache)
        if draft is not None and draft.directory is not None:
            check_draft_loadable(draft.directory, draft.name, loaded)
        elif draft is not None and is_own(draft.source):
            check_own_heads(directory)


def for_client(error: Exception, model: KnownModel) -> ApiError:
    """Return the error of loading ``model`` as a client gets it, without paths of the server.

    An error of the draft model names the parameter ``draft_model``.
    """
    if isinstance(error, ModelError):
        of_draft = model.draft is not None and error.model in (model.draft_source, model.draft.name)
        of_model = error.model in (model.source, model.name)
        is_draft = isinstance(error, DraftModelError) or (of_draft and not of_model)
        found = api_error(error, {"model": "draft_model"} if is_draft else None)
    else:
        # The text of an unexpected exception is for the log.
        reason = f": {error}" if isinstance(error, ProxyError) else ""
        what = f"{model.name!r} cannot be loaded{reason}"
        found = ApiError(503, what, code="model_unavailable", param="model")
    found.message = _without_paths(found.message, model)
    return found


def _without_paths(text: str, model: KnownModel) -> str:
    """Replace the directories of a model by its name, and cut lines at other absolute paths.

    The errors of libraries name files, and their names tell clients about the server's users.
    """
    known = [(part.directory, part.name) for part in model.files if part.directory is not None]
    if model.adapter is not None:
        known.append((model.adapter, model.adapter.name))
    names = {
        str(path): name for directory, name in known for path in (directory, directory.resolve())
    }
    # A directory may begin with the path of another one.
    for path in sorted(names, key=len, reverse=True):
        if os.sep in path:
            text = text.replace(path, names[path])
    return _PATH.sub("…", text)
