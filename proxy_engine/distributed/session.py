"""The part of this process in a distributed run, from joining the process group to the end.

A run ends as a whole. If a rank fails, rank 0 tells the others, each of them prints which rank has
failed and why, and ends with exit status 1. Rank 0 first fails its requests and gives its front
ends time to deliver the errors. The threads that wait for the model cannot do this: MLX may block
them for ever. If rank 0 ends in order, the other ranks end with status 0.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, Protocol

import mlx.core as mx

from state_machines.errors import ProxyError

from ..errors import DistributedError
from .channel import (
    SILENCE_SECONDS,
    Failure,
    FollowerChannel,
    LeaderChannel,
    Liveness,
    is_lost_connection,
)
from .rendezvous import connect_ranks, detect_launch, installed_versions

_FAILED = 1
"""The exit status of every rank after a failure."""

_DELIVERY_SECONDS = 2.0
"""Time for rank 0's front ends to deliver the errors of requests."""

_REPORT_SECONDS = 0.2
"""Time for a report to reach rank 0."""

_END_SECONDS = 3.0
"""Time for the main thread of a rank to end after rank 0 has."""

_PRINT_SECONDS = 1.0
"""Time for another thread to print the failure of a rank."""

_FLUSH_SECONDS = 0.2


class Member(Protocol):
    """Something on rank 0 that waits for the model, such as the worker of an engine.

    Attributes:
        explain: Returns the error to report in place of one that a call of the model has raised.
    """

    explain: Callable[[BaseException], BaseException]

    def abort(self, error: DistributedError) -> None:
        """Raise ``error`` in all waiting and later calls. For any thread."""

    def close(self) -> None:
        """Let the current call finish, and refuse further calls."""


class Session:
    """The part of this process in a run. :func:`join` creates it.

    Attributes:
        rank: The rank of this process.
        size: The number of ranks.
    """

    def __init__(self, group: mx.distributed.Group, addresses: tuple[str, ...]) -> None:
        self.rank: int = group.rank()
        self.size: int = group.size()
        self._group: mx.distributed.Group | None = group
        self._pid = os.getpid()
        # The handler of SIGTERM may interrupt the thread that holds it.
        self._lock = threading.RLock()
        self._decided = threading.Event()
        self._is_printed = threading.Event()
        self._failure: Failure | None = None
        self._has_ended = False
        self._members: weakref.WeakSet[Member] = weakref.WeakSet()
        self._leading: LeaderChannel | None = None
        self._following: FollowerChannel | None = None
        self._liveness: Liveness | None = None
        if self.size == 1:
            self._leading = LeaderChannel([], self._reason_of)
        else:
            self._connect(addresses)
        atexit.register(self._at_exit)

    def _connect(self, addresses: tuple[str, ...]) -> None:
        invitation, connections = connect_ranks(self.group, addresses)
        control = [found["control"] for found in connections.values()]
        liveness = {rank: found["liveness"] for rank, found in connections.items()}
        if self.rank == 0:
            leading = self._leading = LeaderChannel(control, self._reason_of)
            self._liveness = Liveness(liveness, self, lambda: leading.sent, leads=True)
            if _handles_termination():
                signal.signal(signal.SIGTERM, self._terminated)
            return
        following = self._following = FollowerChannel(control[0], self._reason_of)
        self._liveness = Liveness(liveness, self, lambda: following.received, leads=False)
        ours = installed_versions()
        for package, theirs in invitation.versions.items():
            if ours.get(package) != theirs:
                reason = f"it has {package} {ours.get(package)}, and rank 0 has {theirs}"
                self.fail(Failure(self.rank, reason))

    @property
    def group(self) -> mx.distributed.Group:
        """The process group."""
        if self._group is None:
            raise AssertionError("the process has not begun to exit")
        return self._group

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def channel(self) -> LeaderChannel:
        """The control channel. On rank 0 only."""
        if self._leading is None:
            raise AssertionError("this is not rank 0")
        return self._leading

    def watch(self, member: Member) -> None:
        """Abort ``member`` if a rank fails, and close it before the run ends. It is not kept alive.

        Raises:
            DistributedError: A rank has failed already.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure.error()
            member.explain = self.explain
            self._members.add(member)

    def follow(self, follow: Callable[[FollowerChannel, mx.distributed.Group], None]) -> NoReturn:
        """Follow rank 0 until it ends. Only for other ranks.

        Args:
            follow: Performs what rank 0 sends, until it ends.

        Raises:
            SystemExit: Rank 0 has ended; the status is 0. After a failure, the process ends here.
        """
        if self._following is None:
            raise AssertionError("rank 0 follows no other rank")
        # Rank 0 decides when an interrupted run ends.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if _is_main_thread() else None
        try:
            follow(self._following, self.group)
        except Exception as error:
            # All ranks end, and print which rank has failed and why.
            self._stop_following(error)
        finally:
            if handler is not None:
                signal.signal(signal.SIGINT, handler)
        self._end(is_told=False)
        raise SystemExit(0)

    def explain(self, error: BaseException) -> BaseException:
        """Return the error to report in place of ``error``, which a call of MLX may have raised.

        A collective operation that fails says that a connection was lost. This waits until it is
        known which rank has failed and why.
        """
        return self._reason_of(error) if is_lost_connection(error) else error

    def fail(self, failure: Failure) -> None:
        """End the run on all ranks. For any thread; returns at once.

        Only the first failure counts. Requests fail, and the process ends within seconds.
        """
        with self._lock:
            if self._failure is not None or self._has_ended:
                return
            self._failure = failure
        # First of all, since any of the following may block.
        seconds = _DELIVERY_SECONDS if self.leads else _REPORT_SECONDS
        _call_later(seconds, _exit, _FAILED)
        # This thread needs no interpreter lock, which a call of MLX may hold for ever.
        with suppress(OSError, ValueError, AttributeError, RuntimeError):
            faulthandler.dump_traceback_later(seconds + _FLUSH_SECONDS + 1, exit=True)
        if self._liveness is not None:
            self._liveness.report(failure)
        self._decided.set()
        error = failure.error()
        for member in list(self._members):
            member.abort(error)
        with suppress(OSError, ValueError, AttributeError):
            print(f"proxy-engine: {failure} (rank {self.rank} ends)", file=sys.stderr, flush=True)
        self._is_printed.set()
        if self._leading is not None:
            # Threads that send wake up.
            self._leading.close()

    def peer_failed(self, failure: Failure) -> None:
        """End the run, on the thread of the heartbeats."""
        self.fail(failure)

    def leader_ended(self) -> None:
        """Let this process end after rank 0, on the thread of the heartbeats."""
        self._end(is_told=False)
        # The main thread may be blocked in a collective operation.
        _call_later(_END_SECONDS, _exit, 0)

    def end(self) -> None:
        """End the run in order; rank 0 calls it before its process ends. Idempotent."""
        # An operation that is under way needs the other ranks.
        for member in list(self._members):
            member.close()
        self._end(is_told=True)

    def _end(self, *, is_told: bool) -> None:
        with self._lock:
            if self._failure is not None or self._has_ended:
                return
            self._has_ended = True
        self._decided.set()
        if self._leading is not None and is_told:
            self._leading.end()
        if self._liveness is not None:
            self._liveness.end() if is_told else self._liveness.stop()

    def _reason_of(self, error: BaseException) -> BaseException:
        self._decided.wait(SILENCE_SECONDS + 1)
        if self._has_ended:
            return DistributedError("rank 0 has ended", rank=0)
        self.fail(Failure(None, str(error)))
        return error if self._failure is None else self._failure.error()

    def _stop_following(self, error: Exception) -> None:
        """End the process after an error, unless rank 0 has ended."""
        explained = self.explain(error)
        if self._has_ended:
            return
        if isinstance(explained, DistributedError):
            self.fail(Failure(explained.rank, explained.what))
        else:
            if not isinstance(explained, ProxyError):
                traceback.print_exception(explained)
            self.fail(Failure(self.rank, f"{type(explained).__name__}: {explained}"))
        while True:
            time.sleep(_DELIVERY_SECONDS)

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            # A forked child shares the connections, and is no rank.
            return
        try:
            if self.leads and self._failure is None:
                self.end()
            # MLX calls MPI_Finalize when the group is freed. Threads keep this object alive.
            self._group = None
        finally:
            # The program may have caught the error of its requests.
            if self._failure is not None:
                # The thread that found the failure may be about to print it.
                self._is_printed.wait(_PRINT_SECONDS)
                _exit(_FAILED)

    def _terminated(self, number: int, _: FrameType | None) -> None:
        """Handle SIGTERM on rank 0: end in order, or deliver errors if a rank has failed.

        ``mlx.launch`` terminates all ranks as soon as one of them has failed.
        """
        if self._failure is None:
            if os.getpid() == self._pid:
                self._end(is_told=True)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


_joining = threading.Lock()
_joined: list[Session] = []


def join() -> Session:
    """Join the process group, and return this process's part in the run.

    Every rank has to call it; it waits until all do. Further calls return the same object.

    Raises:
        InvalidOptionError: No launcher has started the process.
        DistributedError: The group cannot be formed, or the ranks cannot connect.
    """
    with _joining:
        if not _joined:
            launch = detect_launch(os.environ)
            try:
                # A backend refuses to form a group of a single rank.
                backend = "any" if launch.is_single else launch.backend
                group = _single_group() if launch.is_single else mx.distributed.init(True, backend)
            except RuntimeError as error:
                raise DistributedError(f"the ranks cannot form a group: {error}") from error
            _joined.append(Session(group, launch.addresses))
        return _joined[0]


def joined() -> Session | None:
    """Return this process's part in a run; ``None`` if it has joined none."""
    return _joined[0] if _joined else None


def _single_group() -> mx.distributed.Group:
    # Without a launcher's variables, this backend falls back to a group of one rank.
    return mx.distributed.init(backend="jaccl")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _handles_termination() -> bool:
    """Whether a handler of SIGTERM can be set and takes no other one's place."""
    return _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def _call_later(seconds: float, function: Callable[..., object], *arguments: Any) -> None:
    timer = threading.Timer(seconds, function, arguments)
    timer.daemon = True
    timer.start()


def _exit(status: int) -> NoReturn:
    """End the process without its interpreter, which would wait for blocked threads."""
    # Flushing blocks if nobody reads the output.
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(_FLUSH_SECONDS)
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A stream that was closed at the start is `None`.
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
