"""OpenAI's clients on an engine in the same process, without a port and without a server.

``engine.openai()`` and ``engine.async_openai()`` return them. A framework that makes its own client
takes ``http_client(engine)`` or ``async_http_client(engine)``.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import httpx2

from ..engine.inference_engine import InferenceEngine
from ..runtime.extras import requires_extra

with requires_extra("openai", purpose="engine.openai()"):
    import openai

    from .application import API_KEY, BASE_URL, Application, AsyncBody, Body, HttpRequest

# A request that fails in the same process fails again.
_CLIENT_OPTIONS: dict[str, Any] = {"base_url": BASE_URL, "api_key": API_KEY, "max_retries": 0}


class EngineTransport(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """A transport of ``httpx`` and ``httpx2``, synchronous and asynchronous.

    A stream of the response receives each token as it is generated. Closing it cancels the request.
    There is no connection, so closing the transport does nothing.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: InferenceEngine) -> None:
        self._application: Application = engine.application

    def handle_request(self, request: Any) -> Any:
        """Return the response to a request of ``httpx`` or ``httpx2``, of the same library."""
        library = _library(request)
        head, body = self._application.send(_call(request, request.read()))
        stream = _streams(library)[0](body)
        return library.Response(head["status"], headers=head["headers"], stream=stream)

    async def handle_async_request(self, request: Any) -> Any:
        """:meth:`handle_request` for event loops."""
        library = _library(request)
        head, body = await self._application.asend(_call(request, await request.aread()))
        stream = _streams(library)[1](body)
        return library.Response(head["status"], headers=head["headers"], stream=stream)


def http_client(engine: InferenceEngine) -> openai.DefaultHttpxClient:
    """Return a client of the HTTP library of ``openai``, all of whose requests go to the engine."""
    # Both libraries call its methods; `httpx` is not the one of every version of `openai`.
    transport: Any = EngineTransport(engine)
    return openai.DefaultHttpxClient(transport=transport)


def async_http_client(engine: InferenceEngine) -> openai.DefaultAsyncHttpxClient:
    """:func:`http_client` for event loops."""
    transport: Any = EngineTransport(engine)
    return openai.DefaultAsyncHttpxClient(transport=transport)


def openai_client(engine: InferenceEngine, **options: Any) -> openai.OpenAI:
    """Return OpenAI's client; the options are its own."""
    return openai.OpenAI(**{"http_client": http_client(engine), **_CLIENT_OPTIONS, **options})


def async_openai_client(engine: InferenceEngine, **options: Any) -> openai.AsyncOpenAI:
    """Return OpenAI's client for event loops; the options are its own."""
    connection = {"http_client": async_http_client(engine), **_CLIENT_OPTIONS}
    return openai.AsyncOpenAI(**{**connection, **options})


def _library(request: Any) -> Any:
    """Return the package of a request: ``httpx`` or ``httpx2``."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def _call(request: Any, body: bytes) -> HttpRequest:
    headers = [(name.lower(), value) for name, value in request.headers.raw]
    return HttpRequest(request.method, request.url.raw_path, headers, body)


@cache
def _streams(library: Any) -> tuple[type[Any], type[Any]]:
    """Return the classes of bodies, which the library requires to be its own."""

    class BodyStream(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, body: Body) -> None:
            self._body = body

        def __iter__(self) -> Body:
            return self._body

        def close(self) -> None:
            self._body.close()

    class AsyncBodyStream(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, body: AsyncBody) -> None:
            self._body = body

        def __aiter__(self) -> AsyncBody:
            return self._body

        async def aclose(self) -> None:
            await self._body.aclose()

    return BodyStream, AsyncBodyStream
