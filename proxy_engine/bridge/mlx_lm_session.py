"""The protocol of bridges around mlx-lm: one command at a time, without ids.

Clients that start such a bridge as a subprocess work unmodified. A line is a JSON object::

    {"cmd": "load", "path": p}            {"ok": true, "model_type": …, "vocab_size": …}
    {"cmd": "generate", "prompt": …, …}   {"token": text, "token_id": n}, …
    {"cmd": "chat", "messages": […], …}   {"done": true, "tokens_generated": n}
    {"cmd": "info"}                       {"model_type", "vocab_size", "layers", "hidden_size"}
    {"cmd": "cancel"}, {"cmd": "quit"}    no reply
    any error                             {"error": text}
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .commands import COMMANDS, CancelCommand, Command, QuitCommand, parse_object
from .errors import ProtocolError, TooManyRequestsError
from .mlx_lm_commands import CommandReader
from .replies import (
    DoneReply,
    ErrorReply,
    InfoReply,
    LoadedReply,
    ModelFacts,
    Reply,
    TokenReply,
    error_reply,
)
from .session import MakeEngine, Session

_MAX_WAITING = 4096


@dataclass(slots=True)
class _Item:
    """A command that waits for its turn, or the error to answer in its place."""

    name: str
    command: Command | Exception
    is_cancelled: bool = False


class MlxLmSession:
    """Executes commands in their order, on one event loop.

    Args:
        write: Called with every line of output.
        make_engine: Loads a model; called on another thread.
        on_quit: Called when the client sends ``quit``. Earlier commands may still run.
        grace: Seconds for a running request to end when the session is closed.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        make_engine: MakeEngine,
        on_quit: Callable[[], None],
        *,
        grace: float,
    ) -> None:
        self._write = write
        self._on_quit = on_quit
        self._session = Session(self._take, make_engine, _ignore, grace=grace)
        self._waiting: deque[_Item] = deque()
        self._reader = CommandReader()
        # The name of the command whose replies are being written.
        self._name = ""
        self._worker: asyncio.Task[None] | None = None
        self._is_ended = False

    @property
    def is_quitting(self) -> bool:
        """Whether the client has sent ``quit``; later lines are ignored."""
        return self._is_ended

    @property
    def is_idle(self) -> bool:
        """Whether no command is running."""
        return self._worker is None or self._worker.done()

    def receive(self, line: bytes | ProtocolError) -> None:
        """Queue the command in a line. ``cancel`` and ``quit`` take effect at once."""
        if self._is_ended or (isinstance(line, bytes) and not line.strip()):
            return
        name = ""
        try:
            if isinstance(line, ProtocolError):
                raise line
            given = parse_object(line)
            name = str(given.get("cmd", ""))
            command = self._reader.read(given)
        except Exception as error:
            self._enqueue(_Item(name, error))
            return
        match command:
            case CancelCommand():
                self._cancel()
            case QuitCommand():
                self._is_ended = True
                self._on_quit()
            case _:
                self._enqueue(_Item(name, command))

    async def finish(self) -> None:
        """Wait until all commands are executed."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> bool:
        """Cancel all requests, close the engine, and ignore later lines.

        Returns:
            Whether the running command ended in time.
        """
        self._is_ended = True
        self._waiting.clear()
        return await self._session.close()

    def _enqueue(self, item: _Item) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            error = TooManyRequestsError(f"{_MAX_WAITING} commands wait", limit=_MAX_WAITING)
            item = _Item(item.name, error)
        self._waiting.append(item)
        if self.is_idle:
            self._worker = asyncio.ensure_future(self._work())

    def _cancel(self) -> None:
        """End the generations that were asked for so far. Each still gets its last reply."""
        for item in self._waiting:
            item.is_cancelled = True
        self._session.execute(CancelCommand(cmd="cancel"))

    async def _work(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            self._name = item.name
            try:
                if isinstance(item.command, Exception):
                    raise item.command
                task = self._session.execute(item.command)
                if item.is_cancelled:
                    self._session.execute(CancelCommand(cmd="cancel"))
                if task is not None:
                    await asyncio.wait([task])
            except Exception as error:
                self._take(error_reply(None, error))

    def _take(self, reply: Reply) -> None:
        if (value := self._encoded(reply)) is not None:
            self._write(f"{json.dumps(value, allow_nan=False)}\n".encode("ascii"))

    def _encoded(self, reply: Reply) -> dict[str, Any] | None:
        """Return the reply of this protocol; ``None`` if it has none."""
        match reply:
            case TokenReply(token=token, token_id=token_id):
                return {"token": token, "token_id": token_id}
            case DoneReply(tokens_generated=tokens_generated):
                return {"done": True, "tokens_generated": tokens_generated}
            case LoadedReply(model_type=model_type):
                return {"ok": True, "model_type": model_type, "vocab_size": self._vocab_size()}
            case InfoReply(model=None):
                return {"error": "info: no model is loaded"}
            case InfoReply(model=ModelFacts() as facts):
                return {
                    "model_type": facts.model_type,
                    "vocab_size": self._vocab_size(),
                    "layers": facts.layers,
                    "hidden_size": facts.hidden_size,
                }
            case ErrorReply(error=error):
                is_known = self._name in COMMANDS
                return {"error": f"{self._name}: {error.message}" if is_known else error.message}
        return None

    def _vocab_size(self) -> int:
        """Return the tokenizer's size. In protocol 1, it is that of the logits, which are wider."""
        engine = self._session.engine
        if engine is None:
            raise AssertionError("a model is loaded")
        return int(getattr(engine.tokenizer, "vocab_size", engine.vocabulary.size))


def _ignore() -> None:
    pass
