"""The ASGI application: its endpoints, middleware, error handlers and shared objects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from fastapi import FastAPI

from ..engine.inference_engine import InferenceEngine
from ..options.generation import GenerationOptions
from .admission import Admission, Host, Lease
from .endpoints import (
    choices,
    messages,
    ollama,
    operations,
    responses,
    transcriptions,
)
from .errors import add_error_handlers
from .load_checks import LoadChecks, MemoryGate, used_bytes
from .metrics import Metrics
from .middleware import middleware_for
from .model_host import Load, ModelHost
from .models import KnownModel, ModelRegistry
from .response_items import ResponseStore
from .running import Services
from .settings import ServerSettings
from .unknown_fields import UnknownFields

_logger = logging.getLogger(__name__)


def load_engine(model: KnownModel, settings: ServerSettings) -> InferenceEngine:
    """Load a model and its draft model, and compile the model's kernels.

    Raises:
        ModelError: One of them cannot be loaded.
        VocabularyError: Its tokenizer cannot be read.
    """
    engine = InferenceEngine(
        model.source,
        options=GenerationOptions(speculation=settings.speculation),
        on_progress=_logger.info,
        batch_size=settings.max_running,
        max_compile_seconds=settings.max_compile_seconds,
        draft_model=model.draft_source,
        num_draft_tokens=None if model.draft is None else settings.num_draft_tokens,
        tool_format=settings.tool_format,
        # The caches of speech models are bounded by a window of 30 seconds.
        cache=None if model.transcribes else settings.cache_options(),
        media=settings.media_options(),
        **settings.load_arguments(
            model.adapter,
            transcribes=model.transcribes,
        ),
    )
    engine.warm_up()
    return engine


def create_app(
    settings: ServerSettings | None = None,
    *,
    engine: InferenceEngine | None = None,
    load: Load | None = None,
    host: Host | None = None,
) -> FastAPI:
    """Return the application.

    Args:
        settings: The settings; by default from the environment.
        engine: The engine of the default model, closed with the application. Without it, the first
            request that needs a model loads one.
        load: Loads a model; by default ``load_engine``.
        host: Has an engine that stays the caller's, in place of ``engine`` and ``load``.
    """
    settings = settings or ServerSettings()
    services = _services(settings, engine, load or partial(load_engine, settings=settings), host)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services.host.start()
        yield
        services.admission.close()
        services.admission.cancel_all()
        await services.host.close()

    app = FastAPI(
        title="Proxy Engine",
        description="Structured generation through OpenAI's interfaces.",
        lifespan=lifespan,
        middleware=middleware_for(
            settings, services.metrics.requests, partial(_reads_media, services)
        ),
        redoc_url=None,
    )
    app.state.services = services
    endpoints = (choices, responses, messages, ollama, transcriptions, operations)
    for module in endpoints:
        app.include_router(module.router)
    app.include_router(choices.short_router)
    add_error_handlers(app)
    return app


def registry_of(settings: ServerSettings) -> ModelRegistry:
    """Return the models and adapters that the settings name."""
    return ModelRegistry(
        settings.model,
        settings.model_directories,
        settings.aliases,
        draft=settings.draft_model,
        adapter=settings.adapter_path,
        adapter_directories=settings.adapter_directories,
        trusts_code=settings.trust_remote_code,
    )


async def _reads_media(services: Services) -> bool:
    """Whether any model that a request can use reads images or recordings."""
    current = services.host.current
    if current is not None and current.engine.input_modalities > {"text"}:
        return True
    models = await asyncio.to_thread(services.registry.models)
    return any(model.input_modalities > {"text"} for model in models)


def _services(
    settings: ServerSettings,
    engine: InferenceEngine | None,
    load: Load,
    given_host: Host | None = None,
) -> Services:
    metrics = Metrics()
    registry = registry_of(settings)
    current = None
    if engine is not None:
        default = replace(registry.default(), input_modalities=engine.input_modalities)
        current = Lease(default, engine)
    host = given_host or ModelHost(
        registry,
        load,
        metrics,
        memory=MemoryGate(settings.memory_limit_bytes),
        checks=LoadChecks(settings.cache_options(), trusts_code=settings.trust_remote_code),
        current=current,
        idle_seconds=settings.idle_seconds,
    )
    admission = Admission(
        host, metrics, max_running=settings.max_running, max_waiting=settings.max_queue
    )
    services = Services(
        settings,
        registry,
        host,
        admission,
        metrics,
        ResponseStore(settings.stored_responses),
        UnknownFields(settings.unknown_fields),
    )
    metrics.watch("num_requests_running", "Answers that run.", lambda: admission.running)
    metrics.watch("num_requests_waiting", "Answers that wait.", lambda: admission.waiting)
    metrics.watch("memory_bytes", "Memory of all MLX arrays, in bytes.", used_bytes)
    metrics.watch(
        "model_loaded", "1 if a model is in memory, else 0.", lambda: host.current is not None
    )
    return services
