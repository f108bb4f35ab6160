"""Launchers, the proof of the secret, and messages between processes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy_engine import DistributedError, InvalidOptionError
from proxy_engine.distributed import channel
from proxy_engine.distributed.channel import Failure, FollowerChannel, LeaderChannel, Liveness, Peer
from proxy_engine.distributed.rendezvous import (
    Invitation,
    Launch,
    accept,
    connect,
    detect_launch,
    listen,
    opened,
)

Pair = tuple[Peer, Peer]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A connection."""
    ours, theirs = map(opened, socket.socketpair())
    with ours, theirs:
        yield ours, theirs


def lost(error: BaseException) -> BaseException:
    """Return the error of a lost connection."""
    return DistributedError(str(error))


def test_launchers_are_known_by_their_variables(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.json"
    hosts.write_text('[["192.168.0.1:5000", "192.168.0.5:5001"], ["[fe80::2]:5000"]]')
    ring = {"MLX_RANK": "1", "MLX_HOSTFILE": str(hosts)}
    assert detect_launch(ring) == Launch("ring", addresses=("192.168.0.1", "192.168.0.5"))
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert detect_launch({**ring, "MLX_HOSTFILE": str(empty)}) == Launch("ring", is_single=True)
    mpi = {"OMPI_COMM_WORLD_SIZE": "2"}
    assert detect_launch(mpi) == Launch("mpi")
    jaccl = {"MLX_IBV_DEVICES": "file", "MLX_JACCL_COORDINATOR": "10.0.0.1:32323"}
    assert detect_launch(jaccl) == Launch("jaccl", addresses=("10.0.0.1",))
    nccl = {"NCCL_HOST_IP": "10.0.0.1", "MLX_WORLD_SIZE": "2"}
    assert detect_launch(nccl) == Launch("nccl", addresses=("10.0.0.1",))


@pytest.mark.parametrize("content", [None, "no JSON", "[1]"])
def test_unreadable_file_of_hosts_is_refused(tmp_path: Path, content: str | None) -> None:
    hosts = tmp_path / "hosts.json"
    if content is not None:
        hosts.write_text(content)
    with pytest.raises(InvalidOptionError, match="MLX_HOSTFILE"):
        detect_launch({"MLX_RANK": "0", "MLX_HOSTFILE": str(hosts)})


def test_ranks_with_the_secret_are_connected_and_other_processes_are_not() -> None:
    secret = b"s" * 32
    with listen(("127.0.0.1",)) as listener:
        invitation = Invitation(("127.0.0.1",), listener.getsockname()[1], secret, {})
        intruders = []
        for answer in (b"", b"\xff\xff\xff\xff", b"\0\0\0\4none", b"\0\0\0\x10" + b"0" * 16):
            intruders.append(socket.create_connection(listener.getsockname()))
            intruders[-1].sendall(answer)
        found: list[Any] = []
        joining = threading.Thread(
            target=lambda: found.extend(
                connect(invitation, 1, purpose) for purpose in ("control", "liveness")
            )
        )
        joining.start()
        connections = accept(listener, secret, 2)[1]
        joining.join()
    connections["control"].send_bytes(b"message")
    assert found[0].recv_bytes() == b"message"
    for connection in (*connections.values(), *found, *intruders):
        connection.close()


def test_process_without_the_secret_at_rank_0s_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxy_engine.distributed.rendezvous._SECONDS", 0.5)
    with listen(("127.0.0.1",)) as listener:
        invitation = Invitation(("127.0.0.1",), listener.getsockname()[1], b"ours", {})
        other = threading.Thread(target=lambda: _expect_no_rank(listener))
        other.start()
        with pytest.raises(DistributedError, match="cannot connect to rank 0"):
            connect(invitation, 1, "control")
        other.join()


def _expect_no_rank(listener: socket.socket) -> None:
    with pytest.raises(DistributedError, match="has not connected"):
        accept(listener, b"theirs", 2)


def test_length_of_messages_is_bounded(pair: Pair) -> None:
    following = FollowerChannel(pair[0], lost)
    os.write(pair[1].fileno(), b"\x7f\xff\xff\xff")
    with pytest.raises(DistributedError, match="bad message length"):
        following.receive()


def test_message_above_the_limit_is_refused_and_the_connection_stays(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "MAX_MESSAGE_BYTES", 4)
    leading, following = LeaderChannel([pair[0]], lost), FollowerChannel(pair[1], lost)
    with pytest.raises(ValueError, match="limit is 4"):
        leading.send(b"12345")
    leading.send(b"1234")
    assert following.receive() == b"1234"


def test_messages_arrive_in_order_until_the_end(pair: Pair) -> None:
    leading, following = LeaderChannel([pair[0]], lost), FollowerChannel(pair[1], lost)
    messages = [bytes([number]) * (1 + 100 * number) for number in range(20)]
    for message in messages:
        leading.send(message)
    leading.end()
    received = list(iter(following.receive, None))
    assert received == messages
    assert leading.sent == len(messages)


def test_receive_has_a_time_limit_and_reports_lost_connections(pair: Pair) -> None:
    following = FollowerChannel(pair[1], lost)
    with pytest.raises(TimeoutError):
        following.receive(0.01)
    pair[0].close()
    with pytest.raises(DistributedError):
        following.receive()
    leading = LeaderChannel([pair[0]], lost)
    with pytest.raises(DistributedError):
        leading.send(b"message")


class Watch:
    """Remembers what happened."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.happened = threading.Event()

    def peer_failed(self, failure: Failure) -> None:
        """Remember a failure."""
        self.failures.append(failure)
        self.happened.set()

    def leader_ended(self) -> None:
        """Remember the end."""
        self.happened.set()


@pytest.mark.parametrize(
    ("sent", "failures"),
    [
        (b'{"failed":[2,"no memory"]}', [Failure(2, "no memory")]),
        (b'{"ended":true}', []),
        (None, [Failure(0, "its connection was closed")]),
    ],
)
def test_reports_of_rank_0_reach_the_watch(
    pair: Pair, sent: bytes | None, failures: list[Failure]
) -> None:
    watch = Watch()
    liveness = Liveness({0: pair[1]}, watch, lambda: 0, leads=False)
    if sent is None:
        pair[0].close()
    else:
        pair[0].send_bytes(sent)
    assert watch.happened.wait(10)
    assert watch.failures[:1] == failures
    liveness.close()


def test_silent_and_stalled_ranks_have_failed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy_engine.distributed.channel.SILENCE_SECONDS", 0)
    silent = Watch()
    liveness = Liveness({1: pair[0]}, silent, lambda: 0, leads=True)
    assert silent.happened.wait(10)
    assert silent.failures[0].reason == "no heartbeat for 0 s"
    liveness.stop()
    monkeypatch.setattr("proxy_engine.distributed.channel.SILENCE_SECONDS", 1000)
    monkeypatch.setattr("proxy_engine.distributed.channel.STALL_SECONDS", 0)
    stalled = Watch()
    liveness = Liveness({1: pair[0]}, stalled, lambda: 5, leads=True)
    pair[1].send_bytes(b'{"count":3}')
    assert stalled.happened.wait(10)
    assert "no message" in stalled.failures[0].reason
    liveness.close()


def test_connection_that_another_thread_closes_while_sending_is_lost(pair: Pair) -> None:
    class Closing:
        def send_bytes(self, message: bytes) -> None:
            # Between the check and the write, `close` may take the descriptor away.
            pair[0].close()
            os.write(pair[0]._handle, message)  # type: ignore[attr-defined]

    leading = LeaderChannel([Closing()], lost)  # type: ignore[list-item]
    with pytest.raises(DistributedError):
        leading.send(b"x")
