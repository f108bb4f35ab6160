"""Start the ranks of a process group on this machine, with MLX's backend ``ring``."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

_POLL_SECONDS = 0.05
_PORTS = 10_000, 32_000


def run_ranks(size: int, arguments: Sequence[str], timeout: float = 120.0) -> list[str]:
    """Run a Python program once per rank, and return what each printed.

    When one fails, the others are killed: they would wait for it.

    Args:
        size: Number of ranks.
        arguments: Arguments of the Python interpreter.
        timeout: Time limit in seconds.

    Raises:
        RuntimeError: A rank failed, or the time was not enough.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = directory / "hosts.json"
        hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in _free_ports(size)]))
        ranks: list[subprocess.Popen[bytes]] = []
        for rank in range(size):
            output = stack.enter_context((directory / str(rank)).open("wb"))
            environment = os.environ | {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(hosts)}
            command = [sys.executable, *arguments]
            ranks.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        try:
            _wait(ranks, timeout)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        outputs = [(directory / str(rank)).read_text() for rank in range(size)]
    codes = [process.returncode for process in ranks]
    if any(codes):
        raise RuntimeError(f"the ranks returned {codes}:\n" + "\n".join(outputs))
    return outputs


def _wait(ranks: Sequence[subprocess.Popen[bytes]], timeout: float) -> None:
    """Wait until all ranks have ended, one has failed, or the time is over."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        codes = [process.poll() for process in ranks]
        if any(codes) or None not in codes:
            return
        time.sleep(_POLL_SECONDS)


def _free_ports(count: int) -> list[int]:
    """Return ports below those of outgoing connections, which the system hands out at any time."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(*_PORTS)
        with socket.socket() as listening:
            try:
                listening.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
