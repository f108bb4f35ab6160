"""The model in memory, and switching to another one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from state_machines.errors import ProxyError

from ..engine import InferenceEngine
from ..errors import DraftModelError, ModelError, ModelFormatError
from ..models.checking import check_loadable
from ..models.draft_models import check_draft_loadable
from ..requests.worker import Worker
from ..text_checks import short_repr
from .errors import ApiError, api_error, shutting_down
from .memory import available_bytes, release_unused, total_bytes, used_bytes
from .metrics import Metrics
from .model_names import DEFAULT_MODEL
from .model_registry import KnownModel, ModelRegistry, file_signature

Load = Callable[[KnownModel], InferenceEngine]
"""Loads a model and its draft model, which takes seconds; called on a thread."""

# A model needs memory for its weights, and for prompts and answers.
_MEMORY_PER_WEIGHTS = 1.1
_SECONDS_TO_CLOSE = 5.0
# The number of candidates in the error of an ambiguous short name.
_MAX_MATCHES = 8

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
    """Keeps one model in memory, with its draft model if it has one, for one event loop.

    A request for another model waits until all requests of the current one are done. Later requests
    wait behind it, so no model starves. The files of a model are checked before its request waits:
    a model that cannot be loaded neither delays other requests nor displaces the current model. If
    loading fails nevertheless, the previous model is loaded again.

    Args:
        registry: Finds models by name.
        load: Loads a model.
        metrics: Counts the loads.
        memory_limit: Bytes for models; ``None`` for all of the device's.
        current: A model that is already in memory.

    Attributes:
        is_draining: Whether the server shuts down; then no other model is loaded.
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
        # By names of model and draft model: the signature of their files, and the error of loading.
        self._checked: dict[tuple[str, ...], tuple[object, ModelError | ApiError | None]] = {}
        self._checking = asyncio.Lock()
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

    @asynccontextmanager
    async def lease(
        self, name: str | None, draft: str | None = None, *, transcribes: bool = False
    ) -> AsyncIterator[Lease]:
        """Hold a model in memory within the context, and load it first if necessary.

        Args:
            name: The model's name; ``None`` or empty for a suitable one: the model in memory, the
                default, or another one.
            draft: The draft model's name; ``None`` for that of the model in memory, or else that of
                the default model.
            transcribes: Whether a model without a name should be a speech model.

        Raises:
            ApiError: 404 if there is no such model or a short name matches several, 507 if it does
                not fit into memory, 400 if the draft model has another vocabulary, 503 if it
                cannot be loaded.
            ModelError: The model cannot be loaded.
        """
        model = await self._find(name, draft, transcribes)
        await self._check(model)
        await self._turn.acquire()
        current = self._current
        if draft is None and current is not None and current.model.name == model.name:
            # The draft model in memory may be another one by now; it is as good.
            model = current.model
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
            yield replace(lease, asked_name=name) if name and name != model.name else lease
        finally:
            self._leave()

    async def close(self, patience: float = _SECONDS_TO_CLOSE) -> None:
        """Close the engine. Its requests end with ``EngineClosedError``.

        Args:
            patience: Seconds to wait for the engine's thread before it is abandoned.
        """
        current, self._current = self._current, None
        if current is not None:
            closing = asyncio.ensure_future(asyncio.to_thread(current.engine.close))
            _, left = await asyncio.wait({closing}, timeout=patience)
            if left:
                _logger.warning("the engine did not stop in time")

    async def _find(
        self, name: str | None, draft_name: str | None, transcribes: bool
    ) -> KnownModel:
        model = None if self._current is None else self._current.model
        is_suitable = model is not None and (
            name == model.name if name else model.transcribes is transcribes
        )
        if model is None or not is_suitable:
            known = await asyncio.to_thread(self._registry.find, name, transcribes)
            if known is None:
                raise await self._not_found(name or "", "model", transcribes)
            model = known
        if draft_name is None:
            return model
        draft = await asyncio.to_thread(self._registry.find_draft, draft_name)
        if draft is not None:
            return replace(model, draft=draft)
        if draft_name != DEFAULT_MODEL:
            raise await self._not_found(draft_name, "draft_model")
        return model

    async def _not_found(self, name: str, param: str, transcribes: bool = False) -> ApiError:
        matches = await asyncio.to_thread(self._registry.matches, name, transcribes)
        what = f"model {short_repr(name)} not found"
        if matches:
            shown = ", ".join(map(repr, matches[:_MAX_MATCHES]))
            more = ", …" if len(matches) > _MAX_MATCHES else ""
            what = f"model {short_repr(name)} is ambiguous: it matches {shown}{more}"
        return ApiError(404, what, code="model_not_found", param=param)

    async def _check(self, model: KnownModel) -> None:
        """Raise an error for a model that cannot be loaded. Reads no weights."""
        if self._is_current(model):
            return
        if not self._is_loading:
            # While a model is being loaded, the free memory says nothing.
            self._check_room(model, self._freed)
        for one in model.files:
            if one.problem is not None:
                raise _for_client(
                    ModelFormatError(
                        f"{one.name!r} cannot be loaded: {one.problem}", model=one.name
                    ),
                    model,
                )
        if model.directory is None:
            return
        # One check at a time: each takes a second of processor time.
        async with self._checking:
            signature = await asyncio.to_thread(_signature, model)
            known = self._checked.get(model.key)
            if known is None or known[0] != signature:
                problem = await asyncio.to_thread(_problem, model)
                known = self._checked[model.key] = (signature, problem)
        if known[1] is not None:
            raise known[1].with_traceback(None)

    @property
    def _freed(self) -> int:
        """Bytes that closing the current model frees."""
        return 0 if self._current is None else _weights_bytes(self._current.model)

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
        if not self._is_current(model):
            self._is_loading = True
            try:
                await self._replace(model)
            finally:
                self._is_loading = False
        if self._current is None:
            raise AssertionError("no model was loaded")
        self._users += 1
        self._unused.clear()
        return self._current

    async def _replace(self, model: KnownModel) -> None:
        # Check before the current model is closed, and again with the memory it really freed.
        self._check_room(model, self._freed)
        former = await self._unload()
        try:
            self._check_room(model, 0)
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
        await asyncio.to_thread(current.engine.close)
        del current
        after = await asyncio.to_thread(release_unused)
        _logger.info("model released", extra={"fields": {"bytes": before - after, "left": after}})
        return model

    async def _restore(self, model: KnownModel) -> None:
        try:
            await self._load_model(model)
        except Exception:
            _logger.exception("the previous model could not be loaded again")

    async def _load_model(self, model: KnownModel) -> None:
        started = time.perf_counter()
        try:
            engine = await asyncio.to_thread(self._load, model)
        except Exception as error:
            self._metrics.model_loads.labels("failed").inc()
            await asyncio.to_thread(release_unused)
            if isinstance(error, ModelError):
                raise _for_client(error, model) from error.__cause__
            reason = f": {error}" if isinstance(error, ProxyError) else ""
            _logger.exception("loading failed")
            raise ApiError(
                503,
                f"{model.name!r} cannot be loaded{reason}",
                code="model_unavailable",
                param="model",
            ) from error
        self._metrics.model_loads.labels("ok").inc()
        self._current = Lease(model, engine)
        fields = {
            "model": model.name,
            "draft_model": None if model.draft is None else model.draft.name,
            "seconds": round(time.perf_counter() - started, 3),
            "bytes": used_bytes(),
        }
        _logger.info("model loaded", extra={"fields": fields})

    def can_hold(self, model: KnownModel) -> bool:
        """Whether a model fits into memory while no other model is there."""
        return _needed_bytes(model) <= total_bytes(self._memory_limit)

    def _check_room(self, model: KnownModel, freed: int) -> None:
        needed = _needed_bytes(model)
        room = available_bytes(self._memory_limit) + freed
        if needed > room:
            name, param = repr(model.name), "model"
            alone = _needed_bytes(replace(model, draft=None))
            if model.draft is not None and alone <= room:
                name, param = f"{name} with draft model {model.draft.name!r}", "draft_model"
            raise ApiError(
                507,
                f"{name} needs about {needed:,} bytes of memory; {room:,} are available",
                code="insufficient_memory",
                param=param,
                facts={"needed_bytes": needed, "available_bytes": room},
            )

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._unused.set()

    def _leave_if_acquired(self, task: asyncio.Task[Lease]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._leave()


def _weights_bytes(model: KnownModel) -> int:
    return sum(one.weights_bytes for one in model.files)


def _needed_bytes(model: KnownModel) -> int:
    return int(_weights_bytes(model) * _MEMORY_PER_WEIGHTS)


def _signature(model: KnownModel) -> object:
    """Return a value that changes with the files of a model or its draft model."""
    return [one.directory and file_signature(one.directory) for one in model.files]


def _for_client(error: ModelError, model: KnownModel) -> ModelError | ApiError:
    """Return the error of loading ``model``; one of its draft model names ``draft_model``."""
    of_draft = model.draft is not None and error.model in (model.draft_source, model.draft.name)
    of_model = error.model in (model.source, model.name)
    if isinstance(error, DraftModelError) or (of_draft and not of_model):
        return api_error(error, {"model": "draft_model"})
    return error


def _retrieve_error(task: asyncio.Task[Lease]) -> None:
    """Mark the task's error as retrieved: asyncio logs errors that never are."""
    if not task.cancelled():
        task.exception()


def _problem(model: KnownModel) -> ModelError | ApiError | None:
    """Return the error of loading a model's files, if any. Takes about a second."""
    directory, draft = model.directory, model.draft
    if directory is None:
        return None

    def check() -> None:
        if draft is None or draft.directory is None:
            check_loadable(directory, model.name)
        else:
            check_draft_loadable(draft.directory, draft.name, directory, model.name)

    # On a worker: MLX may abort the process if a thread that has used it ends at process exit.
    worker = Worker()
    try:
        worker.submit(check).result()
    except ModelError as error:
        return _for_client(error, model)
    finally:
        worker.close()
    return None
