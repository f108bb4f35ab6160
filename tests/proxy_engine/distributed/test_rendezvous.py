"""Launchers, the proof of the secret, and messages between processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy_engine import DistributedError, InvalidOptionError
from proxy_engine.distributed.channel import TcpFollowerChannel, TcpLeaderChannel
from proxy_engine.distributed.failures import Failure
from proxy_engine.distributed.frames import FrameTooLongError, frame, read_frame
from proxy_engine.distributed.handshake import HandshakeError, check_peer, new_secret, prove
from proxy_engine.distributed.launch import Launch, detect_launch
from proxy_engine.distributed.liveness import Liveness

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A connection."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        theirs.settimeout(10)
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


def test_both_sides_prove_the_secret(pair: Pair) -> None:
    secret = new_secret()
    proving = threading.Thread(target=prove, args=(pair[1], secret, {"rank": 1}))
    proving.start()
    assert check_peer(pair[0], secret) == {"rank": 1}
    proving.join()


def test_wrong_secret_is_refused_on_either_side(pair: Pair) -> None:
    refusals: list[BaseException] = []

    def join() -> None:
        try:
            prove(pair[1], new_secret(), {"rank": 1})
        except OSError as error:
            refusals.append(error)

    joining = threading.Thread(target=join)
    joining.start()
    with pytest.raises(HandshakeError):
        check_peer(pair[0], new_secret())
    # A leader that does not know the secret either.
    pair[0].sendall(frame(b"0" * 32))
    joining.join()
    assert isinstance(refusals[0], HandshakeError)


@pytest.mark.parametrize("answer", [b"", b"short", b"0" * 4096])
def test_malformed_answers_are_refused(pair: Pair, answer: bytes) -> None:
    pair[1].sendall(frame(answer))
    with pytest.raises(HandshakeError):
        check_peer(pair[0], new_secret())


def test_length_of_messages_is_bounded(pair: Pair) -> None:
    pair[1].sendall(b"\xff\xff\xff\xff")
    with pytest.raises(FrameTooLongError):
        read_frame(pair[0])


def test_messages_arrive_in_order_until_the_end(pair: Pair) -> None:
    leading, following = TcpLeaderChannel([pair[0]], lost), TcpFollowerChannel(pair[1], lost)
    messages = [bytes([number]) * (1 + 100 * number) for number in range(20)]
    for message in messages:
        leading.send(message)
    leading.end()
    received = list(iter(following.receive, None))
    assert received == messages
    assert leading.sent == len(messages)


def test_receive_has_a_time_limit_and_reports_lost_connections(pair: Pair) -> None:
    following = TcpFollowerChannel(pair[1], lost)
    with pytest.raises(TimeoutError):
        following.receive(0.01)
    pair[0].close()
    with pytest.raises(DistributedError):
        following.receive()
    leading = TcpLeaderChannel([pair[0]], lost)
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
        pair[0].sendall(frame(sent))
    assert watch.happened.wait(10)
    assert watch.failures[:1] == failures
    liveness.close()


def test_silent_and_stalled_ranks_have_failed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy_engine.distributed.liveness.SILENCE_SECONDS", 0)
    silent = Watch()
    liveness = Liveness({1: pair[0]}, silent, lambda: 0, leads=True)
    assert silent.happened.wait(10)
    assert silent.failures[0].reason == "no heartbeat for 0 s"
    liveness.stop()
    monkeypatch.setattr("proxy_engine.distributed.liveness.SILENCE_SECONDS", 1000)
    monkeypatch.setattr("proxy_engine.distributed.liveness.STALL_SECONDS", 0)
    stalled = Watch()
    liveness = Liveness({1: pair[0]}, stalled, lambda: 5, leads=True)
    pair[1].sendall(frame(b'{"count":3}'))
    assert stalled.happened.wait(10)
    assert "no message" in stalled.failures[0].reason
    liveness.close()
