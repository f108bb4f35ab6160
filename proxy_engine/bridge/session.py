"""One client: its commands, the model, and the requests that run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import own_process
from ..errors import EngineClosedError
from ..option_fields import given_options
from .commands import (
    CancelCommand,
    ChatCommand,
    Command,
    GenerateCommand,
    InfoCommand,
    LoadCommand,
    QuitCommand,
    RequestId,
)
from .encoding import error_reply, event_reply, to_line
from .errors import DuplicateIdError, NoModelError, ProtocolError, TooManyRequestsError
from .parsing import id_of, read_command, read_object
from .replies import CancelledReply, InfoReply, LoadedReply, ModelFacts, QuitReply, Reply

if TYPE_CHECKING:
    from ..engine import InferenceEngine
    from ..requests.streams import AsyncEventStream

__all__ = ["MakeEngine", "Session"]

MakeEngine: TypeAlias = "Callable[[LoadCommand], InferenceEngine]"
"""Loads a model; called on another thread."""

_MOST_REQUESTS = 4096


class _Request:
    """A request from its command to its last reply."""

    def __init__(self) -> None:
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


class Session:
    """Carries out commands, each as soon as it can be; to be used on one event loop.

    ``write`` is handed every line of output, ``make_engine`` loads models, and ``quit`` is called
    when the client has asked for the end and was answered. ``grace`` is how many seconds it then
    takes at most for what runs to end.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        make_engine: MakeEngine,
        quit: Callable[[], None],
        *,
        grace: float,
        most_requests: int = _MOST_REQUESTS,
    ) -> None:
        self._write = write
        self._make_engine = make_engine
        self._quit = quit
        self._grace = grace
        self._most_requests = most_requests
        self._requests: dict[RequestId, _Request] = {}
        # What is under way, and whom it answers.
        self._tasks: dict[asyncio.Task[None], RequestId] = {}
        # What the next load waits for; the last one waits for all that was before it.
        self._since_load: set[asyncio.Task[None]] = set()
        self._engine: asyncio.Task[InferenceEngine] | None = None
        self._quitting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[bool] | None = None

    @property
    def is_quitting(self) -> bool:
        """Whether the client has asked for the end; nothing that comes after that is looked at."""
        return self._quitting is not None

    @property
    def is_idle(self) -> bool:
        """Whether no command is under way."""
        return not self._tasks

    def receive(self, line: bytes | ProtocolError) -> None:
        """Carry out what a line asks for, or begin to. Blank lines are none."""
        if self.is_quitting or self._closing is not None:
            return
        if isinstance(line, bytes) and not line.strip():
            return
        id: RequestId = None
        try:
            if isinstance(line, ProtocolError):
                raise line
            given = read_object(line)
            id = id_of(given)
            self._carry_out(read_command(given))
        except Exception as error:
            self._reply(error_reply(id, error))

    async def close(self) -> bool:
        """Cancel what runs, and close the engine; returns whether that was done in time.

        What was not is answered with an error. Nothing that comes later is looked at. Idempotent.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> bool:
        for request in self._requests.values():
            request.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)
        if self._tasks:
            for task, id in self._tasks.items():
                task.cancel()
                self._reply(error_reply(id, EngineClosedError("the bridge has ended")))
            return False
        if (engine := self._ready_engine()) is not None:
            closing = asyncio.ensure_future(asyncio.to_thread(engine.close))
            await asyncio.wait([closing], timeout=self._grace)
            return closing.done()
        return True

    def _carry_out(self, command: Command) -> None:
        match command:
            case GenerateCommand() | ChatCommand():
                self._generate(command)
            case LoadCommand():
                self._load(command)
            case CancelCommand():
                self._cancel(command)
            case InfoCommand():
                self._reply(self._info(command))
            case QuitCommand():
                self._quitting = asyncio.ensure_future(self._end(command))

    def _load(self, command: LoadCommand) -> None:
        # Models that are asked for and not yet loaded.
        self._check_room(len(self._tasks) - len(self._requests))
        before, self._since_load = self._since_load, set()
        previous, self._engine = self._engine, None
        loading = asyncio.ensure_future(self._loaded(command, previous, before))
        self._engine = loading

        async def answer() -> None:
            engine = await asyncio.shield(loading)
            self._reply(LoadedReply(id=command.id, **dict(_facts(engine))))

        self._begin(command.id, answer())

    async def _loaded(
        self,
        command: LoadCommand,
        previous: asyncio.Task[InferenceEngine] | None,
        before: set[asyncio.Task[None]],
    ) -> InferenceEngine:
        if before:
            await asyncio.wait(before)
        if self._closing is not None:
            raise EngineClosedError("the bridge has ended")
        before.clear()
        if previous is not None and previous.exception() is None:
            await asyncio.to_thread(previous.result().close)
            # Two models may not fit into memory: the old one goes first.
            del previous
            own_process.collect()
        return await asyncio.to_thread(self._make_engine, command)

    def _generate(self, command: GenerateCommand | ChatCommand) -> None:
        loading = self._engine
        if loading is None:
            raise NoModelError("no model is loaded", hint='Send {"cmd": "load"} first.')
        if command.id in self._requests:
            raise DuplicateIdError(
                "a request with this id is running"
                if command.id is not None
                else "a request without an id is running",
                hint="Give each its own id; replies are told apart by it.",
            )
        self._check_room(len(self._requests))
        request = self._requests[command.id] = _Request()
        self._begin(command.id, self._run(command, loading, request))

    def _check_room(self, taken: int) -> None:
        if taken >= self._most_requests:
            raise TooManyRequestsError(
                f"{self._most_requests} requests are running or waiting",
                limit=self._most_requests,
                hint="Wait for some of them.",
            )

    async def _run(
        self,
        command: GenerateCommand | ChatCommand,
        loading: asyncio.Task[InferenceEngine],
        request: _Request,
    ) -> None:
        try:
            last = await self._stream(command, loading, request)
        finally:
            del self._requests[command.id]
        # Only now, so that whoever is told may use the id again.
        self._reply(last)

    async def _stream(
        self,
        command: GenerateCommand | ChatCommand,
        loading: asyncio.Task[InferenceEngine],
        request: _Request,
    ) -> Reply:
        """Tell of a request as it runs; returns its last reply."""
        told = ("token",) if command.events is None else tuple(command.events)
        prompt = command.prompt if isinstance(command, GenerateCommand) else command.messages
        options = given_options(command)
        engine = await _engine_of(loading)
        stream = await engine.astream(
            prompt,
            response_format=command.response_format,
            tools=command.tools,
            tool_choice=command.tool_choice,
            **options,
        )
        request.begin(stream)
        async with stream:
            async for event in stream:
                if event.type == "finished":
                    return event_reply(command.id, event)
                if event.type in told:
                    self._reply(event_reply(command.id, event))
        raise AssertionError("a stream ends with Finished or an error")

    def _cancel(self, command: CancelCommand) -> None:
        target = command.id if command.target is None else command.target
        ids = [id for id in self._requests if target in (None, id)]
        for id in ids:
            self._requests[id].cancel()
        self._reply(CancelledReply(id=command.id, cancelled=ids))

    def _info(self, command: InfoCommand) -> InfoReply:
        engine = self._ready_engine()
        return InfoReply(
            id=command.id,
            is_loading=self._engine is not None and not self._engine.done(),
            model=None if engine is None else _facts(engine),
            running=list(self._requests),
        )

    async def _end(self, command: QuitCommand) -> None:
        if command.wait and self._tasks:
            await asyncio.wait(self._tasks)
        await self.close()
        self._reply(QuitReply(id=command.id))
        self._quit()

    def _begin(self, id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._answered(id, work))
        self._tasks[task] = id
        task.add_done_callback(self._tasks.pop)
        since = self._since_load
        since.add(task)
        task.add_done_callback(since.discard)

    async def _answered(self, id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._reply(error_reply(id, error))

    def _ready_engine(self) -> InferenceEngine | None:
        loading = self._engine
        is_ready = loading is not None and loading.done() and loading.exception() is None
        return loading.result() if loading is not None and is_ready else None

    def _reply(self, reply: Reply) -> None:
        self._write(to_line(reply))


async def _engine_of(loading: asyncio.Task[InferenceEngine]) -> InferenceEngine:
    try:
        # Shielded: others wait for it, too.
        return await asyncio.shield(loading)
    except Exception as error:
        raise NoModelError(
            f"the model could not be loaded: {error}", hint="Load another one."
        ) from error


def _facts(engine: InferenceEngine) -> ModelFacts:
    return ModelFacts(
        model=engine.model_name,
        model_type=engine.model_type,
        vocab_size=engine.vocabulary.size,
        context_length=engine.context_length,
    )
