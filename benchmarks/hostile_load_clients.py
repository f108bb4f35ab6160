"""Clients of the server under load: measuring and hostile ones."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hostile_inputs import HostileRequest, chat_body, schema_field

__all__ = ["OVER", "Address", "Attack", "Probe", "StreamProbe", "outcome", "probes", "send"]

OVER = "over"
"""The outcome of a request that had no answer before the deadline."""

Address = tuple[str, int]

_PATH = "/v1/chat/completions"
_SECONDS_BETWEEN_BYTES = 0.2
_OPEN_BLOCKS = 10
# SmolLM2's special tokens, so that its answers are as long as they may be.
_ENDLESS = {"logit_bias": {str(token): -100 for token in range(3)}}


def outcome(status: int, body: bytes) -> str:
    """Return a response in words: its status with its finish reason, or with the error's code."""
    try:
        found = json.loads(body)
    except ValueError:
        return f"{status} ?"
    if not isinstance(found, dict):
        return f"{status} ?"
    if status == 200:
        choices = found.get("choices") or [{}]
        return f"200 {choices[0].get('finish_reason')}"
    error = found.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return f"{status} {code}"


def send(address: Address, body: bytes, seconds: float) -> str:
    """Send a request, and return its outcome. Raises ``OSError``."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    with contextlib.closing(connection):
        connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return outcome(response.status, response.read())


@dataclass
class Probe:
    """An ordinary client: it sends one request after another, each made by ``body``."""

    name: str
    body: Callable[[int], bytes]
    seconds: list[float] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    _begun: float | None = None

    def run(self, address: Address, stop: threading.Event, rounds: int, limit: float) -> None:
        """Send ``rounds`` requests, and more until ``stop`` is set."""
        number = 0
        while number < rounds or not stop.is_set():
            number += 1
            self._begun = time.monotonic()
            try:
                said = send(address, self.body(number), limit)
            except OSError:
                said = OVER
            self.seconds.append(time.monotonic() - self._begun)
            self.outcomes.append(said)
            self._begun = None
            if said == OVER:
                return

    def slowest(self) -> float:
        """Return the longest time so far, that of a request under way included."""
        begun = self._begun
        under_way = [] if begun is None else [time.monotonic() - begun]
        return max([*self.seconds, *under_way], default=0.0)


@dataclass
class StreamProbe:
    """A client that reads one stream after another, and notes when tokens come."""

    largest_gap: float = 0.0
    tokens: int = 0
    _last: float | None = None
    _connection: http.client.HTTPConnection | None = None

    def run(self, address: Address, stop: threading.Event, limit: float) -> None:
        """Read streams until ``stop`` is set."""
        body = chat_body(
            "Write a long story about a lighthouse.",
            max_tokens=1_500,
            stream=True,
            include_tokens=True,
            **_ENDLESS,
        )
        while not stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._read_one(address, body, stop, limit)
            self._last = None

    def _read_one(self, address: Address, body: bytes, stop: threading.Event, limit: float) -> None:
        connection = http.client.HTTPConnection(*address, timeout=limit)
        with contextlib.closing(connection):
            connection.request("POST", _PATH, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            for line in response:
                if stop.is_set():
                    return
                if line.startswith(b"data: {"):
                    self.note(time.monotonic())

    def note(self, now: float) -> None:
        """Note that a token has come."""
        if self._last is not None:
            self.largest_gap = max(self.largest_gap, now - self._last)
        self._last = now
        self.tokens += 1

    def forget(self) -> None:
        """Begin to measure now."""
        self.largest_gap, self.tokens = 0.0, 0

    def gap(self) -> float:
        """Return the largest gap, the present one included."""
        last = self._last
        return max(self.largest_gap, 0.0 if last is None else time.monotonic() - last)


def probes(mark: str) -> list[Probe]:
    """Return ordinary clients. Schemas with another ``mark`` are new ones."""

    def constrained(name: str) -> bytes:
        schema = {
            "type": "object",
            "properties": {
                name: {"enum": ["red", "green", "blue"]},
                "size": {"type": "integer", "minimum": 0, "maximum": 99},
            },
            "required": [name, "size"],
            "additionalProperties": False,
        }
        return chat_body("Which colour has the sky?", max_tokens=40, **schema_field(schema))

    return [
        Probe("plain", lambda _: chat_body("Say something.", max_tokens=8, **_ENDLESS)),
        Probe("known", lambda _: constrained("colour")),
        Probe("new", lambda number: constrained(f"colour_{mark}_{number}")),
    ]


class Attack:
    """Hostile clients, each on a thread.

    Attributes:
        outcomes: An entry for each client that is done: a response in the words of ``outcome``,
            ``left``, ``closed`` where the server closed the connection without a response, or
            ``over``.
    """

    def __init__(self, address: Address, seconds: float) -> None:
        self._address = address
        self._deadline = time.monotonic() + seconds
        self._clients: list[threading.Thread] = []
        self.outcomes: dict[int, str] = {}

    def begin(self, number: int, request: HostileRequest, leave_after: float | None = None) -> None:
        """Start a client; it closes its connection after ``leave_after`` seconds."""
        client = threading.Thread(
            target=self._run, args=(number, request, leave_after), daemon=True
        )
        self._clients.append(client)
        client.start()

    def wait(self) -> bool:
        """Wait for all clients. Returns whether all were done before the deadline."""
        for client in self._clients:
            client.join(max(0.0, self._deadline - time.monotonic()))
        return not any(client.is_alive() for client in self._clients) and (
            OVER not in self.outcomes.values()
        )

    def said(self) -> list[str]:
        """Return what became of each client, in the order of their numbers."""
        count = len(self._clients)
        numbers = sorted(self.outcomes)
        return [self.outcomes[n] for n in numbers] + [OVER] * (count - len(numbers))

    def _run(self, number: int, request: HostileRequest, leave_after: float | None) -> None:
        until = self._deadline
        if leave_after is not None:
            until = min(until, time.monotonic() + leave_after)
        try:
            said = _converse(self._address, request, until)
        except TimeoutError:
            said = OVER if leave_after is None else "left"
        except (OSError, http.client.HTTPException):
            said = "closed"
        self.outcomes[number] = said


def _converse(address: Address, request: HostileRequest, until: float) -> str:
    """Send a request in its manner, and return its outcome.

    Raises ``TimeoutError`` at ``until``, after the connection was closed, and ``OSError``.
    """
    head = f"POST {_PATH} HTTP/1.1\r\nHost: {address[0]}\r\nContent-Type: application/json\r\n"
    whole = f"{head}Content-Length: {len(request.body)}\r\n\r\n".encode() + request.body
    match request.manner:
        case "slow headers":
            return _dribble(address, head.encode() + b"X-Long: ", until, _OPEN_BLOCKS)
        case "slow body":
            return _dribble(address, f"{head}Content-Length: 1000000\r\n\r\n".encode(), until, 1)
    with _connected(address, until) as connection:
        connection.sendall(whole)
        if request.manner == "half-closed":
            connection.shutdown(socket.SHUT_WR)
        return _response(connection, until)


@contextlib.contextmanager
def _connected(address: Address, until: float) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=_left(until)) as connection:
        yield connection


def _response(connection: socket.socket, until: float) -> str:
    connection.settimeout(_left(until))
    response = http.client.HTTPResponse(connection)
    with contextlib.closing(response):
        response.begin()
        return outcome(response.status, response.read())


def _dribble(address: Address, beginning: bytes, until: float, count: int) -> str:
    """Send a beginning on ``count`` connections and a byte now and then, until all are closed."""
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(_connected(address, until)) for _ in range(count)]
        for connection in waiting:
            connection.sendall(beginning)
        said = "closed"
        while waiting:
            if time.monotonic() >= until:
                raise TimeoutError
            time.sleep(min(_SECONDS_BETWEEN_BYTES, max(0.0, until - time.monotonic())))
            for connection in list(waiting):
                try:
                    connection.sendall(b"x")
                    connection.settimeout(0.001)
                    received: Any = connection.recv(64)
                except TimeoutError:
                    continue
                except OSError:
                    received = b""
                if received.startswith(b"HTTP/1.1 "):
                    said = f"{received[9:12].decode()} timeout"
                waiting.remove(connection)
        return said


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
