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
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..options import MAX_COUNT
from .commands import (
    COMMANDS,
    CancelCommand,
    Command,
    GenerationCommand,
    parse_command,
    parse_object,
)
from .errors import InvalidFieldError, ProtocolError, TooManyRequestsError
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

_log = logging.getLogger(__name__)

_MAX_WAITING = 4096
_MAX_LOGGED_NAMES = 100
_DEFAULT_MAX_TOKENS = 256
_PENALTY_WINDOW = 20
_MESSAGE_KEYS = {
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning",
    "reasoning_content",
}
# Replies have no ids, and token lines are the only events.
_OTHER_FIELDS = {"id", "events", "raw", "continue_final_message"}


@dataclass(slots=True)
class _Item:
    """A command that waits for its turn, or the error to answer in its place."""

    name: str
    command: Command | ProtocolError
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
        self._current = _Item("", CancelCommand(cmd="cancel"))
        self._worker: asyncio.Task[None] | None = None
        self._is_ended = False
        self._ignored: set[str] = set()

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
            name = str(given.get("cmd")) if given.get("cmd") in COMMANDS else ""
            command = self._command(given)
        except ProtocolError as error:
            self._enqueue(_Item(name, error))
            return
        if name == "cancel":
            self._cancel()
        elif name == "quit":
            self._is_ended = True
            self._on_quit()
        else:
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
            item = self._current = self._waiting.popleft()
            try:
                if isinstance(item.command, ProtocolError):
                    raise item.command
                task = self._session.execute(item.command)
                if item.is_cancelled:
                    self._session.execute(CancelCommand(cmd="cancel"))
                if task is not None:
                    await asyncio.wait([task])
            except ProtocolError as error:
                self._take(error_reply(None, error))

    def _command(self, given: dict[str, Any]) -> Command:
        """Return the command of protocol 1 that equals a command of this protocol."""
        model = COMMANDS.get(str(given.get("cmd")))
        if model is None:
            return parse_command(given)
        fields: dict[str, Any] = {}
        for name, value in given.items():
            if name not in model.model_fields.keys() - _OTHER_FIELDS | {"repeat_penalty"}:
                self._report_ignored(name)
            elif value is not None:
                fields[name] = _integral(value)
        if issubclass(model, GenerationCommand):
            fields = _sampling(fields)
        if isinstance(messages := fields.get("messages"), list):
            fields["messages"] = [self._message(message) for message in messages]
        match given["cmd"]:
            case "load" if not fields.get("path"):
                raise InvalidFieldError("path is missing", field="/path")
            case "generate":
                fields = {"prompt": ""} | fields | {"raw": True}
            case "chat":
                fields = fields | {"continue_final_message": False}
        return parse_command(fields)

    def _message(self, given: Any) -> Any:
        """Return a message without unknown fields, and without zero values of optional ones.

        A struct of a typed language has all of its fields in every message.
        """
        if not isinstance(given, dict):
            return given
        for name in given.keys() - _MESSAGE_KEYS:
            self._report_ignored(f"messages[].{name}")
        return {
            name: value
            for name, value in given.items()
            if name in ("role", "content") or (value and name in _MESSAGE_KEYS)
        }

    def _report_ignored(self, name: str) -> None:
        if name not in self._ignored and len(self._ignored) < _MAX_LOGGED_NAMES:
            self._ignored.add(name)
            _log.warning("the field %.80r is ignored", name)

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
                name = self._current.name
                return {"error": f"{name}: {error.message}" if name else error.message}
        return None

    def _vocab_size(self) -> int:
        """Return the tokenizer's size. The model's logits can be wider, and are in protocol 1."""
        engine = self._session.engine
        assert engine is not None
        return int(engine.tokenizer.vocab_size)


def _sampling(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a generation with mlx-lm's meaning of values that turn a filter off."""
    fields = {"max_tokens": _DEFAULT_MAX_TOKENS} | fields
    penalty = fields.pop("repeat_penalty", None)
    if _is_number(penalty) and penalty <= 1:
        penalty = None
    if penalty is not None:
        fields = {"repetition_penalty": penalty, "penalty_window": _PENALTY_WINDOW} | fields
    for name, is_off in _OFF.items():
        if _is_number(fields.get(name)) and is_off(fields[name]):
            del fields[name]
    if _is_number(fields["max_tokens"]) and fields["max_tokens"] < 0:
        fields["max_tokens"] = MAX_COUNT
    return {"temperature": 0} | fields


_OFF: dict[str, Callable[[float], bool]] = {
    "temperature": lambda value: value <= 0,
    "top_p": lambda value: value <= 0 or value >= 1,
    "top_k": lambda value: value <= 0,
}


def _integral(value: Any) -> Any:
    """Return ``256`` for ``256.0``, which some encoders write for integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ignore() -> None:
    pass
