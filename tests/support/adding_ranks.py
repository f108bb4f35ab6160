"""A program whose ranks add numbers: rank 0 sends a message, and all perform an all-reduce.

The argument is what happens: ``run`` without end, ``once`` and end, ``load`` (rank 1 raises),
``raise`` (rank 0 raises), ``idle`` (rank 0 sends nothing), ``hold`` (rank 0 holds the interpreter
lock after a failure).
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

import mlx.core as mx

from proxy_engine.distributed.channel import FollowerChannel
from proxy_engine.distributed.session import Session, join
from proxy_engine.errors import DistributedError


class Waiting:
    """What waits for the model."""

    explain: Callable[[BaseException], BaseException]

    def __init__(self) -> None:
        self.result: Future[None] = Future()
        self.closing = threading.Event()
        self.thread = threading.Thread(daemon=True)

    def abort(self, error: DistributedError) -> None:
        """Raise the error in the main thread."""
        self.result.set_exception(error)

    def close(self) -> None:
        """Wait for the current addition."""
        self.closing.set()
        if self.thread.is_alive():
            self.thread.join()


def add(group: mx.distributed.Group) -> float:
    """Perform an all-reduce."""
    total = mx.distributed.all_sum(mx.array(float(group.rank())), group=group).item()
    assert isinstance(total, float)
    return total


def follow(channel: FollowerChannel, group: mx.distributed.Group) -> None:
    """Add whenever rank 0 does."""
    while (message := channel.receive()) is not None:
        if message == b"load" and group.rank() == 1:
            raise ValueError("no room for the weights")
        add(group)


def lead(session: Session, waiting: Waiting, mode: str) -> None:
    """Add, on a thread of its own, as models do."""
    count = 0
    try:
        while not waiting.closing.is_set():
            session.channel.send(b"load" if mode == "load" else b"add")
            total = add(session.group)
            count += 1
            if count == 3:
                print(f"total {total}", flush=True)
            if mode == "once" and count == 100:
                waiting.result.set_result(None)
                return
    except Exception as error:
        print(f"thread: {waiting.explain(error)}", flush=True)


def main(mode: str) -> None:
    """Run a rank."""
    session = join()
    if not session.leads:
        print("joined", flush=True)
        session.follow(follow)
    waiting = Waiting()
    session.watch(waiting)
    if mode == "idle":
        print("total", flush=True)
    else:
        waiting.thread = threading.Thread(target=lead, args=(session, waiting, mode), daemon=True)
        waiting.thread.start()
    if mode == "raise":
        time.sleep(0.2)
        raise RuntimeError("an error of the program")
    try:
        waiting.result.result()
    except DistributedError as error:
        print(f"caller: rank {error.rank}", flush=True)
        if mode == "hold":
            ctypes.PyDLL(None).sleep(60)
        # A program that goes on must not hide the failure.
        return


if __name__ == "__main__":
    main(sys.argv[1])
