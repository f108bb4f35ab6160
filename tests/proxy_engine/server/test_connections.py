"""Limits on connections and bodies: time for the head of a request, number, size."""

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
from proxy_engine.server.models import KnownModel
from proxy_engine.server.serve import limited_protocol

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


def test_number_of_connections_is_limited(roomy_engine: InferenceEngine) -> None:
    with serving_engine(roomy_engine, max_connections=2) as live, contextlib.ExitStack() as stack:
        first, second, third = [stack.enter_context(connected(live)) for _ in range(3)]
        assert received(first) == b""
        for connection in (second, third):
            connection.sendall(HEALTH)
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def sent_body(live: Live, head: str, body: bytes = b"") -> socket.socket:
    """Return a connection on which a request has begun."""
    address = httpx.URL(live.url)
    connection = socket.create_connection((address.host, address.port or 0), timeout=20)
    connection.sendall(f"{HEAD}{head}\r\n\r\n".encode() + body)
    return connection


def error_of(connection: socket.socket) -> bytes:
    """Return the reply up to the end of its error."""
    found = b""
    while b"}}" not in found and (data := connection.recv(4096)):
        found += data
    return found


def test_large_bodies_share_a_bound(roomy_engine: InferenceEngine) -> None:
    limits = {"max_all_bodies_bytes": 1_000_000, "max_body_bytes": 2_000_000, "body_seconds": 2}
    length = "Content-Length: 600000"
    chunk = b"%x\r\n%b\r\n" % (600_000, b" " * 600_000)
    with serving_engine(roomy_engine, **limits) as live, contextlib.ExitStack() as stack:
        # A slow one, which is counted before its body arrives, up to its time limit.
        slow = stack.enter_context(sent_body(live, length, b"{"))
        for refused in (
            sent_body(live, length),
            sent_body(live, "Transfer-Encoding: chunked", chunk),
        ):
            with refused:
                reply = error_of(refused)
            assert reply.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 2" in reply.lower()
            assert b'"too_many_bodies"' in reply
        # It would never fit.
        with sent_body(live, "Content-Length: 1000001") as refused:
            assert error_of(refused).startswith(b"HTTP/1.1 413 ")
        hello = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
        with live.http() as http:
            # Small bodies do not count.
            assert http.post(CHAT, json=hello).status_code == 200
            assert error_of(slow).startswith(b"HTTP/1.1 408 ")
            # Neither bodies of clients that are gone nor answered ones are counted.
            for _ in range(3):
                sent_body(live, length, b"{").close()
                deadline = time.monotonic() + 10
                while http.post(CHAT, content=b" " * 900_000).status_code == 503:
                    assert time.monotonic() < deadline
                with sent_body(live, "Transfer-Encoding: chunked", chunk + b"0\r\n\r\n") as other:
                    assert b'"invalid_json"' in error_of(other)


def test_recordings_in_forms_have_a_separate_bound(roomy_engine: InferenceEngine) -> None:
    limits = {"max_all_bodies_bytes": 100_000, "max_audio_bytes": 100_000, "max_running": 1}
    head = "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\n"

    def sent(live: Live, kind: str, size: int) -> socket.socket:
        address = httpx.URL(live.url)
        connection = socket.create_connection((address.host, address.port or 0), timeout=20)
        length = f"Content-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
        connection.sendall((head + length).encode())
        return connection

    form = "multipart/form-data; boundary=x"
    with serving_engine(roomy_engine, **limits) as live, sent(live, form, 8_000_000):
        for kind, size, status in (
            (form, 1_000_000, b"503"),
            (form, 9_000_000, b"413"),
            # Read in memory.
            ("application/x-www-form-urlencoded", 1_000_000, b"413"),
        ):
            with sent(live, kind, size) as connection:
                assert error_of(connection).split()[1] == status


def test_models_of_text_take_smaller_bodies(
    roomy_engine: InferenceEngine, vision: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(live: Live, head: str, body: bytes = b"") -> bytes:
        with sent_body(live, head, body) as connection:
            return error_of(connection).split()[1]

    length = "Content-Length: 9000000"
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (9_000_000, b" " * 9_000_000)
    with serving_engine(roomy_engine) as live:
        for modalities, expected in (({"text"}, b"413"), ({"text", "image"}, b"400")):
            known = KnownModel("other", "other", input_modalities=frozenset(modalities))  # type: ignore[arg-type]
            monkeypatch.setattr(live.services.registry, "models", lambda known=known: [known])
            assert status(live, "Transfer-Encoding: chunked", chunk) == expected
            assert status(live, length, b" " * 9_000_000) == expected
    assert status(vision, length, b" " * 9_000_000) == b"400"
    with serving_engine(roomy_engine, max_body_bytes=10_000_000) as live:
        assert status(live, length, b" " * 9_000_000) == b"400"


def test_unlimited_file_descriptors_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: unlimited)
    assert limited_protocol(1, 2000).max_connections == 2000  # type: ignore[attr-defined]
