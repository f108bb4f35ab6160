"""``GET /v1/models``."""

from __future__ import annotations

import asyncio
from typing import Literal, get_args

from fastapi import APIRouter, Response

from ...models.files import Modality
from ..errors import ApiError, ErrorResponse
from ..known_models import KnownModel
from ..schemas.common import ResponseModel, json_reply
from ..services import Services, ServicesOfRequest

router = APIRouter(prefix="/v1", responses={401: {"model": ErrorResponse}})


class ModelPermission(ResponseModel):
    """A member of OpenAI's earlier models, which some clients read."""

    id: str
    object: Literal["model_permission"]
    created: int
    allow_create_engine: bool
    allow_sampling: bool
    allow_logprobs: bool
    allow_search_indices: bool
    allow_view: bool
    allow_fine_tuning: bool
    organization: str
    group: str | None
    is_blocking: bool


class Model(ResponseModel):
    """A model.

    Besides OpenAI's fields, ``max_model_len`` is vLLM's name for the context length, and
    ``input_modalities`` are the kinds of content that the model reads.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    permission: list[ModelPermission]
    context_length: int | None
    max_model_len: int | None
    weights_bytes: int
    input_modalities: list[Modality]
    loaded: bool


class ModelList(ResponseModel):
    """All models that can be loaded."""

    object: Literal["list"]
    data: list[Model]


@router.get("/models", response_model=ModelList)
async def list_models(services: ServicesOfRequest) -> Response:
    """Return the models on this computer that can be loaded, the one in memory first."""
    models = [_described(model, services) for model in await _loadable(services)]
    models.sort(key=lambda model: not model.loaded)
    return json_reply(ModelList(object="list", data=models))


@router.get("/models/{id:path}", response_model=Model, responses={404: {"model": ErrorResponse}})
async def get_model(id: str, services: ServicesOfRequest) -> Response:
    """Return one model."""
    model = next((model for model in await _loadable(services) if model.name == id), None)
    model = model or await asyncio.to_thread(_find_loadable, id, services)
    if model is None:
        raise ApiError(404, f"model {id!r} not found", code="model_not_found", param="model")
    return json_reply(_described(model, services))


async def _loadable(services: Services) -> list[KnownModel]:
    models = await asyncio.to_thread(_loadable_models, services)
    current = services.host.current
    if current is None:
        return models
    return [current.model, *(model for model in models if model.name != current.model.name)]


def _loadable_models(services: Services) -> list[KnownModel]:
    return [model for model in services.registry.models() if services.host.is_loadable(model)]


def _permission(model: KnownModel) -> ModelPermission:
    return ModelPermission(
        id=f"modelperm-{model.name}",
        object="model_permission",
        created=model.created,
        allow_create_engine=False,
        allow_sampling=True,
        allow_logprobs=True,
        allow_search_indices=False,
        allow_view=True,
        allow_fine_tuning=False,
        organization="*",
        group=None,
        is_blocking=False,
    )


def _find_loadable(name: str, services: Services) -> KnownModel | None:
    model = services.registry.find(name)
    return model if model is not None and services.host.is_loadable(model) else None


def _described(model: KnownModel, services: Services) -> Model:
    current = services.host.current
    is_loaded = current is not None and current.model.name == model.name
    length, modalities = model.context_length, model.input_modalities
    if current is not None and is_loaded:
        engine = current.engine
        length, modalities = engine.context_length, engine.input_modalities
    return Model(
        id=model.name,
        object="model",
        created=model.created,
        owned_by="local",
        root=model.name,
        parent=None,
        permission=[_permission(model)],
        context_length=length,
        max_model_len=length,
        weights_bytes=model.weights_bytes,
        input_modalities=sorted(modalities, key=get_args(Modality).index),
        loaded=is_loaded,
    )
