"""How the server is: ``/health``, ``/metrics``, and the page to try it."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

from fastapi import APIRouter, Response

from ..replies import json_reply
from ..schemas.common import ResponseModel
from ..services import ServicesOfRequest

__all__ = ["router"]

# The page is one file, speaks with this server alone, and stands in no other page.
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}

router = APIRouter()


class Health(ResponseModel):
    """How the server is. ``loading``: a model is on its way, and requests wait for it."""

    status: Literal["ok", "loading", "no_model", "shutting_down"]
    model: str | None
    running: int
    waiting: int


@router.get("/health", response_model=Health, responses={503: {"model": Health}})
async def health(services: ServicesOfRequest) -> Response:
    """Return 200 while requests are taken, else 503."""
    current = services.host.current
    status: Literal["ok", "loading", "no_model", "shutting_down"] = "ok"
    if services.queue.is_closed:
        status = "shutting_down"
    elif services.host.is_loading:
        status = "loading"
    elif current is None:
        # The next request loads one.
        status = "no_model"
    body = Health(
        status=status,
        model=None if current is None else current.model.name,
        running=services.queue.running,
        waiting=services.queue.waiting,
    )
    return json_reply(body, 503 if status == "shutting_down" else 200)


@router.get("/metrics", response_class=Response)
async def metrics(services: ServicesOfRequest) -> Response:
    """Return the counters, as Prometheus reads them."""
    return Response(
        services.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the page to try the server with."""
    text = files("proxy_engine.server").joinpath("page.html").read_text(encoding="utf-8")
    return Response(text, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)
