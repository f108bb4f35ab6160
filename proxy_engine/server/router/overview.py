"""Endpoints of the router that combine the answers of all workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import h11
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .exchange import Exchange, WorkerLostError
from .forwarding import Forwarder, workers_starting
from .workers import Workers

_SECONDS = 5.0
_PREFIX = "proxy_engine"
_ROUTER = "router"
_LABEL = "worker"


class Overview:
    """The state of all workers together.

    Args:
        workers: The workers.
        forwarder: What forwards requests to them.
    """

    def __init__(self, workers: Workers, forwarder: Forwarder) -> None:
        self._workers = workers
        self._forwarder = forwarder
        self._own = CollectorRegistry()
        self.requests = Counter(
            "requests", "HTTP requests.", ("path", "status"), namespace=_PREFIX, registry=self._own
        )

    @property
    def routes(self) -> list[Route]:
        """The endpoints."""
        return [
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/v1/models", self.models, methods=["GET"]),
        ]

    async def health(self, request: Request) -> Response:
        """Return 200 while a worker accepts requests, else 503."""
        replies = await self._ask("/health")
        found = {number: json.loads(body) for number, body in replies.items()}
        each = [
            {"worker": number, **found.get(number, {"status": "loading"})}
            for number in range(len(self._workers.queues))
        ]
        status = "loading" if not found else next(iter(found.values()))["status"]
        if any(one["status"] == "ok" for one in found.values()):
            status = "ok"
        if self._workers.is_closed:
            status = "shutting_down"
        first: dict[str, Any] = next(iter(found.values()), {})
        body = {
            "status": status,
            "model": first.get("model"),
            "draft_model": first.get("draft_model"),
            "adapter": first.get("adapter"),
            "running": sum(one["running"] for one in found.values()),
            "waiting": sum(one["waiting"] for one in found.values()),
            "workers": each,
        }
        return JSONResponse(body, 200 if found and not self._workers.is_closed else 503)

    async def models(self, request: Request) -> Response:
        """Return the models of all workers, those in memory of at least one first."""
        if not self._workers.ready:
            raise workers_starting()
        models: dict[str, Any] = {}
        for body in (await self._ask("/v1/models")).values():
            for model in json.loads(body)["data"]:
                if model["loaded"] or model["id"] not in models:
                    models[model["id"]] = model
        data = sorted(models.values(), key=lambda model: not model["loaded"])
        return JSONResponse({"object": "list", "data": data})

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of all workers and of the router, with the label ``worker``."""
        replies = await self._ask("/metrics")
        registry = CollectorRegistry()
        registry.register(_Families([*self._labelled(replies), *self._metrics_of_workers()]))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _labelled(self, replies: dict[int, bytes]) -> Iterable[Metric]:
        texts = {_ROUTER: generate_latest(self._own)}
        texts |= {str(number): body for number, body in replies.items()}
        families: dict[str, Metric] = {}
        for name, text in texts.items():
            for found in text_string_to_metric_families(text.decode()):
                family = families.setdefault(
                    found.name, Metric(found.name, found.documentation, found.type)
                )
                for sample in found.samples:
                    labels = {**sample.labels, _LABEL: name}
                    family.samples.append(sample._replace(labels=labels))
        return families.values()

    def _metrics_of_workers(self) -> Iterator[Metric]:
        ready = GaugeMetricFamily(
            f"{_PREFIX}_worker_ready", "1 if the worker accepts requests, else 0.", labels=[_LABEL]
        )
        queue = GaugeMetricFamily(
            f"{_PREFIX}_worker_requests", "Requests at the worker.", labels=[_LABEL]
        )
        starts = CounterMetricFamily(
            f"{_PREFIX}_worker_starts", "Starts of the worker's process.", labels=[_LABEL]
        )
        for number, count in enumerate(self._workers.starts):
            ready.add_metric([str(number)], number in self._workers.ready)
            queue.add_metric([str(number)], self._workers.queues[number])
            starts.add_metric([str(number)], count)
        yield from (ready, queue, starts)
        yield CounterMetricFamily(
            f"{_PREFIX}_requests_repeated",
            "Requests that were run again because their worker ended.",
            value=self._forwarder.repeated,
        )

    async def _ask(self, path: str) -> dict[int, bytes]:
        """Return the response of each worker that is ready, by its number."""
        numbers = sorted(self._workers.ready)
        asked = (_get(self._workers.sockets[number], path) for number in numbers)
        replies = zip(numbers, await asyncio.gather(*asked), strict=True)
        return {number: body for number, body in replies if body is not None}


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def _get(socket_path: Path, path: str) -> bytes | None:
    """Return the body of a worker's response; ``None`` if it does not answer in time."""
    try:
        async with asyncio.timeout(_SECONDS):
            exchange = await Exchange.connect(socket_path)
            try:
                headers = [("host", "localhost"), ("connection", "close")]
                head = h11.Request(method="GET", target=path, headers=headers)
                await exchange.send(head, h11.EndOfMessage())
                await exchange.response()
                return b"".join([piece async for piece in exchange.pieces()])
            finally:
                exchange.close()
    except (WorkerLostError, TimeoutError):
        return None
