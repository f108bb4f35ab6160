"""``GET /v1/models``."""

from __future__ import annotations

from typing import Literal

from .common import ResponseModel

__all__ = ["Model", "ModelList"]


class Model(ResponseModel):
    """A model. Beside OpenAI's fields: ``max_model_len`` is vLLM's name for the context length."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_length: int | None
    max_model_len: int | None
    weights_bytes: int
    loaded: bool


class ModelList(ResponseModel):
    """All of them."""

    object: Literal["list"]
    data: list[Model]
