"""The one model of an application whose engine belongs to somebody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from ..checks.texts import short_repr
from ..engine.inference_engine import InferenceEngine
from .errors import ApiError
from .known_models import KnownModel
from .model_host import CheckModel, Lease
from .model_registry import DEFAULT_MODEL
from .model_selection import check_suitable


class EngineHost:
    """Leases an engine that it neither loads nor closes. For any number of event loops.

    Attributes:
        current: The engine, with its ``model_name`` as the name of the model.
        is_loading: ``False``.
        is_draining: Has no effect: the owner of the engine decides.
    """

    is_loading = False

    def __init__(self, engine: InferenceEngine) -> None:
        model = KnownModel(
            engine.model_name,
            engine.model_name,
            context_length=engine.context_length,
            input_modalities=engine.input_modalities,
        )
        self.current = Lease(model, engine)
        self.is_draining = False

    def start(self) -> None:
        """Do nothing: the engine is never unloaded."""

    async def close(self) -> None:
        """Do nothing: the owner closes the engine."""

    def is_loadable(self, model: KnownModel) -> bool:
        """Return ``False``: no other model is loaded."""
        return False

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
        """Yield the engine, whatever the name of the model; otherwise as ``ModelHost.lease``.

        Raises:
            ApiError: 404 for the name of another draft model, or of an adapter; 400 if the model
                cannot serve the request; 503 if the engine is closed.
        """
        model, engine = self.current.model, self.current.engine
        asked = {"draft_model": (draft, engine.draft_model_name), "adapters": (adapter, None)}
        for param, (wanted, own) in asked.items():
            if wanted and wanted not in (own, DEFAULT_MODEL):
                what = f"{short_repr(wanted)} not found; this engine has {own!r}"
                raise ApiError(404, what, code="model_not_found", param=param)
        if engine.is_closed:
            raise ApiError(503, "the engine is closed", code="engine_closed")
        check_suitable(model.name, model.transcribes, transcribes)
        yield replace(self.current, asked_name=name or None)
