"""Hostile load: kinds of requests, and clients."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hostile_inputs import KINDS, HostileKind, HostileRequest, chat_body
from hostile_load_clients import OVER, Attack
from hostile_load_soak import MIXED, body

from proxy_engine.server.endpoints.choices import ChatRequest
from proxy_engine.server.settings import ServerSettings


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_hostile_requests_differ_and_are_within_the_servers_limits(kind: HostileKind) -> None:
    first, second = kind.make(1), kind.make(2)
    assert first.body != second.body
    assert len(first.body) <= ServerSettings(_env_file=None).body_bytes  # type: ignore[call-arg]
    # The server reads the body: a refusal names the constraint, not the format.
    ChatRequest.model_validate_json(first.body)


def test_mixed_requests_are_read_by_the_server_and_mostly_new() -> None:
    bodies = [body(number) for number in range(4 * len(MIXED))]
    for each in bodies:
        ChatRequest.model_validate_json(each)
    assert len(set(bodies)) == len(bodies)
    assert body(7) == body(7)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_hostile_clients_leave_or_wait_until_the_deadline(listener: socket.socket) -> None:
    attack = Attack(listener.getsockname(), seconds=0.2)
    attack.begin(0, HostileRequest(b"{}"), leave_after=0.05)
    attack.begin(1, HostileRequest(b"{}"))
    attack.begin(2, HostileRequest(b"{}", "slow headers"))
    assert not attack.wait()
    time.sleep(0.1)
    assert attack.said() == ["left", OVER, OVER]


def test_a_connection_that_the_server_closes_is_an_outcome(listener: socket.socket) -> None:
    def refuse() -> None:
        for _ in range(11):
            connection, _ = listener.accept()
            connection.close()

    threading.Thread(target=refuse, daemon=True).start()
    attack = Attack(listener.getsockname(), seconds=10)
    attack.begin(0, HostileRequest(chat_body(), "half-closed"))
    attack.begin(1, HostileRequest(b"", "slow headers"))
    assert attack.wait()
    assert attack.said() == ["closed", "closed"]
