"""The model in memory, and switching to another one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from ..checks import short_repr
from ..engine.inference_engine import InferenceEngine
from ..runtime.worker import on_own_thread
from .admission import CheckModel, Host, Lease, check_suitable
from .errors import ApiError, shutting_down
from .load_checks import LoadChecks, MemoryGate, for_client, release_unused, used_bytes
from .metrics import Metrics
from .models import DEFAULT_MODEL, KnownModel, ModelChoice, ModelRegistry

Load = Callable[[KnownModel], InferenceEngine]
"""Loads a model and its draft model, which takes seconds; called on a thread."""

_SECONDS_TO_CLOSE = 5.0

_MAX_LISTED = 8
"""The number of names in the error of an unknown model or adapter."""

_logger = logging.getLogger(__name__)


class ModelHost(Host):
    """Keeps one model in memory, with its draft model and its adapter, for one event loop.

    A model with another adapter counts as another model. A request for another model waits until
    all requests of the current one are done. Later requests wait behind it, so no model starves.
    The files of a model are checked before its request waits: a model that cannot be loaded neither
    delays other requests nor displaces the current model. If loading fails nevertheless, the
    previous model is loaded again.

    Args:
        registry: Finds models and adapters by name.
        load: Loads a model.
        metrics: Counts the loads.
        memory: Refuses models that do not fit; ``None`` for one without a limit.
        checks: Checks the files of models; by default for models without own code.
        current: A model that is already in memory.
        idle_seconds: Time without requests after which the model is unloaded; ``None`` for never.
    """

    def __init__(
        self,
        registry: ModelRegistry,
        load: Load,
        metrics: Metrics,
        *,
        memory: MemoryGate | None = None,
        checks: LoadChecks | None = None,
        current: Lease | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self._registry = registry
        self._load = load
        self._metrics = metrics
        self._memory = memory or MemoryGate()
        self._checks = checks or LoadChecks()
        self._idle_seconds = idle_seconds
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unloading: asyncio.Task[None] | None = None
        self.current = current
        # The model of requests without a name: in memory, unloaded, or being loaded. `None` for
        # the default model.
        self._selected = None if current is None else current.model
        self._bytes_before = used_bytes()
        self._users = 0
        self._turn = asyncio.Lock()
        self._unused = asyncio.Event()
        self._unused.set()

    def start(self) -> None:
        """Begin to measure the time without requests."""
        if self._users == 0 and self._idle_seconds is not None:
            self._stop_timer()
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._idle_seconds, self._unload_soon)

    @asynccontextmanager
    async def lease(
        self, choice: ModelChoice, check: CheckModel | None = None
    ) -> AsyncIterator[Lease]:
        """Hold a model in memory within the context, as ``Host.lease`` says."""
        name = choice.name
        model = await self._find(choice)
        if not self._is_current(model):
            await self._check(model, choice, check)
        await self._turn.acquire()
        current = self.current
        if choice.draft is None and current is not None and current.model.name == model.name:
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
            check_suitable(model.name, "text" not in lease.engine.input_modalities, choice)
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
        self._stop_timer()
        current, self.current = self.current, None
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

    async def _find(self, choice: ModelChoice) -> KnownModel:
        """Return the model of a choice with its draft model and its adapter."""
        model = await self._find_selected(choice)
        if model is None:
            model = await asyncio.to_thread(self._registry.find, choice.name, choice.transcribes)
        if model is None:
            raise await self._not_found(choice.name or "", "model")
        # The selected model may have the adapter of an earlier request.
        model = replace(model, adapter=model.default_adapter)
        if choice.adapter:
            adapters = await asyncio.to_thread(self._registry.adapters)
            if choice.adapter not in adapters:
                raise _adapter_not_found(choice.adapter, [*adapters])
            model = replace(model, adapter=adapters[choice.adapter])
        if choice.draft is None:
            return model
        draft = await asyncio.to_thread(self._registry.find_draft, choice.draft)
        if draft is None and choice.draft != DEFAULT_MODEL:
            raise await self._not_found(choice.draft, "draft_model")
        return model if draft is None else replace(model, draft=draft)

    async def _find_selected(self, choice: ModelChoice) -> KnownModel | None:
        """Return the selected model if the choice means it."""
        model = self._selected
        if model is None:
            return None
        is_meant = model.transcribes is choice.transcribes
        if choice.name:
            is_meant = choice.name == model.name
        if self.current is not None or not is_meant:
            return model if is_meant else None
        # Its files may have changed.
        known = await asyncio.to_thread(self._registry.find, model.name, choice.transcribes)
        return None if known is None else replace(known, draft=model.draft)

    async def _not_found(self, name: str, param: str) -> ApiError:
        similar = await asyncio.to_thread(self._registry.similar_names, name)
        what = f"model {short_repr(name)} not found"
        if similar:
            what += f". Did you mean {', or '.join(map(repr, similar[:_MAX_LISTED]))}?"
        return ApiError(404, what, code="model_not_found", param=param)

    async def _check(
        self, model: KnownModel, choice: ModelChoice, check: CheckModel | None
    ) -> None:
        """Raise an error for a model that cannot be loaded or is unsuitable. Reads no weights."""
        if model.directory is not None and model.problem is None:
            check_suitable(model.name, model.transcribes, choice)
            if check is not None:
                await asyncio.to_thread(check, model)
        if not self.is_loading and not self._memory.is_settling:
            # Otherwise the free memory says nothing.
            self._memory.check(model, self._freed)
        await self._checks.check_files(model)

    @property
    def _freed(self) -> int:
        """Bytes that closing the current model frees: its weights, and the caches of prompts."""
        if self.current is None:
            return 0
        return max(self.current.model.total_weights_bytes, used_bytes() - self._bytes_before)

    def _is_current(self, model: KnownModel) -> bool:
        return self.current is not None and self.current.model.key == model.key

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
        self._stop_timer()
        if not self._is_current(model):
            await self._switch(model)
        if self.current is None:
            raise AssertionError("no model was loaded")
        self._users += 1
        self._unused.clear()
        return self.current

    async def _switch(self, model: KnownModel) -> None:
        # Requests without a name that arrive meanwhile wait for the new model.
        former, self._selected = self._selected, model
        self.is_loading = True
        try:
            await self._replace(model)
        except BaseException:
            self._selected = former
            self.start()
            raise
        finally:
            self.is_loading = False

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
        current, self.current = self.current, None
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
            # The client gets the error of the model that it has asked for.
            _logger.exception("the previous model could not be loaded again")

    async def _load_model(self, model: KnownModel) -> None:
        started = time.perf_counter()
        self._bytes_before = used_bytes()
        try:
            engine = await asyncio.to_thread(self._load, model)
        except Exception as error:
            # The modules of architectures and the code of checkpoints may raise anything.
            self._metrics.model_loads.labels("failed").inc()
            await asyncio.to_thread(release_unused)
            _logger.exception("loading failed")
            raise for_client(error, model) from error
        self._metrics.model_loads.labels("ok").inc()
        self.current = Lease(model, engine)
        await asyncio.to_thread(self._checks.record_loaded, model)
        fields = {
            "model": model.name,
            "draft_model": None if model.draft is None else model.draft.name,
            "adapter": None if model.adapter is None else model.adapter.name,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": used_bytes(),
        }
        _logger.info("model loaded", extra={"fields": fields})

    def _stop_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _unload_soon(self) -> None:
        # The event loop references tasks weakly.
        self._unloading = asyncio.create_task(self.unload())

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._unused.set()
            self.start()

    def _leave_if_acquired(self, task: asyncio.Task[Lease]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._leave()


def _retrieve_error(task: asyncio.Task[Lease]) -> None:
    """Mark the task's error as retrieved: asyncio logs errors that never are."""
    if not task.cancelled():
        task.exception()


def _adapter_not_found(name: str, known: list[str]) -> ApiError:
    names = "The server has no adapters; --adapter-directories adds some."
    if known:
        more = ", …" if len(known) > _MAX_LISTED else ""
        names = f"Known are {', '.join(known[:_MAX_LISTED])}{more}."
    what = f"adapter {short_repr(name)} not found. {names}"
    return ApiError(404, what, code="adapter_not_found", param="adapters")
