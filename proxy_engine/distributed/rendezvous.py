"""How a run was launched, and the connections between rank 0 and the other ranks.

Rank 0 listens on a free port. Addresses, port and a random secret reach the other ranks by an
all-reduce, to which they contribute zeros. Each of them opens two connections: one for the control
channel, one for heartbeats. Both sides of a connection prove the secret by the challenges of
``multiprocessing.connection``, so that neither talks to a process that is not part of the run.
Messages that follow are not encrypted.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import ProcessError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Literal, TypeAlias

import mlx.core as mx

from ..errors import DistributedError, InvalidOptionError
from .channel import Peer, close_all, set_timeout

Backend: TypeAlias = Literal["ring", "jaccl", "nccl", "mpi"]

_HINT = "Start the program with mlx.launch, or with mpirun; docs/scaling.md has examples."


@dataclass(frozen=True, slots=True)
class Launch:
    """How the process was started.

    Attributes:
        backend: The backend of ``mlx.core.distributed``.
        is_single: Whether the run has a single rank, according to the launcher.
        addresses: Addresses of rank 0 that the launcher names: IP addresses or host names.
    """

    backend: Backend
    is_single: bool = False
    addresses: tuple[str, ...] = ()


def detect_launch(environment: Mapping[str, str]) -> Launch:
    """Return how the process was started, by the variables of ``mlx.launch`` or ``mpirun``.

    Args:
        environment: The environment variables of the process.

    Raises:
        InvalidOptionError: No launcher has started it, or the launcher's file cannot be read.
    """
    if "MLX_JACCL_COORDINATOR" in environment and "MLX_IBV_DEVICES" in environment:
        return Launch("jaccl", addresses=(_host(environment["MLX_JACCL_COORDINATOR"]),))
    if "NCCL_HOST_IP" in environment and "MLX_WORLD_SIZE" in environment:
        is_single = environment["MLX_WORLD_SIZE"] == "1"
        return Launch("nccl", is_single, (environment["NCCL_HOST_IP"],))
    if "MLX_HOSTFILE" in environment and "MLX_RANK" in environment:
        ranks = _ring(environment["MLX_HOSTFILE"])
        addresses = tuple(dict.fromkeys(map(_host, ranks[0]))) if ranks else ()
        return Launch("ring", len(ranks) < 2, addresses)
    if "OMPI_COMM_WORLD_SIZE" in environment:
        return Launch("mpi", environment["OMPI_COMM_WORLD_SIZE"] == "1")
    raise InvalidOptionError(
        "distributed requires several processes, and no launcher has started this one",
        option="distributed",
        hint=_HINT,
    )


def _ring(path: str) -> list[list[str]]:
    """Return the addresses with ports of each rank; of a single rank, the file is empty."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
        ranks = json.loads(text) if text else []
        return [[str(address) for address in rank] for rank in ranks]
    except (OSError, ValueError, TypeError) as error:
        raise InvalidOptionError(
            f"distributed: the file of hosts {path!r} (MLX_HOSTFILE) cannot be read: {error}",
            option="distributed",
            hint=_HINT,
        ) from error


def _host(address: str) -> str:
    """Return an address without its port."""
    return address.rpartition(":")[0].strip("[]")


Purpose: TypeAlias = Literal["control", "liveness"]

_PURPOSES: tuple[Purpose, ...] = ("control", "liveness")
_INVITATION_BYTES = 2048
_SECONDS = 10.0
"""How long the other ranks may take to connect. All ranks are there: the group is formed."""
_ATTEMPT_SECONDS = 2.0
_POLL_SECONDS = 0.02
_SECRET_BYTES = 32
_MAX_BYTES = 4096
_REFUSALS = (OSError, EOFError, ProcessError, AssertionError, ValueError)
"""Raised where the other process does not know the secret or does not follow the protocol."""
_PACKAGES = ("proxy-engine", "mlx", "mlx-lm")


@dataclass(frozen=True, slots=True)
class Invitation:
    """How to connect to rank 0.

    Attributes:
        addresses: Addresses of rank 0, the likeliest ones first.
        port: Its port.
        secret: The secret of the run.
        versions: The versions of packages on rank 0.
    """

    addresses: tuple[str, ...]
    port: int
    secret: bytes
    versions: dict[str, str]

    def encode(self) -> bytes:
        """Return the invitation as JSON."""
        return json.dumps([self.addresses, self.port, self.secret.hex(), self.versions]).encode()

    @classmethod
    def decode(cls, text: bytes) -> Invitation:
        """Return the invitation of a JSON text."""
        addresses, port, secret, versions = json.loads(text)
        return cls(tuple(addresses), port, bytes.fromhex(secret), versions)


Connections: TypeAlias = "dict[int, dict[Purpose, Peer]]"
"""The connections of a rank with other ranks, by rank."""

_Checked: TypeAlias = "SimpleQueue[tuple[int, Purpose, Peer]]"
"""Connections of ranks that have proved the secret."""


def connect_ranks(
    group: mx.distributed.Group, addresses: Sequence[str]
) -> tuple[Invitation, Connections]:
    """Connect rank 0 and the other ranks. Every rank calls it.

    Args:
        group: The process group.
        addresses: Addresses of rank 0 that the launcher names.

    Returns:
        Rank 0's invitation; and on rank 0 the connections with every other rank, on the others the
        ones with rank 0.

    Raises:
        DistributedError: A rank cannot connect.
    """
    if group.rank():
        invitation = _share(None, group)
        return invitation, {0: _join(invitation, group.rank())}
    candidates = _candidates(addresses)
    with listen(candidates) as listener:
        port = listener.getsockname()[1]
        invitation = Invitation(
            candidates, port, secrets.token_bytes(_SECRET_BYTES), installed_versions()
        )
        _share(invitation, group)
        return invitation, accept(listener, invitation.secret, group.size())


def _share(invitation: Invitation | None, group: mx.distributed.Group) -> Invitation:
    """Return rank 0's invitation, which is ``None`` on other ranks."""
    text = b"" if invitation is None else invitation.encode()
    ours = mx.array(list(text.ljust(_INVITATION_BYTES, b"\0")), mx.int32)
    # Only rank 0 contributes.
    found = mx.distributed.all_sum(ours, group=group)
    values: Any = found.tolist()
    return Invitation.decode(bytes(values).rstrip(b"\0"))


def _candidates(addresses: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses at which other ranks may reach this process."""
    if addresses and all(map(_is_loopback, addresses)):
        return tuple(addresses)
    name = socket.gethostname()
    found = [*addresses, name]
    with suppress(OSError):
        found += [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, socket.AF_INET)]
    fitting = list(dict.fromkeys(address for address in found if not _is_loopback(address)))
    # Ranks of one machine may have no other address.
    return (*fitting[:16], "127.0.0.1")


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def listen(addresses: Sequence[str]) -> socket.socket:
    """Listen on a free port: of a loopback address alone if there is no other one."""
    host = addresses[0] if all(map(_is_loopback, addresses)) else ""
    is_ipv6 = ":" in host or (not host and socket.has_dualstack_ipv6())
    family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
    return socket.create_server((host, 0), family=family, dualstack_ipv6=is_ipv6 and not host)


def accept(listener: socket.socket, secret: bytes, size: int) -> Connections:
    """Wait for the connections of all other ranks."""
    checked: _Checked = SimpleQueue()
    found: Connections = {rank: {} for rank in range(1, size)}
    deadline = time.monotonic() + _SECONDS
    listener.settimeout(_POLL_SECONDS)
    while any(len(found[rank]) < len(_PURPOSES) for rank in found):
        if time.monotonic() > deadline:
            raise _missing(found)
        try:
            accepted, _ = listener.accept()
        except TimeoutError:
            pass
        else:
            # A process that connects and sends nothing must not delay the ranks.
            Thread(target=_check, args=(accepted, secret, checked), daemon=True).start()
        with suppress(Empty):
            while True:
                rank, purpose, connection = checked.get_nowait()
                found[rank][purpose] = connection
    return found


def _check(accepted: socket.socket, secret: bytes, checked: _Checked) -> None:
    connection = opened(accepted)
    try:
        deliver_challenge(connection, secret)
        answer_challenge(connection, secret)
        rank, purpose = json.loads(connection.recv_bytes(_MAX_BYTES))
    except _REFUSALS:
        close_all([connection])
    else:
        set_timeout(connection, 0)
        checked.put((rank, purpose, connection))


def _missing(found: Connections) -> DistributedError:
    ranks = [rank for rank in found if len(found[rank]) < len(_PURPOSES)]
    which = ", ".join(map(str, ranks))
    return DistributedError(
        f"rank {which} has not connected to rank 0 within {_SECONDS:.0f} s",
        rank=ranks[0],
        hint="Let the machines reach rank 0 on all TCP ports; see docs/scaling.md.",
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages that have to be equal on all ranks."""
    found = {}
    for package in _PACKAGES:
        # Without metadata, a package runs from a folder.
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _join(invitation: Invitation, rank: int) -> dict[Purpose, Peer]:
    return {purpose: connect(invitation, rank, purpose) for purpose in _PURPOSES}


def connect(invitation: Invitation, rank: int, purpose: Purpose) -> Peer:
    """Connect to the first address at which rank 0 answers."""
    deadline = time.monotonic() + _SECONDS
    failures: dict[str, str] = {}
    while time.monotonic() < deadline:
        for address in invitation.addresses:
            place = address, invitation.port
            try:
                connection = opened(socket.create_connection(place, _ATTEMPT_SECONDS))
            except OSError as error:
                failures[address] = str(error)
                continue
            try:
                answer_challenge(connection, invitation.secret)
                deliver_challenge(connection, invitation.secret)
                connection.send_bytes(json.dumps([rank, purpose]).encode())
            except _REFUSALS as error:
                failures[address] = str(error) or type(error).__name__
                close_all([connection])
                continue
            set_timeout(connection, 0)
            return connection
        time.sleep(0.1)
    tried = "; ".join(f"{address}: {reason}" for address, reason in failures.items())
    raise DistributedError(
        f"rank {rank} cannot connect to rank 0 at port {invitation.port} ({tried})",
        rank=rank,
        hint="Let this machine reach rank 0 on all TCP ports; see docs/scaling.md.",
    )


def opened(connected: socket.socket) -> Peer:
    """Return a connection over a socket, on which no read takes longer than ten seconds."""
    connected.settimeout(None)
    if connected.family != socket.AF_UNIX:
        # A message is sent for each forward pass, and must not wait for the next one.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection: Peer = Connection(connected.detach())
    set_timeout(connection, _SECONDS)
    return connection
