"""The server under load: a process with its descendants, its processor time and its memory.

Linux only: the figures are read from ``/proc``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from hostile_load_observed import NO_PROMPT_CACHE

__all__ = ["Launch", "Pause", "Server", "descendants", "last_work", "processor_seconds", "running"]

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_OBSERVED = Path(__file__).with_name("hostile_load_observed.py")
_SECONDS_TO_START = 120
_SECONDS_TO_STOP = 20
# Share of a processor below which a server without requests counts as idle.
_IDLE = 0.25
_WINDOW = 0.04
_SECONDS_TO_BE_SURE = 0.5
_FULL = 2


@dataclass(frozen=True)
class Launch:
    """How to start the server: the interpreter, the checkout to import from, and the model."""

    python: str
    checkout: Path
    model: str | None
    flags: Sequence[str] = ()
    has_prompt_cache: bool = True

    def variables(self) -> dict[str, str]:
        """Return the environment; settings of the server's own are left out."""
        own = {k: v for k, v in os.environ.items() if not k.startswith("PROXY_ENGINE_")}
        observed = {} if self.has_prompt_cache else {NO_PROMPT_CACHE: "1"}
        return {**own, **observed, "PYTHONPATH": str(self.checkout)}

    def command(self) -> list[str]:
        """Return the command line."""
        model = [] if self.model is None else ["--model", self.model]
        flags = ["--port=0", "--log-format=json", "--max-running=16", "--body-seconds=8"]
        return [self.python, str(_OBSERVED), "serve", *flags, *model, *self.flags]


@dataclass(frozen=True)
class Pause:
    """A run of the cyclic garbage collector.

    Attributes:
        generation: The oldest generation that was collected; 2 is a full collection.
        seconds: How long it took. On a busy machine that is more than ``cpu_seconds``.
        cpu_seconds: Processor time of its thread.
        ended: When, on the clock of ``time.monotonic``.
    """

    generation: int
    seconds: float
    cpu_seconds: float
    ended: float


@dataclass
class Server:
    """A server that listens on loopback. ``pauses`` are those of its garbage collector."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    pauses: list[Pause] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def processor_seconds(self) -> float:
        """Return the processor time of the process and its descendants so far."""
        return sum(map(processor_seconds, descendants(self.process.pid)))

    def resident_bytes(self) -> int:
        """Return the resident memory of the process and its descendants."""
        return sum(_status(pid, "VmRSS:") for pid in descendants(self.process.pid))

    def peak_bytes(self) -> int:
        """Return the sum of the largest resident sizes since ``forget_peak``."""
        return sum(_status(pid, "VmHWM:") for pid in descendants(self.process.pid))

    def forget_peak(self) -> None:
        """Let the largest resident size begin with the present one."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                (_PROC / str(pid) / "clear_refs").write_text("5")

    def wait_until_idle(self, deadline: float) -> float | None:
        """Wait until the server has used next to no processor time for half a second.

        Args:
            deadline: The time to give up at, on the clock of ``time.monotonic``.

        Returns:
            When the last window of work ended, on the same clock; ``None`` after the deadline.
            Full garbage collections are no work: the server saves them for when it is idle.
        """
        began = last_busy = time.monotonic()
        busy: list[tuple[float, float]] = []
        used = self.processor_seconds()
        while (now := time.monotonic()) < deadline:
            if now - last_busy > _SECONDS_TO_BE_SURE:
                return last_work(busy, self.pauses, began)
            time.sleep(_WINDOW)
            before, used = used, self.processor_seconds()
            if used - before > _IDLE * _WINDOW:
                last_busy = time.monotonic()
                busy.append((now, last_busy))
        return None


@contextlib.contextmanager
def running(launch: Launch) -> Iterator[Server]:
    """Run a server, and end it with all its descendants. Raises ``SystemExit``."""
    process = subprocess.Popen(
        launch.command(),
        stderr=subprocess.PIPE,
        text=True,
        cwd=launch.checkout,
        env=launch.variables(),
    )
    try:
        assert process.stderr is not None
        server = Server(process, _address(process.stderr))
        threading.Thread(target=_follow, args=(process.stderr, server), daemon=True).start()
        yield server
    finally:
        _stop(process)


def last_work(busy: Sequence[tuple[float, float]], pauses: Sequence[Pause], began: float) -> float:
    """Return the end of the last busy window without a full garbage collection in it."""
    full = [
        (pause.ended - pause.seconds, pause.ended) for pause in pauses if pause.generation == _FULL
    ]
    ends = [
        end for start, end in busy if not any(first < end and start < last for first, last in full)
    ]
    return max(ends, default=began)


def _stop(process: subprocess.Popen[str]) -> None:
    members = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    for pid in members[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(_SECONDS_TO_STOP)


def _address(log: IO[str]) -> tuple[str, int]:
    started = time.monotonic()
    said = []
    for line in log:
        with contextlib.suppress(ValueError):
            facts = json.loads(line)
            if facts.get("event") == "listening":
                address = urlsplit(facts["url"])
                return address.hostname or "127.0.0.1", address.port or 0
        said.append(line)
        if time.monotonic() - started > _SECONDS_TO_START:
            break
    raise SystemExit("the server did not start:\n" + "".join(said[-20:]))


def _follow(log: IO[str], server: Server) -> None:
    """Read the log to its end, so that the server never waits for a reader."""
    for line in log:
        with contextlib.suppress(ValueError):
            facts = json.loads(line)
            if facts.get("event") == "collected":
                pause = Pause(
                    *(facts[name] for name in ("generation", "seconds", "cpu_seconds", "ended"))
                )
                server.pauses.append(pause)
            elif facts.get("level") in ("warning", "error", "critical"):
                print(f"  server: {line.strip()[:2000]}", file=sys.stderr)


def descendants(pid: int) -> list[int]:
    """Return a process and its descendants, itself first."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parent = int(_fields(int(entry.name))[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of its ended children; 0 if it is gone."""
    try:
        # The clock id of another process's CPU clock, as clock_getcpuclockid(3) makes it.
        own = time.clock_gettime((~pid << 3) | 2)
        fields = _fields(pid)
    except OSError:
        return 0.0
    return own + (int(fields[13]) + int(fields[14])) / _TICKS


def _fields(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name, which may have spaces in it."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _status(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0
