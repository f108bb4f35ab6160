"""A server of ours that runs on a thread, for tests."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import anthropic
import httpx
import openai
import uvicorn
from fastapi import FastAPI

from proxy_engine import InferenceEngine
from proxy_engine.server.app import create_app
from proxy_engine.server.running import Services
from proxy_engine.server.serve import limited_protocol
from proxy_engine.server.settings import ServerSettings

# Clients read the certificates of all authorities otherwise, which takes longer than most requests.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True)
class Live:
    """A server that runs."""

    url: str
    app: FastAPI

    @property
    def services(self) -> Services:
        services: Services = self.app.state.services
        return services

    def client(self, key: str = "none") -> openai.OpenAI:
        http = openai.DefaultHttpxClient(verify=NO_AUTHORITIES)
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60, http_client=http
        )

    def claude(self) -> anthropic.Anthropic:
        http = anthropic.DefaultHttpxClient(verify=NO_AUTHORITIES)
        return anthropic.Anthropic(
            base_url=self.url, api_key="none", max_retries=0, timeout=60, http_client=http
        )

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60, verify=NO_AUTHORITIES)


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[Live]:
    """Run ``app`` on a thread, at a free port."""
    services: Services | None = getattr(app.state, "services", None)
    settings = make_settings() if services is None else services.settings
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=0,
        http=limited_protocol(settings.header_seconds, settings.max_connections),
        log_config=None,
        access_log=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Live(f"http://127.0.0.1:{port}", app)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def make_settings(**given: object) -> ServerSettings:
    """Settings that nothing outside has a say in."""
    return ServerSettings(_env_file=None, **given)  # type: ignore[arg-type, call-arg]


@contextlib.contextmanager
def serving_engine(engine: InferenceEngine, **given: object) -> Iterator[Live]:
    """Serve an engine that outlives the server."""
    app = create_app(make_settings(**given), engine=engine)
    # Shared by all tests, so no test closes it.
    app.state.services.host.close = _nothing
    with serving(app) as live:
        yield live


async def _nothing() -> None:
    pass
