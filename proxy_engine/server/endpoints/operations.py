"""``/health``, ``/metrics``, and the page to try the server."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from ..services import ServicesOfRequest
from ..streaming import json_reply

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

router = APIRouter()


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
    if services.queue.is_closed:
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
        "running": services.queue.running,
        "waiting": services.queue.waiting,
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
