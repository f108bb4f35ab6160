"""The model in memory, and switching to another one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from ..engine.inference_engine import InferenceEngine
from ..prompt_cache.options import CacheOptions
from ..requests.worker import on_own_thread
from .adapters import AdapterRegistry
from .errors import shutting_down
from .idle import IdleTimer
from .known_models import KnownModel
from .load_checks import LoadChecks, check_description, for_client
from .memory import MemoryGate, release_unused, used_bytes, weights_bytes
from .metrics import Metrics
from .model_registry import ModelRegistry
from .model_selection import ModelSelection, check_suitable

Load = Callable[[KnownModel], InferenceEngine]
"""Loads a model and its draft model, which takes seconds; called on a thread."""

CheckModel = Callable[[KnownModel], None]
"""Raises for a model that cannot serve a request; called on a thread before the model is loaded."""

_SECONDS_TO_CLOSE = 5.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """A loaded model. It stays in memory while a request holds the lease.

    Attributes:
        model: The model.
        engine: Its engine.
        asked_name: The name that the request has for it; ``None`` if it has none.
    """

    model: KnownModel
    engine: InferenceEngine
    asked_name: str | None = None

    @property
    def name(self) -> str:
        """The name of the model in answers: as the request has it, or else its own."""
        return self.asked_name or self.model.name


class ModelHost:
    """Keeps one model in memory, with its draft model and its adapter, for one event loop.

    A model with another adapter counts as another model. A request for another model waits until
    all requests of the current one are done. Later requests wait behind it, so no model starves.
    The files of a model are checked before its request waits: a model that cannot be loaded neither
    delays other requests nor displaces the current model. If loading fails nevertheless, the
    previous model is loaded again.

    Args:
        registry: Finds models by name.
        load: Loads a model.
        metrics: Counts the loads.
        memory: Refuses models that do not fit; ``None`` for one without a limit.
        current: A model that is already in memory.
        idle_seconds: Time without requests after which the model is unloaded; ``None`` for never.
        cache: The options of prompt caches with which models are loaded.
        adapters: Finds adapters by name; ``None`` for none.
        trusts_code: Whether code of checkpoints may be run.

    Attributes:
        is_draining: Whether the server shuts down; then no other model is loaded.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        load: Load,
        metrics: Metrics,
        *,
        memory: MemoryGate | None = None,
        current: Lease | None = None,
        idle_seconds: float | None = None,
        cache: CacheOptions | None = None,
        adapters: AdapterRegistry | None = None,
        trusts_code: bool = False,
    ) -> None:
        self._load = load
        self._metrics = metrics
        self._memory = memory or MemoryGate()
        self._checks = LoadChecks(cache, trusts_code=trusts_code)
        self._idle = IdleTimer(idle_seconds, self.unload)
        self._current = current
        selected = None if current is None else current.model
        self._selection = ModelSelection(registry, selected, adapters)
        self._bytes_before = used_bytes()
        self._is_loading = False
        self.is_draining = False
        self._users = 0
        self._turn = asyncio.Lock()
        self._unused = asyncio.Event()
        self._unused.set()

    @property
    def current(self) -> Lease | None:
        """The model in memory."""
        return self._current

    @property
    def is_loading(self) -> bool:
        """Whether a model is being loaded."""
        return self._is_loading

    def start(self) -> None:
        """Begin to measure the time without requests."""
        if self._users == 0:
            self._idle.start()

    @asynccontextmanager
    async def lease(
        self,
        name: str | None,
        draft: str | None = None,
        *,
        adapter: str | None = None,
        transcribes: bool = False,
        check: CheckModel | None = None,
    ) -> AsyncIterator[Lease]:
        """Hold a model in memory within the context, and load it first if necessary.

        Args:
            name: The model's name; ``None`` or empty for a suitable one: the model in memory, the
                default, or another one.
            draft: The draft model's name; ``None`` for that of the model in memory, or else that of
                the default model.
            adapter: The adapter's name; ``None`` or empty for the default model's if the model is
                the default one, and for no adapter otherwise.
            transcribes: Whether it must be a speech model, or else one that answers prompts.
            check: Called with a model that is not in memory.

        Raises:
            ApiError: 404 if there is no such model or adapter; 507
                if it does not fit into memory; 400 if it is unsuitable, the draft model has another
                vocabulary, or the adapter belongs to another model; 501 or 503 if it cannot be
                loaded.
            ProxyError: As ``check`` raises it.
        """
        is_loaded = self._current is not None
        model = await self._selection.find(
            name, draft, transcribes, adapter_name=adapter, is_loaded=is_loaded
        )
        if not self._is_current(model):
            await self._check(model, transcribes, check)
        await self._turn.acquire()
        current = self._current
        if draft is None and current is not None and current.model.name == model.name:
            # The draft model in memory may be another one by now; it is as good.
            model = replace(model, draft=current.model.draft)
        try:
            await self._wait_for_place(model)
        except BaseException:
            self._turn.release()
            raise
        # Loading continues when the client disconnects, so the task releases the turn.
        task = asyncio.create_task(self._acquire(model))
        task.add_done_callback(lambda _: self._turn.release())
        try:
            lease = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_retrieve_error)
            task.add_done_callback(self._leave_if_acquired)
            raise
        try:
            # The loaded model knows exactly what its configuration suggests.
            check_suitable(model.name, "text" not in lease.engine.input_modalities, transcribes)
            yield replace(lease, asked_name=name) if name and name != model.name else lease
        finally:
            self._leave()

    async def unload(self) -> None:
        """Close the engine unless a request uses it. The next request loads the model again."""
        async with self._turn:
            if self._users == 0 and not self.is_draining:
                await self._unload()

    async def close(self, patience: float = _SECONDS_TO_CLOSE) -> None:
        """Close the engine. Its requests end with ``EngineClosedError``.

        Args:
            patience: Seconds to wait for the engine's thread before it is abandoned.
        """
        self._idle.stop()
        current, self._current = self._current, None
        if current is not None:
            closing = asyncio.ensure_future(on_own_thread(current.engine.close))
            _, left = await asyncio.wait({closing}, timeout=patience)
            if left:
                _logger.warning("the engine did not stop in time")

    def is_loadable(self, model: KnownModel) -> bool:
        """Whether no reason is known for which a model cannot be loaded. Reads the file system."""
        return (
            model.problem is None
            and self._memory.can_hold(model)
            and not self._checks.has_failed(model)
        )

    async def _check(self, model: KnownModel, transcribes: bool, check: CheckModel | None) -> None:
        """Raise an error for a model that cannot be loaded or is unsuitable. Reads no weights."""
        check_description(model)
        if model.directory is not None:
            check_suitable(model.name, model.transcribes, transcribes)
            if check is not None:
                await asyncio.to_thread(check, model)
        if not self._is_loading and not self._memory.is_settling:
            # Otherwise the free memory says nothing.
            self._memory.check(model, self._freed)
        await self._checks.check_files(model)

    @property
    def _freed(self) -> int:
        """Bytes that closing the current model frees: its weights, and the caches of prompts."""
        if self._current is None:
            return 0
        return max(weights_bytes(self._current.model), used_bytes() - self._bytes_before)

    def _is_current(self, model: KnownModel) -> bool:
        return self._current is not None and self._current.model.key == model.key

    async def _wait_for_place(self, model: KnownModel) -> None:
        """Wait until no request uses the current model, unless ``model`` is the current one.

        The caller holds the turn.
        """
        if self._is_current(model):
            return
        await self._unused.wait()
        if self.is_draining:
            raise shutting_down()

    async def _acquire(self, model: KnownModel) -> Lease:
        self._idle.stop()
        if not self._is_current(model):
            await self._switch(model)
        if self._current is None:
            raise AssertionError("no model was loaded")
        self._users += 1
        self._unused.clear()
        return self._current

    async def _switch(self, model: KnownModel) -> None:
        # Requests without a name that arrive meanwhile wait for the new model.
        former, self._selection.selected = self._selection.selected, model
        self._is_loading = True
        try:
            await self._replace(model)
        except BaseException:
            self._selection.selected = former
            self._idle.start()
            raise
        finally:
            self._is_loading = False

    async def _replace(self, model: KnownModel) -> None:
        # Check before the current model is closed, and again with the memory it really freed.
        await self._memory.wait(model, self._freed)
        former = await self._unload()
        try:
            await self._memory.wait(model)
            if self.is_draining:
                raise shutting_down()
            await self._load_model(model)
        except Exception:
            if former is not None and not self.is_draining:
                await self._restore(former)
            raise

    async def _unload(self) -> KnownModel | None:
        """Close the current engine and return its model, if there is one."""
        current, self._current = self._current, None
        if current is None:
            return None
        before = used_bytes()
        model = current.model
        await on_own_thread(current.engine.close)
        del current
        after = await self._memory.release()
        fields = {"model": model.name, "bytes": before - after, "left": after}
        _logger.info("model released", extra={"fields": fields})
        return model

    async def _restore(self, model: KnownModel) -> None:
        try:
            await self._load_model(model)
        except Exception:
            _logger.exception("the previous model could not be loaded again")

    async def _load_model(self, model: KnownModel) -> None:
        started = time.perf_counter()
        self._bytes_before = used_bytes()
        try:
            engine = await asyncio.to_thread(self._load, model)
        except Exception as error:
            self._metrics.model_loads.labels("failed").inc()
            await asyncio.to_thread(release_unused)
            _logger.exception("loading failed")
            raise for_client(error, model) from error
        self._metrics.model_loads.labels("ok").inc()
        self._current = Lease(model, engine)
        await asyncio.to_thread(self._checks.record_loaded, model)
        fields = {
            "model": model.name,
            "draft_model": None if model.draft is None else model.draft.name,
            "adapter": None if model.adapter is None else model.adapter.name,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": used_bytes(),
        }
        _logger.info("model loaded", extra={"fields": fields})

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._unused.set()
            self._idle.start()

    def _leave_if_acquired(self, task: asyncio.Task[Lease]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._leave()


def _retrieve_error(task: asyncio.Task[Lease]) -> None:
    """Mark the task's error as retrieved: asyncio logs errors that never are."""
    if not task.cancelled():
        task.exception()
