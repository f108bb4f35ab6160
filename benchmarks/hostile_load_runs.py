"""The measurement of one kind of hostile request, on a server that was started for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from hostile_inputs import HostileKind
from hostile_load_clients import OVER, Attack, Probe, StreamProbe, probes
from hostile_load_figures import Figures
from hostile_load_server import Launch, Server, running

__all__ = ["Bounds", "measure"]


@dataclass(frozen=True)
class Bounds:
    """How much is measured, and for how long at most."""

    deadline: float = 20.0
    rounds: int = 3
    hostile: int = 6
    leave_after: float = 0.1


class _Subject:
    """A server of one launch; it is replaced where it did not become idle again."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._stack = contextlib.ExitStack()
        self.server: Server | None = None

    def idle_server(self) -> Server:
        """Return a server that is idle and warm."""
        if self.server is None:
            self.server = self._stack.enter_context(running(self._launch))
            stop = threading.Event()
            stop.set()
            for probe in probes("warm"):
                probe.run(self.server.address, stop, rounds=2, limit=60)
            self.server.wait_until_idle(time.monotonic() + 30)
        return self.server

    def settle(self, seconds: float) -> None:
        """Replace the server if it is not idle within some seconds."""
        server = self.server
        if server is None:
            return
        deadline = time.monotonic() + seconds
        if not server.is_running or server.wait_until_idle(deadline) is None:
            self.close()

    def close(self) -> None:
        """End the server."""
        self._stack.close()
        self.server = None


def measure(kind: HostileKind, launch: Launch, bounds: Bounds) -> Figures:
    """Measure a kind."""
    figures = Figures(kind.name)
    subject = _Subject(launch)
    with contextlib.closing(subject):
        _alone(kind, subject.idle_server(), bounds, figures)
        subject.settle(1.0)
        _beside(kind, subject.idle_server(), bounds, figures)
        subject.settle(1.0)
        _left(kind, subject.idle_server(), bounds, figures)
    return figures


def _alone(kind: HostileKind, server: Server, bounds: Bounds, figures: Figures) -> None:
    """One hostile request that has the server for itself."""
    request = kind.make(0)
    server.forget_peak()
    memory, used = server.resident_bytes(), server.processor_seconds()
    deadline = time.monotonic() + bounds.deadline
    attack = Attack(server.address, bounds.deadline)
    attack.begin(0, request)
    in_time = attack.wait()
    idle = server.wait_until_idle(deadline + 1) if in_time else None
    figures.cpu_seconds = max(0.0, server.processor_seconds() - used)
    figures.is_over = idle is None
    figures.alone_bytes = max(0, server.peak_bytes() - memory)
    figures.outcomes += attack.said()


def _beside(kind: HostileKind, server: Server, bounds: Bounds, figures: Figures) -> None:
    """A running stream and ordinary requests; first alone, then beside hostile ones."""
    requests = [kind.make(1 + number) for number in range(bounds.hostile)]
    with _streaming(server, bounds) as stream:
        quiet = probes(f"quiet_{kind.name}")
        stream.forget()
        with _probing(server, quiet, bounds, bounds.rounds) as over:
            over.set()
        figures.quiet = _slowest(quiet, stream)
        server.forget_peak()
        memory = server.resident_bytes()
        stream.forget()
        began = time.monotonic()
        attack = Attack(server.address, bounds.deadline)
        for number, request in enumerate(requests):
            leaves = number % 2 == 1
            attack.begin(number, request, bounds.leave_after if leaves else None)
        loaded = probes(f"loaded_{kind.name}")
        with _probing(server, loaded, bounds, 1) as over:
            attack.wait()
            over.set()
        figures.loaded = _slowest(loaded, stream)
        figures.unanswered = [
            probe.name for probe in loaded if not probe.seconds or OVER in probe.outcomes
        ]
        figures.loaded_bytes = max(0, server.peak_bytes() - memory)
        figures.outcomes += [said for said in attack.said() if said != "left"]
    pauses = [pause.cpu_seconds for pause in server.pauses if pause.ended > began]
    figures.pause_seconds = max(pauses, default=0.0)


def _left(kind: HostileKind, server: Server, bounds: Bounds, figures: Figures) -> None:
    """Hostile requests whose clients all leave."""
    requests = [kind.make(100 + number) for number in range(bounds.hostile)]
    attack = Attack(server.address, bounds.deadline)
    for number, request in enumerate(requests):
        attack.begin(number, request, bounds.leave_after)
    attack.wait()
    left = time.monotonic()
    idle = server.wait_until_idle(left + bounds.deadline)
    figures.idle_seconds = None if idle is None else max(0.0, idle - left)


@contextlib.contextmanager
def _streaming(server: Server, bounds: Bounds) -> Iterator[StreamProbe]:
    """Within, a client reads a stream that has begun."""
    stream = StreamProbe()
    stop = threading.Event()
    reader = threading.Thread(
        target=stream.run, args=(server.address, stop, bounds.deadline + 10), daemon=True
    )
    reader.start()
    deadline = time.monotonic() + bounds.deadline
    while stream.tokens < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield stream
    finally:
        stop.set()
        # A server that no longer answers keeps the reader until the connection is closed.
        reader.join(1.0)


@contextlib.contextmanager
def _probing(
    server: Server, clients: list[Probe], bounds: Bounds, rounds: int
) -> Iterator[threading.Event]:
    """Within, ordinary clients ask, each ``rounds`` times, and then until the event is set."""
    stop = threading.Event()
    deadline = time.monotonic() + bounds.deadline
    threads = [
        threading.Thread(
            target=client.run, args=(server.address, stop, rounds, bounds.deadline), daemon=True
        )
        for client in clients
    ]
    for thread in threads:
        thread.start()
    yield stop
    for thread in threads:
        thread.join(max(0.0, deadline + 0.5 - time.monotonic()))


def _slowest(clients: list[Probe], stream: StreamProbe) -> dict[str, float]:
    return {"gap": stream.gap(), **{client.name: client.slowest() for client in clients}}
