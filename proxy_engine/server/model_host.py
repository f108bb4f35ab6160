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
from ..errors import ModelError, ModelFormatError
from ..models.checking import check_loadable
from ..requests.worker import Worker
from .errors import ApiError, shutting_down
from .memory import available_bytes, release, total_bytes, used_bytes
from .metrics import Metrics
from .model_registry import KnownModel, ModelRegistry, file_signature

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

    A request for another model waits until all requests that use this one are done; requests that
    come later wait behind it, so every model has its turn. A model is checked before its request
    waits, so one that cannot be loaded neither delays others nor displaces the one in memory.
    Where loading fails all the same, the previous model is loaded again.

    ``memory_limit`` is in bytes; ``None``: what there is. Once ``is_draining`` no other model is
    loaded.
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
        # What came of checking a model's files, by name, until they change.
        self._checked: dict[str, tuple[object, str | None]] = {}
        self._checking = asyncio.Lock()
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
        await self._check(model)
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

    async def _check(self, model: KnownModel) -> None:
        """Raise an error for a model that cannot be loaded. No weights are read."""
        if self._has(model):
            return
        if not self._is_loading:
            # While a model is being loaded, the free memory is no measure.
            self._check_room(model, model.weights_bytes, self._freed)
        if model.problem is not None:
            raise ModelFormatError(
                f"{model.name!r} cannot be loaded: {model.problem}", model=model.name
            )
        if model.directory is None:
            return
        # One at a time: a check takes a second of the processor.
        async with self._checking:
            signature = await asyncio.to_thread(file_signature, model.directory)
            known = self._checked.get(model.name)
            if known is None or known[0] != signature:
                problem = await asyncio.to_thread(_problem, model)
                known = self._checked[model.name] = (signature, problem)
        if known[1] is not None:
            raise ModelFormatError(known[1], model=model.name)

    @property
    def _freed(self) -> int:
        """Bytes that are free once the current model is closed."""
        return 0 if self._current is None else int(self._current.model.weights_bytes)

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
        # A model that works is not given up for one that does not fit.
        self._check_room(model, model.weights_bytes, self._freed)
        former = await self._release()
        try:
            self._check_room(model, model.weights_bytes, 0)
            await self._load_one(model)
        except Exception:
            if former is not None and not self.is_draining:
                await self._restore(former)
            raise

    async def _release(self) -> KnownModel | None:
        """Close the current engine, if there is one, and return its model."""
        current, self._current = self._current, None
        if current is None:
            return None
        before = used_bytes()
        model = current.model
        await asyncio.to_thread(current.engine.close)
        del current
        after = await asyncio.to_thread(release)
        _logger.info("model released", extra={"fields": {"bytes": before - after, "left": after}})
        return model

    async def _restore(self, model: KnownModel) -> None:
        try:
            await self._load_one(model)
        except Exception:
            _logger.exception("the previous model cannot be loaded again")

    async def _load_one(self, model: KnownModel) -> None:
        started = time.perf_counter()
        try:
            engine = await asyncio.to_thread(self._load, model)
        except Exception as error:
            self._metrics.model_loads.labels("failed").inc()
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
        self._metrics.model_loads.labels("ok").inc()
        self._current = Lease(model, engine)
        fields = {
            "model": model.name,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": used_bytes(),
        }
        _logger.info("model loaded", extra={"fields": fields})

    def can_hold(self, model: KnownModel) -> bool:
        """Whether a model fits into the memory, if no other model is there."""
        return int(model.weights_bytes * _ROOM) <= total_bytes(self._memory_limit)

    def _check_room(self, model: KnownModel, weights: int, freed: int) -> None:
        needed = int(weights * _ROOM)
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


def _problem(model: KnownModel) -> str | None:
    """Return why the files of a model cannot be loaded; takes about a second."""
    directory, name = model.directory, model.name
    if directory is None:
        return None
    # Threads that have used MLX must not end with the server's.
    worker = Worker()
    try:
        worker.submit(lambda: check_loadable(directory, name)).result()
    except ModelError as error:
        return error.what
    finally:
        worker.close()
    return None
