"""``GET /v1/models``."""

from __future__ import annotations

import asyncio
from typing import get_args

from fastapi import APIRouter, Response

from ...models.files import Modality
from ..encoders.encoder import Fields
from ..errors import ApiError, ErrorResponse
from ..models import KnownModel
from ..services import Services, ServicesOfRequest
from ..streaming import json_reply

router = APIRouter(prefix="/v1", responses={401: {"model": ErrorResponse}})


@router.get("/models")
async def list_models(services: ServicesOfRequest) -> Response:
    """Return the models on this computer that can be loaded, the one in memory first."""
    models = [_described(model, services) for model in await loadable_models(services)]
    models.sort(key=lambda model: not model["loaded"])
    return json_reply({"object": "list", "data": models})


@router.get("/models/{id:path}", responses={404: {"model": ErrorResponse}})
async def get_model(id: str, services: ServicesOfRequest) -> Response:
    """Return one model."""
    model = next((model for model in await loadable_models(services) if model.name == id), None)
    model = model or await asyncio.to_thread(_find_loadable, id, services)
    if model is None:
        raise ApiError(404, f"model {id!r} not found", code="model_not_found", param="model")
    return json_reply(_described(model, services))


async def loadable_models(services: Services) -> list[KnownModel]:
    """Return the models that can be loaded, the one in memory first."""
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
    """Return OpenAI's fields of a model and further ones.

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
