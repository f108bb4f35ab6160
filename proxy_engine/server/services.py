"""What all endpoints work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from .metrics import Metrics
from .model_host import ModelHost
from .model_registry import ModelRegistry
from .queueing import Queue
from .response_store import ResponseStore
from .running import Running
from .settings import ServerSettings

__all__ = ["Services", "ServicesOfRequest"]


@dataclass(slots=True)
class Services:
    """One of each, for one application. ``running``: what is being answered."""

    settings: ServerSettings
    registry: ModelRegistry
    host: ModelHost
    queue: Queue
    metrics: Metrics
    responses: ResponseStore
    running: set[Running] = field(default_factory=set)

    def drain(self) -> None:
        """Take nothing more."""
        self.queue.is_closed = True
        self.host.is_draining = True

    def end_running(self) -> None:
        """Have everything that runs end at its next token."""
        for running in list(self.running):
            running.end()


# Nothing is waited for; but what is not `async` costs each request a thread.
async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOfRequest = Annotated[Services, Depends(_services)]
