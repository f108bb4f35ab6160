"""The one model that is in memory, and how another takes its place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from state_machines.errors import ProxyError

from ..engine import InferenceEngine
from ..errors import ModelError
from .errors import ApiError, shutting_down
from .memory import available_bytes, release, used_bytes
from .metrics import Metrics
from .model_registry import KnownModel, ModelRegistry

__all__ = ["Lease", "Load", "ModelHost"]

Load = Callable[[KnownModel], InferenceEngine]
"""Loads a model, in seconds; called on a thread."""

# Beside weights a model needs room for what it reads and writes.
_ROOM = 1.1
_SECONDS_TO_CLOSE = 5.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """A model that stays in memory while it is used."""

    model: KnownModel
    engine: InferenceEngine


class ModelHost:
    """Keeps one model in memory. For one event loop.

    Who asks for another waits until all who use this one are done; whoever comes later waits behind
    them, so everybody has their turn. ``memory_limit`` is in bytes; ``None``: what there is. Once
    ``is_draining`` no other model is loaded.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        load: Load,
        metrics: Metrics,
        *,
        memory_limit: int | None = None,
        current: Lease | None = None,
    ) -> None:
        self._registry = registry
        self._load = load
        self._metrics = metrics
        self._memory_limit = memory_limit
        self._current = current
        self._is_loading = False
        self.is_draining = False
        self._users = 0
        self._turn = asyncio.Lock()
        self._unused = asyncio.Event()
        self._unused.set()

    @property
    def current(self) -> Lease | None:
        """What is in memory."""
        return self._current

    @property
    def is_loading(self) -> bool:
        """Whether a model is being loaded."""
        return self._is_loading

    @asynccontextmanager
    async def lease(self, name: str | None) -> AsyncIterator[Lease]:
        """Have the model of that name in memory, ``None``: the one that is, or the first.

        Raises ``ApiError``: 404 where there is none, 507 where it would not fit; ``ModelError``.
        """
        model = await self._find(name)
        await self._turn.acquire()
        try:
            await self._be_unused_for(model)
        except BaseException:
            self._turn.release()
            raise
        # Loading goes on when the client goes away, so the turn is given back by the task.
        task = asyncio.create_task(self._have(model))
        task.add_done_callback(lambda _: self._turn.release())
        try:
            lease = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_look_at)
            task.add_done_callback(self._forget_if_had)
            raise
        try:
            yield lease
        finally:
            self._leave()

    async def close(self, patience: float = _SECONDS_TO_CLOSE) -> None:
        """Close the engine, if there is one. Its requests end with ``EngineClosedError``.

        One that does not end what it is at within ``patience`` seconds is given up.
        """
        current, self._current = self._current, None
        if current is not None:
            closing = asyncio.ensure_future(asyncio.to_thread(current.engine.close))
            _, left = await asyncio.wait({closing}, timeout=patience)
            if left:
                _logger.warning("the model does not end; it is given up")

    async def _find(self, name: str | None) -> KnownModel:
        current = self._current
        if current is not None and name in (None, current.model.name):
            return current.model
        model = await asyncio.to_thread(self._registry.find, name)
        if model is None:
            raise ApiError(
                404, f"there is no model {name!r} here", code="model_not_found", param="model"
            )
        return model

    def _has(self, model: KnownModel) -> bool:
        return self._current is not None and self._current.model.name == model.name

    async def _be_unused_for(self, model: KnownModel) -> None:
        """Wait until another model may take the place, for those who have the turn.

        Whoever goes away meanwhile has nothing loaded; neither has anybody at the end.
        """
        if self._has(model):
            return
        await self._unused.wait()
        if self.is_draining:
            raise shutting_down()

    async def _have(self, model: KnownModel) -> Lease:
        if not self._has(model):
            self._is_loading = True
            try:
                await self._replace(model)
            finally:
                self._is_loading = False
        if self._current is None:
            raise AssertionError("a model was loaded")
        self._users += 1
        self._unused.clear()
        return self._current

    async def _replace(self, model: KnownModel) -> None:
        needed = int(model.weights_bytes * _ROOM)
        current = self._current
        freed = int(current.model.weights_bytes) if current is not None else 0
        # A model that works is not given up for one that cannot.
        self._check_room(model, needed, freed)
        before = used_bytes()
        if current is not None:
            self._current = None
            await asyncio.to_thread(current.engine.close)
            del current
            after = await asyncio.to_thread(release)
            _logger.info(
                "model released", extra={"fields": {"bytes": before - after, "left": after}}
            )
            self._check_room(model, needed, 0)
        started = time.perf_counter()
        try:
            engine = await asyncio.to_thread(self._load, model)
        except Exception as error:
            self._metrics.model_loads.add(result="failed")
            await asyncio.to_thread(release)
            if isinstance(error, ModelError):
                raise
            why = f": {error}" if isinstance(error, ProxyError) else ""
            _logger.exception("loading failed")
            raise ApiError(
                503,
                f"{model.name!r} cannot be loaded{why}",
                code="model_unavailable",
                param="model",
            ) from error
        self._metrics.model_loads.add(result="ok")
        self._current = Lease(model, engine)
        fields = {
            "model": model.name,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": used_bytes(),
        }
        _logger.info("model loaded", extra={"fields": fields})

    def _check_room(self, model: KnownModel, needed: int, freed: int) -> None:
        room = available_bytes(self._memory_limit) + freed
        if needed > room:
            raise ApiError(
                507,
                f"{model.name!r} needs some {needed:,} bytes of memory, and there are {room:,}",
                code="insufficient_memory",
                param="model",
                facts={"needed_bytes": needed, "available_bytes": room},
            )

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._unused.set()

    def _forget_if_had(self, task: asyncio.Task[Lease]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._leave()


def _look_at(task: asyncio.Task[Lease]) -> None:
    """Nobody waits for it any more; an error that nobody looked at would be complained about."""
    if not task.cancelled():
        task.exception()
