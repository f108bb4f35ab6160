"""Clients of the bridge: one in the same process, one of a subprocess; and an engine that is none."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any

from proxy_engine.bridge.commands import LoadCommand, ProtocolError
from proxy_engine.bridge.session import BridgeSession
from proxy_engine.results.events import Event, Finished, TokenGenerated
from proxy_engine.results.generation import GenerationResult
from proxy_engine.results.parts import Usage
from state_machines import Vocabulary

_SECONDS = 60.0

MakeEngine = Callable[[LoadCommand], Any]


class Client:
    """Hands lines to a session on the same event loop, and collects its lines."""

    def __init__(self, make_engine: MakeEngine) -> None:
        self.replies: list[dict[str, Any]] = []
        self.has_quit = False
        self.session = BridgeSession(self._take, make_engine, self._quit, grace=10)

    def send(self, *commands: dict[str, Any] | bytes | ProtocolError) -> None:
        """Hand over lines."""
        for command in commands:
            line = json.dumps(command).encode() if isinstance(command, dict) else command
            self.session.receive(line)

    async def ask(self, *commands: dict[str, Any] | bytes) -> list[dict[str, Any]]:
        """Send commands, and wait until they are executed; return the replies."""
        start = len(self.replies)
        self.send(*commands)
        await self.session.finish()
        return self.replies[start:]

    def _take(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert line.isascii()
        self.replies.append(json.loads(line))

    def _quit(self) -> None:
        self.has_quit = True


def run(scenario: Callable[[Client], Awaitable[None]], make_engine: MakeEngine) -> Client:
    """Run a scenario with a client, and close its session."""

    async def main() -> Client:
        client = Client(make_engine)
        try:
            await scenario(client)
        finally:
            assert await client.session.close()
        return client

    return asyncio.run(main())


class _FakeStream:
    def __init__(self, events: Iterable[Event], *, is_endless: bool) -> None:
        self._events = list(events)
        self._is_endless = is_endless
        self._told: list[int] = []
        self._cancelled = asyncio.Event()

    def __aiter__(self) -> _FakeStream:
        return self

    async def __anext__(self) -> Event:
        if self._events:
            event = self._events.pop(0)
            if isinstance(event, TokenGenerated):
                self._told.append(event.token_id)
            return event
        if self._is_endless:
            await self._cancelled.wait()
        return Finished(result=_result(self._told, is_cancelled=self._cancelled.is_set()))

    def cancel(self) -> None:
        self._cancelled.set()

    async def __aenter__(self) -> _FakeStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._cancelled.set()


def _result(token_ids: list[int], *, is_cancelled: bool) -> GenerationResult[None]:
    return GenerationResult(
        text="",
        parsed=None,
        finish_reason="cancelled" if is_cancelled else "stop",
        usage=Usage(1, len(token_ids), 0.0, 0.0),
        token_ids=tuple(token_ids),
        model="fake",
    )


class FakeEngine:
    """Tells scripted events; with ``is_endless`` it then waits to be cancelled."""

    model_name, model_type, context_length, draft_model_name = "fake", "none", None, None
    num_layers, hidden_size = 2, None
    tokenizer = SimpleNamespace(vocab_size=5)
    vocabulary = Vocabulary([b" ", b"b", b"c", b"d", b"a", b"{", b"</s>"], end_token_ids=[6])

    def __init__(self, *events: Event, is_endless: bool = False) -> None:
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.is_closed = False
        self._events = events
        self._is_endless = is_endless

    async def astream(self, prompt: Any, **asked: Any) -> _FakeStream:
        self.asked.append((prompt, asked))
        return _FakeStream(self._events, is_endless=self._is_endless)

    def close(self) -> None:
        self.is_closed = True


class BridgeProcess:
    """``python -m proxy_engine bridge``, or another ``program`` that does the same."""

    def __init__(self, *arguments: str, program: str | None = None) -> None:
        command = [*(["-c", program] if program else ["-m", "proxy_engine", "bridge"]), *arguments]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # A shell's background jobs ignore the signal, and their child processes inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        # A hanging process fails the test, with the output so far.
        self._timer = threading.Timer(_SECONDS, self.process.kill)
        self._timer.start()

    def send(self, *commands: dict[str, Any] | bytes) -> None:
        """Write lines."""
        assert self.process.stdin
        for command in commands:
            line = json.dumps(command).encode() if isinstance(command, dict) else command
            self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout
        reply: dict[str, Any] = json.loads(self.process.stdout.readline())
        return reply

    def last(self) -> dict[str, Any]:
        """The next reply that is no token."""
        while "token" in (reply := self.receive()):
            pass
        return reply

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.process.pid, number)

    def end(self) -> tuple[int, list[dict[str, Any]], str]:
        """Close the input and wait. Return the exit status, the remaining output and the log."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        out = b"" if self.process.stdout.closed else self.process.stdout.read()
        self.process.wait()
        self._timer.cancel()
        replies = [json.loads(line) for line in out.splitlines()]
        self._log.seek(0)
        return self.process.returncode, replies, self._log.read().decode()

    def __enter__(self) -> BridgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            # Closing flushes, and the reader may be gone.
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
