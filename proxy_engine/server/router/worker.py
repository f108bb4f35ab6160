"""The process of a worker: ``python -m proxy_engine.server.router.worker``.

The supervisor writes a pickled ``WorkerStart`` to standard input and keeps the pipe open. The pipe
ends when the supervisor does, even if it is killed; then the worker ends as well.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from state_machines.errors import ProxyError

from ...runtime import process_runtime
from ..settings import ServerSettings


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """The settings of a new worker, which the supervisor sends to it.

    Attributes:
        number: Its number, from 0.
        settings: Its settings.
        socket_path: The Unix socket that it listens on.
        copies: The number of workers that load the model into the same memory at the same time.
    """

    number: int
    settings: ServerSettings
    socket_path: Path
    copies: int = 1


def main() -> int:
    """Serve until a signal, or until the supervisor ends; return the exit status."""
    start = read_start()
    process_runtime.set_worker(start.number)
    # Deferred: other programs that are started in place of this one need no MLX.
    from ..serve import serve  # noqa: PLC0415

    try:
        return serve(start.settings, socket_path=start.socket_path, copies=start.copies)
    except ProxyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def read_start() -> WorkerStart:
    """Read the settings from standard input, and end this process once the supervisor has ended."""
    start: WorkerStart = pickle.load(sys.stdin.buffer)
    directory = start.socket_path.parent
    threading.Thread(target=_end_with_supervisor, args=(directory,), daemon=True).start()
    return start


def _end_with_supervisor(directory: Path) -> None:
    # Not through the buffer, whose lock the interpreter needs when it ends.
    while os.read(sys.stdin.fileno(), 1):
        pass
    # A supervisor that was killed has not removed it.
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
