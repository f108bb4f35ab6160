"""Limits on connections: time for the head of a request, number."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from live_server import Live, serving_engine
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from proxy_engine import InferenceEngine
from proxy_engine.server.connections import limited_protocol

CHAT = "/v1/chat/completions"
HEAD = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def impatient(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A server with a short limit for headers and a long one for bodies."""
    with serving_engine(roomy_engine, header_seconds=0.3) as live:
        yield live


@contextlib.contextmanager
def connected(live: Live) -> Iterator[socket.socket]:
    address = httpx.URL(live.url)
    with socket.create_connection((address.host, address.port or 0), timeout=20) as connection:
        yield connection


def received(connection: socket.socket) -> bytes:
    """Return the bytes received until the server closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(4096):
            found += data
    return found


def dribble(connection: socket.socket, data: bytes, over: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not over.wait(0.02):
            connection.sendall(data)


def test_endless_headers_time_out(impatient: Live) -> None:
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(impatient)) for _ in range(50)]
        over = threading.Event()
        for connection in connections:
            connection.sendall(f"{HEAD}X-Long: ".encode())
        # Single bytes do not restart the timer.
        threading.Thread(target=dribble, args=(connections[0], b"x", over), daemon=True).start()
        replies = [received(connection) for connection in connections]
        over.set()
    for reply in replies[1:]:
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["code"] == "timeout"
    assert httpx.get(f"{impatient.url}/health").status_code == 200


def test_silent_connection_is_closed_without_a_response(impatient: Live) -> None:
    with connected(impatient) as connection:
        assert received(connection) == b""


def test_headers_of_a_second_request_time_out(impatient: Live) -> None:
    with connected(impatient) as connection:
        connection.sendall(HEALTH)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        connection.sendall(HEAD.encode())
        assert b"HTTP/1.1 408 " in received(connection)


def test_endless_body_after_an_early_response_times_out(impatient: Live) -> None:
    with connected(impatient) as connection:
        # Too large: the response precedes the body.
        connection.sendall(f"{HEAD}Content-Length: 999999999\r\n\r\n".encode())
        over = threading.Event()
        sender = threading.Thread(target=dribble, args=(connection, b" ", over), daemon=True)
        sender.start()
        assert received(connection).startswith(b"HTTP/1.1 413 ")
        over.set()
        sender.join()


def test_header_timeout_does_not_limit_bodies_and_answers(impatient: Live) -> None:
    body = json.dumps(
        {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "stream": True}
    ).encode()
    with connected(impatient) as connection:
        connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body[:9])
        # Longer than the limit for headers.
        time.sleep(0.5)
        connection.sendall(body[9:])
        reply = b""
        while b"[DONE]" not in reply:
            reply += connection.recv(4096)
        assert reply.startswith(b"HTTP/1.1 200 ")
        # The connection serves another request.
        connection.sendall(HEALTH)
        while b'"status"' not in reply:
            reply += connection.recv(4096)


def test_connection_beyond_the_limit_closes_the_longest_idle_one() -> None:
    closed: list[int] = []

    class Transport(asyncio.Transport):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def close(self) -> None:
            closed.append(self.number)

        def is_closing(self) -> bool:
            return self.number in closed

    async def main() -> None:
        config = uvicorn.Config(app=lambda: None, log_config=None)
        config.load()
        state = ServerState()
        protocol = limited_protocol(10, max_connections=3)

        def opened(number: int) -> H11Protocol:
            made = protocol(config, state, {})
            made.connection_made(Transport(number))
            return made

        first = opened(1)
        # A connection that runs a request is not idle.
        first._stop_timer()  # type: ignore[attr-defined]
        connections = [first, *map(opened, range(2, 8))]
        assert closed == [2, 3, 4, 5]
        assert len(state.connections) == 3
        for connection in connections:
            connection.connection_lost(None)
        assert not state.connections

    asyncio.run(main())


def test_unlimited_file_descriptors_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)
    assert limited_protocol(1).max_connections > 1000  # type: ignore[attr-defined]
