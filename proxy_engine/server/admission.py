"""Admission of requests: the model in memory, its leases, and the number of admitted answers."""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from ..checks import short_repr
from ..engine.inference_engine import InferenceEngine
from .errors import ApiError, shutting_down, unsuitable_model
from .metrics import Metrics
from .models import DEFAULT_MODEL, KnownModel, ModelChoice

_MAX_RETRY_SECONDS = 60

CheckModel = Callable[[KnownModel], None]
"""Raises for a model that cannot serve a request; called on a thread before the model is loaded."""


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


class Host(ABC):
    """Leases the model in memory to requests.

    Attributes:
        current: The model in memory.
        is_loading: Whether a model is being loaded.
        is_draining: Whether the server shuts down; then no other model is loaded.
    """

    current: Lease | None = None
    is_loading = False
    is_draining = False

    @abstractmethod
    def lease(
        self, choice: ModelChoice, check: CheckModel | None = None
    ) -> AbstractAsyncContextManager[Lease]:
        """Hold a model in memory within the context, and load it first if necessary.

        Args:
            choice: The model.
            check: Called with a model that is not in memory.

        Raises:
            ApiError: 404 if there is no such model or adapter; 507
                if it does not fit into memory; 400 if it is unsuitable, the draft model has another
                vocabulary, or the adapter belongs to another model; 501 or 503 if it cannot be
                loaded.
            ProxyError: As ``check`` raises it.
        """

    def is_loadable(self, model: KnownModel) -> bool:
        """Whether no reason is known for which a model cannot be loaded. Reads the file system."""
        return False

    def start(self) -> None:  # noqa: B027
        """Begin to measure the time without requests."""

    async def close(self) -> None:  # noqa: B027
        """Close the engine, if it belongs to the host. Its requests end with an error."""


class EngineHost(Host):
    """Leases an engine that it neither loads nor closes. For any number of event loops.

    ``is_draining`` has no effect: the owner of the engine decides.

    Attributes:
        current: The engine, with its ``model_name`` as the name of the model.
    """

    current: Lease

    def __init__(self, engine: InferenceEngine) -> None:
        model = KnownModel(
            engine.model_name,
            engine.model_name,
            context_length=engine.context_length,
            input_modalities=engine.input_modalities,
        )
        self.current = Lease(model, engine)

    @asynccontextmanager
    async def lease(
        self, choice: ModelChoice, check: CheckModel | None = None
    ) -> AsyncIterator[Lease]:
        """Yield the engine, whatever the name of the model; otherwise as ``Host.lease``.

        Raises:
            ApiError: 404 for the name of another draft model, or of an adapter; 400 if the model
                cannot serve the request; 503 if the engine is closed.
        """
        model, engine = self.current.model, self.current.engine
        asked = {
            "draft_model": (choice.draft, engine.draft_model_name),
            "adapters": (choice.adapter, None),
        }
        for param, (wanted, own) in asked.items():
            if wanted and wanted not in (own, DEFAULT_MODEL):
                what = f"{short_repr(wanted)} not found; this engine has {own!r}"
                raise ApiError(404, what, code="model_not_found", param=param)
        if engine.is_closed:
            raise ApiError(503, "the engine is closed", code="engine_closed")
        check_suitable(model.name, model.transcribes, choice)
        yield replace(self.current, asked_name=choice.name or None)


def check_suitable(name: str, is_speech_model: bool, choice: ModelChoice) -> None:
    """Raise for a speech model that should answer prompts, or a model that cannot transcribe.

    Raises:
        ApiError: 400.
    """
    if is_speech_model and not choice.transcribes:
        raise unsuitable_model(
            name, "answers no prompts; send recordings to /v1/audio/transcriptions"
        )
    if choice.transcribes and not is_speech_model:
        raise unsuitable_model(name, "transcribes no speech; name a model that reads audio only")


class Admission:
    """Admits requests: counts their answers, leases the model to them, and can cancel them all.

    The engine itself decides which of the admitted answers run. For one event loop.

    Args:
        host: Has the model.
        metrics: Counts refused answers, and knows how long an answer takes, for ``Retry-After``.
        max_running: Answers that run at a time.
        max_waiting: Answers that wait at a time.
    """

    def __init__(self, host: Host, metrics: Metrics, *, max_running: int, max_waiting: int) -> None:
        self._host = host
        self._metrics = metrics
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._admitted = 0
        # Recordings are decoded in memory. Waiting recordings are in files.
        self._recordings = asyncio.Semaphore(max_running)
        self._cancels: set[Callable[[], None]] = set()
        self._is_ended = False
        self.is_closed = False

    @property
    def running(self) -> int:
        """The number of answers that run."""
        return min(self._admitted, self._max_running)

    @property
    def waiting(self) -> int:
        """The number of answers that wait."""
        return self._admitted - self.running

    @asynccontextmanager
    async def admit(
        self, answers: int, choice: ModelChoice, check: CheckModel | None = None
    ) -> AsyncIterator[Lease]:
        """Count answers, all or none, and lease them a model within the context.

        Args:
            answers: The number of answers.
            choice: The model.
            check: As in ``Host.lease``.

        Raises:
            ApiError: 400 for more answers than can be admitted; 503 if there is no place for them,
                or the server shuts down; or as ``Host.lease``.
            ProxyError: As ``check`` raises it.
        """
        recordings = self._recordings if choice.transcribes else contextlib.nullcontext()
        with self._counted(answers):
            async with self._host.lease(choice, check) as lease, recordings:
                # The server may have begun to shut down meanwhile.
                self._check_open()
                yield lease

    @contextmanager
    def cancellable(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Let ``cancel_all`` call ``cancel`` within the context."""
        self._cancels.add(cancel)
        if self._is_ended:
            # The answers were still being checked when all others were cancelled.
            cancel()
        try:
            yield
        finally:
            self._cancels.discard(cancel)

    def close(self) -> None:
        """Refuse new requests."""
        self.is_closed = self._host.is_draining = True

    def cancel_all(self) -> None:
        """Cancel all answers; each ends at its next token."""
        self._is_ended = self.is_closed
        for cancel in list(self._cancels):
            cancel()

    @contextmanager
    def _counted(self, answers: int) -> Iterator[None]:
        size = self._max_running + self._max_waiting
        if answers > size:
            raise ApiError(
                400, f"{answers} answers are too many; the maximum is {size}", code="too_many"
            )
        self._check_open()
        if self._admitted + answers > size:
            self._metrics.refused.inc(answers)
            raise ApiError(
                503,
                f"the queue is full: {self.running} answers run, {self.waiting} wait",
                code="queue_full",
                headers={"Retry-After": str(self._retry_seconds())},
            )
        self._admitted += answers
        try:
            yield
        finally:
            self._admitted -= answers

    def _check_open(self) -> None:
        if self.is_closed:
            raise shutting_down()

    def _retry_seconds(self) -> int:
        rounds = (self._admitted - self._max_running) / self._max_running + 1
        seconds = math.ceil(rounds * (self._metrics.mean_answer_seconds or 1.0))
        return min(_MAX_RETRY_SECONDS, max(1, seconds))
