"""Ranks of a distributed run, as processes of this machine."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 120
"""For processes that share few cores with other tests."""
_PORTS = 10_000, 32_000


class Rank:
    """A process. Its output is read as it is written."""

    def __init__(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.output = ""
        self._changed = threading.Condition()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.output += line
                self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until the process has written a text."""
        with self._changed:
            found = self._changed.wait_for(lambda: text in self.output, _SECONDS)
        assert found, self.output

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def status(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self.process.wait(_SECONDS)
        self._reading.join(_SECONDS)
        return status


def run_ranks(size: int, arguments: Sequence[str]) -> list[str]:
    """Run a Python program once per rank, and return what each printed.

    Args:
        size: Number of ranks.
        arguments: Arguments of the Python interpreter.

    Raises:
        AssertionError: A rank failed.
    """
    with (
        tempfile.TemporaryDirectory() as directory,
        ranks(arguments, size, Path(directory)) as started,
    ):
        statuses = [rank.status() for rank in started]
        outputs = [rank.output for rank in started]
    assert not any(statuses), f"the ranks returned {statuses}:\n" + "\n".join(outputs)
    return outputs


@contextmanager
def ranks(
    arguments: Sequence[str],
    size: int,
    directory: Path,
    *,
    environment: dict[str, str] | None = None,
) -> Iterator[list[Rank]]:
    """Run a Python program with ``size`` ranks of the backend ``ring``; kill what is left of it."""
    hosts = directory / "hosts.json"
    hosts.write_text(json.dumps([[f"127.0.0.1:{port}"] for port in free_ports(size)]))
    shared = {
        **os.environ,
        **(environment or {}),
        "MLX_HOSTFILE": str(hosts),
        "PYTHONPATH": str(ROOT),
    }
    with ExitStack() as stack:
        started = []
        for rank in range(size):
            one = Rank([sys.executable, *arguments], {**shared, "MLX_RANK": str(rank)})
            stack.callback(_kill, one.process)
            started.append(one)
        yield started


def free_ports(count: int) -> list[int]:
    """Return free ports below those of outgoing connections, which take free ones at any time."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(*_PORTS)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in ports:
            ports.append(port)
    return ports


def seconds_until_end(started: Sequence[Rank]) -> float:
    """Wait for the end of processes, and return how long that took."""
    begin = time.monotonic()
    for rank in started:
        rank.status()
    return time.monotonic() - begin


def _kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
