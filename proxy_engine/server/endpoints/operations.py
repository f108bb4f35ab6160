"""``/v1/models``, ``/health``, ``/metrics``, and the page to try the server."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any, get_args

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from ...models.files import Modality
from ..encoders import Fields
from ..errors import ApiError, ErrorResponse
from ..models import KnownModel
from ..running import Services, ServicesOfRequest
from ..streaming import json_reply

router = APIRouter()

_REFUSED: dict[int | str, dict[str, Any]] = {401: {"model": ErrorResponse}}


@router.get("/v1/models", responses=_REFUSED)
async def list_models(services: ServicesOfRequest) -> Response:
    """Return the models on this computer that can be loaded, beginning with the model in memory."""
    models = [_described(model, services) for model in await loadable_models(services)]
    models.sort(key=lambda model: not model["loaded"])
    return json_reply({"object": "list", "data": models})


@router.get("/v1/models/{id:path}", responses={**_REFUSED, 404: {"model": ErrorResponse}})
async def get_model(id: str, services: ServicesOfRequest) -> Response:
    """Return one model."""
    model = next((model for model in await loadable_models(services) if model.name == id), None)
    model = model or await asyncio.to_thread(_find_loadable, id, services)
    if model is None:
        raise ApiError(404, f"model {id!r} not found", code="model_not_found", param="model")
    return json_reply(_described(model, services))


async def loadable_models(services: Services) -> list[KnownModel]:
    """Return the models that can be loaded, beginning with the model in memory."""
    models = await asyncio.to_thread(_on_this_computer, services)
    current = services.host.current
    if current is None:
        return models
    return [current.model, *(model for model in models if model.name != current.model.name)]


def _on_this_computer(services: Services) -> list[KnownModel]:
    return [model for model in services.registry.models() if services.host.is_loadable(model)]


def _find_loadable(name: str, services: Services) -> KnownModel | None:
    model = services.registry.find(name)
    return model if model is not None and services.host.is_loadable(model) else None


def _described(model: KnownModel, services: Services) -> Fields:
    """Return OpenAI's fields of a model, and further fields.

    ``max_model_len`` is vLLM's name for the context length, and ``input_modalities`` are the kinds
    of content that the model reads.
    """
    current = services.host.current
    is_loaded = current is not None and current.model.name == model.name
    length, modalities = model.context_length, model.input_modalities
    if current is not None and is_loaded:
        engine = current.engine
        length, modalities = engine.context_length, engine.input_modalities
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "local",
        "context_length": length,
        "max_model_len": length,
        "weights_bytes": model.weights_bytes,
        "input_modalities": sorted(modalities, key=get_args(Modality).index),
        "loaded": is_loaded,
    }


# The page is a single file that connects only to this server and cannot be framed.
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; img-src blob:; form-action 'none'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@router.get("/health")
async def health(services: ServicesOfRequest) -> Response:
    """Return 200 while the server accepts requests, else 503.

    The ``status`` is ``ok``, ``shutting_down``, ``loading`` while a model is loaded and requests
    wait for it, or ``no_model`` if the next request loads one.
    """
    current = services.host.current
    draft = None if current is None else current.model.draft
    adapter = None if current is None else current.model.adapter
    status = "ok"
    if services.admission.is_closed:
        status = "shutting_down"
    elif services.host.is_loading:
        status = "loading"
    elif current is None:
        status = "no_model"
    body = {
        "status": status,
        "model": None if current is None else current.model.name,
        "draft_model": None if draft is None else draft.name,
        "adapter": None if adapter is None else adapter.name,
        "running": services.admission.running,
        "waiting": services.admission.waiting,
    }
    return json_reply(body, 503 if status == "shutting_down" else 200)


@router.get("/metrics", response_class=Response)
async def metrics(services: ServicesOfRequest) -> Response:
    """Return the metrics in Prometheus' text format."""
    return Response(services.metrics.render(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the page to try the server."""
    text = files("proxy_engine.server").joinpath("page.html").read_text(encoding="utf-8")
    return Response(text, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)
