"""Memory of models: used, available, and in total; and whether a model fits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import mlx.core as mx
import psutil

from ..runtime import process_runtime
from .errors import ApiError
from .known_models import KnownModel

# A model needs memory for its weights, and for prompts and answers.
_MEMORY_PER_WEIGHTS = 1.1
# The operating system frees memory some time after a process has released it.
_RELEASE_SECONDS = 10.0
_POLL_SECONDS = 0.5


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
    """Bytes that can be allocated besides those in use.

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
        alone = _needed_bytes(replace(model, draft=None))
        if model.draft is not None and alone <= room:
            name, param = f"{name} with draft model {model.draft.name!r}", "draft_model"
        return ApiError(
            507,
            f"{name} needs about {needed:,} bytes of memory; {room:,} are available",
            code="insufficient_memory",
            param=param,
            facts={"needed_bytes": needed, "available_bytes": room},
        )

    def check(self, model: KnownModel, freed: int = 0) -> None:
        """Raise for a model that does not fit. The arguments are those of ``shortage``.

        Raises:
            ApiError: 507.
        """
        shortage = self.shortage(model, freed)
        if shortage is not None:
            raise shortage

    async def wait(self, model: KnownModel, freed: int = 0) -> None:
        """Like ``check``, but wait for memory that was released in the last ten seconds."""
        while self.is_settling and self.shortage(model, freed) is not None:
            await self._pause(_POLL_SECONDS)
            mx.clear_cache()
        self.check(model, freed)


def weights_bytes(model: KnownModel) -> int:
    """Return the size of the weights of a model, its draft model and its adapter."""
    adapter = 0 if model.adapter is None else model.adapter.weights_bytes
    return adapter + sum(one.weights_bytes for one in model.files)


def _needed_bytes(model: KnownModel) -> int:
    return int(weights_bytes(model) * _MEMORY_PER_WEIGHTS)


def _device_bytes() -> int | None:
    if mx.default_device().type != mx.DeviceType.gpu:
        return None
    # Older versions of MLX offer it for Metal only.
    facts = (getattr(mx, "device_info", None) or mx.metal.device_info)()
    total = facts.get("max_recommended_working_set_size") or facts.get("memory_size")
    return total if isinstance(total, int) else None
