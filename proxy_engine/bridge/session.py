"""A client's session: its commands, executed in their order, and its model.

A line is a JSON object::

    {"cmd": "load", "path": p}            {"ok": true, "model_type": …, "vocab_size": …}
    {"cmd": "generate", "prompt": …, …}   {"token": text, "token_id": n}, …
    {"cmd": "chat", "messages": […], …}   {"done": true, "tokens_generated": n}
    {"cmd": "info"}                       {"model_type", "vocab_size", "layers", "hidden_size"}
    {"cmd": "cancel"}, {"cmd": "quit"}    no reply
    any error                             {"error": text}
"""

from __future__ import annotations

import asyncio
import codecs
import json
import sys
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from state_machines import Vocabulary
from state_machines.errors import ProxyError

from ..conversation.messages import RawPrompt
from ..errors import EngineClosedError
from ..options.fields import given_options
from ..results.events import Finished, TokenGenerated
from ..runtime import process_runtime
from ..runtime.worker import on_own_thread
from .commands import (
    COMMANDS,
    CancelCommand,
    ChatCommand,
    Command,
    CommandReader,
    GenerateCommand,
    InfoCommand,
    LoadCommand,
    ProtocolError,
    QuitCommand,
    parse_object,
)

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..engine.inference_engine import InferenceEngine
    from ..results.streams import AsyncEventStream


class TokenDecoder:
    """Decodes the tokens of one answer, as replies with ``token`` and ``token_id``.

    A token that ends within a character is held back until later tokens complete the character. The
    last of these tokens has their text, the others have none.

    Args:
        token_bytes: The bytes of each token.
        end_token_ids: Tokens that end an answer; their text is empty. Other special tokens have
            their names as text.
    """

    def __init__(self, token_bytes: Sequence[bytes | None], end_token_ids: Collection[int]) -> None:
        self._token_bytes = token_bytes
        self._end_token_ids = end_token_ids
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[int] = []
        self._text = ""

    def add(self, token_id: int) -> list[dict[str, Any]]:
        """Return the replies whose text is certain."""
        self._held.append(token_id)
        form = b""
        if token_id not in self._end_token_ids:
            form = self._token_bytes[token_id] or b""
        self._text += self._decoder.decode(form.removeprefix(Vocabulary.SPECIAL_MARK))
        return [] if self._decoder.getstate()[0] else self._take()

    def finish(self) -> list[dict[str, Any]]:
        """Return the replies that were held back; an incomplete character becomes ``�``."""
        self._text += self._decoder.decode(b"", final=True)
        return self._take()

    def _take(self) -> list[dict[str, Any]]:
        replies = [{"token": "", "token_id": token_id} for token_id in self._held]
        if replies:
            replies[-1]["token"] = self._text
        self._held, self._text = [], ""
        return replies


MakeEngine: TypeAlias = "Callable[[LoadCommand], InferenceEngine]"
"""Loads a model; called on another thread."""

_MAX_WAITING = 4096


class _QueuedCommand:
    """A command that waits or runs, or the error that answers it."""

    def __init__(self, name: str, command: Command | Exception) -> None:
        self.name = name
        self.command = command
        self._is_cancelled = False
        self._stream: AsyncEventStream[Any] | None = None

    def begin(self, stream: AsyncEventStream[Any]) -> None:
        self._stream = stream
        if self._is_cancelled:
            stream.cancel()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.cancel()


class BridgeSession:
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
        self._make_engine = make_engine
        self._on_quit = on_quit
        self._grace = grace
        self._engine: InferenceEngine | None = None
        self._waiting: deque[_QueuedCommand] = deque()
        self._current: _QueuedCommand | None = None
        self._reader = CommandReader()
        self._work: asyncio.Task[None] | None = None
        self._is_ended = False

    @property
    def is_quitting(self) -> bool:
        """Whether the client has sent ``quit``; later lines are ignored."""
        return self._is_ended

    @property
    def is_idle(self) -> bool:
        """Whether no command is running."""
        return self._work is None or self._work.done()

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
            # Each line has a reply, and a defect of the reader ends no session.
            self._enqueue(_QueuedCommand(name, error))
            return
        match command:
            case CancelCommand():
                self._cancel()
            case QuitCommand():
                self._is_ended = True
                self._on_quit()
            case _:
                self._enqueue(_QueuedCommand(name, command))

    async def finish(self) -> None:
        """Wait until all commands are executed."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def close(self) -> bool:
        """Cancel all requests, close the engine, and ignore later lines.

        Returns:
            Whether the running command ended in time; otherwise it is answered with an error.
        """
        self._is_ended = True
        self._waiting.clear()
        self._cancel()
        if self._work is not None and (await asyncio.wait([self._work], timeout=self._grace))[1]:
            self._work.cancel()
            if self._current is not None:
                self._report(self._current, EngineClosedError("the bridge has ended"))
            return False
        if self._engine is None:
            return True
        closing = asyncio.ensure_future(on_own_thread(self._engine.close))
        return not (await asyncio.wait([closing], timeout=self._grace))[1]

    def _enqueue(self, item: _QueuedCommand) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            item = _QueuedCommand(item.name, ProtocolError(f"{_MAX_WAITING} commands wait"))
        self._waiting.append(item)
        if self.is_idle:
            self._work = asyncio.ensure_future(self._execute_all())

    def _cancel(self) -> None:
        """End the generations that were asked for so far. Each still gets its last reply."""
        for item in self._waiting:
            item.cancel()
        if self._current is not None:
            self._current.cancel()

    async def _execute_all(self) -> None:
        while self._waiting:
            self._current = item = self._waiting.popleft()
            try:
                await self._execute(item)
            except Exception as error:
                # As above: a defect is reported, and the next command is executed.
                self._report(item, error)
        self._current = None

    async def _execute(self, item: _QueuedCommand) -> None:
        match item.command:
            case Exception() as error:
                raise error
            case LoadCommand() as command:
                self._reply(await self._load(command))
            case InfoCommand():
                engine = self._loaded()
                shape = {"layers": engine.num_layers, "hidden_size": engine.hidden_size}
                self._reply(_facts(engine) | shape)
            case GenerateCommand(prompt=prompt) as command:
                await self._generate(item, command, RawPrompt(prompt))
            case ChatCommand(messages=messages) as command:
                await self._generate(item, command, messages)

    async def _load(self, command: LoadCommand) -> dict[str, Any]:
        engine, self._engine = self._engine, None
        if engine is not None:
            await on_own_thread(engine.close)
            # Two models may not fit into memory: the old one is released first.
            del engine
            process_runtime.collect()
        self._engine = await asyncio.to_thread(self._make_engine, command)
        return {"ok": True} | _facts(self._engine)

    async def _generate(
        self, item: _QueuedCommand, command: GenerateCommand | ChatCommand, prompt: Prompt
    ) -> None:
        engine = self._loaded()
        stream = await engine.astream(
            prompt,
            response_format=command.response_format,
            tools=command.tools,
            tool_choice=command.tool_choice,
            **given_options(command),
        )
        item.begin(stream)
        texts = TokenDecoder(engine.vocabulary.token_bytes, engine.vocabulary.end_token_ids)
        async with stream:
            async for event in stream:
                if isinstance(event, TokenGenerated):
                    self._reply(*texts.add(event.token_id))
                elif isinstance(event, Finished):
                    count = len(event.result.token_ids)
                    self._reply(*texts.finish(), {"done": True, "tokens_generated": count})
                    return

    def _loaded(self) -> InferenceEngine:
        if self._engine is None:
            raise ProtocolError("no model is loaded", hint='Send {"cmd": "load"} first.')
        return self._engine

    def _report(self, item: _QueuedCommand, error: Exception) -> None:
        """Answer with an error. The traceback of a defect is written to standard error."""
        text = str(error)
        if not isinstance(error, ProxyError):
            traceback.print_exception(error, file=sys.stderr)
            text = f"{type(error).__name__}: {error}"
        self._reply({"error": f"{item.name}: {text}" if item.name in COMMANDS else text})

    def _reply(self, *values: dict[str, Any]) -> None:
        for value in values:
            # ASCII, which no encoding in between can damage.
            self._write(f"{json.dumps(value, allow_nan=False)}\n".encode("ascii"))


def _facts(engine: InferenceEngine) -> dict[str, Any]:
    # The vocabulary has the size of the logits, which are wider than the tokenizer's.
    size = int(getattr(engine.tokenizer, "vocab_size", engine.vocabulary.size))
    return {"model_type": engine.model_type, "vocab_size": size}
