"""The model that answers requests, as they lease it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from ..checks import short_repr
from ..engine.inference_engine import InferenceEngine
from .errors import ApiError, unsuitable_model
from .models import DEFAULT_MODEL, KnownModel, ModelChoice

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
