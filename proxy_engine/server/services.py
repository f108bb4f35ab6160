"""The objects that all endpoints of an application share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from .host import Host
from .metrics import Metrics
from .models import ModelRegistry
from .response_store import ResponseStore
from .running import Queue, Running
from .settings import ServerSettings
from .unknown_fields import UnknownFields


@dataclass(slots=True)
class Services:
    """The shared objects, and the answers that run.

    ``recordings`` limits the recordings that are in memory.
    """

    settings: ServerSettings
    registry: ModelRegistry
    host: Host
    queue: Queue
    metrics: Metrics
    responses: ResponseStore
    recordings: asyncio.Semaphore
    unknown_fields: UnknownFields
    running: set[Running] = field(default_factory=set)

    def drain(self) -> None:
        """Refuse new requests."""
        self.queue.is_closed = True
        self.host.is_draining = True

    def end_running(self) -> None:
        """Cancel all answers; each ends at its next token."""
        for answers in list(self.running):
            answers.end()


# `async` although it awaits nothing: FastAPI calls other functions on a thread.
async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOfRequest = Annotated[Services, Depends(_services)]
