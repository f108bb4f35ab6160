"""A client's session: its commands, its model, and its running requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from ..conversation.encoded_prompt import RawPrompt
from ..errors import EngineClosedError
from ..options.fields import given_options
from ..requests.worker import on_own_thread
from ..results.events import Finished, StreamEvent, TokenGenerated
from ..runtime import process_runtime
from .commands import (
    CancelCommand,
    ChatCommand,
    Command,
    GenerateCommand,
    InfoCommand,
    LoadCommand,
    QuitCommand,
    RequestId,
    id_of,
    parse_command,
    parse_object,
)
from .errors import DuplicateIdError, NoModelError, ProtocolError, TooManyRequestsError
from .replies import (
    CancelledReply,
    InfoReply,
    LoadedReply,
    ModelFacts,
    QuitReply,
    Reply,
    error_reply,
    event_reply,
)
from .token_texts import TokenTexts

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..engine.inference_engine import InferenceEngine
    from ..results.streams import AsyncEventStream

MakeEngine: TypeAlias = "Callable[[LoadCommand], InferenceEngine]"
"""Loads a model; called on another thread."""

_MAX_REQUESTS = 4096


class _Request:
    """A request, which may be cancelled before its stream exists."""

    def __init__(self, id: RequestId) -> None:
        self.id = id
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
    """Executes commands concurrently, on one event loop.

    Args:
        reply: Called with every reply.
        make_engine: Loads a model; called on another thread.
        on_quit: Called after the reply to ``quit``.
        grace: Seconds for running requests to end when the session is closed.
        max_requests: The maximum number of running and waiting requests.
    """

    def __init__(
        self,
        reply: Callable[[Reply], None],
        make_engine: MakeEngine,
        on_quit: Callable[[], None],
        *,
        grace: float,
        max_requests: int = _MAX_REQUESTS,
    ) -> None:
        self._reply = reply
        self._make_engine = make_engine
        self._on_quit = on_quit
        self._grace = grace
        self._max_requests = max_requests
        self._requests: list[_Request] = []
        # The newest request without an id; the next one waits for it.
        self._unnamed: asyncio.Task[None] | None = None
        # Running commands, and the ids for their replies.
        self._tasks: dict[asyncio.Task[None], RequestId] = {}
        # Commands since the last load: the next load waits for them.
        self._since_load: set[asyncio.Task[None]] = set()
        self._engine: asyncio.Task[InferenceEngine] | None = None
        self._quitting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[bool] | None = None

    @property
    def is_quitting(self) -> bool:
        """Whether the client has sent ``quit``; later lines are ignored."""
        return self._quitting is not None

    @property
    def is_idle(self) -> bool:
        """Whether no command is running."""
        return not self._tasks

    @property
    def engine(self) -> InferenceEngine | None:
        """The loaded model's engine; ``None`` while none is loaded."""
        loading = self._engine
        is_ready = loading is not None and loading.done() and loading.exception() is None
        return loading.result() if loading is not None and is_ready else None

    def receive(self, line: bytes | ProtocolError) -> None:
        """Execute the command in a line, or start to. Blank lines are ignored."""
        if self.is_quitting or self._closing is not None:
            return
        if isinstance(line, bytes) and not line.strip():
            return
        id: RequestId = None
        try:
            if isinstance(line, ProtocolError):
                raise line
            given = parse_object(line)
            id = id_of(given)
            self.execute(parse_command(given))
        except Exception as error:
            self._reply(error_reply(id, error))

    def execute(self, command: Command) -> asyncio.Task[None] | None:
        """Execute a command, or start to.

        Returns:
            The task that ends after the last reply; ``None`` if that has been sent.

        Raises:
            ProtocolError: The command cannot be executed; no reply has been sent.
        """
        match command:
            case GenerateCommand() | ChatCommand():
                return self._generate(command)
            case LoadCommand():
                return self._load(command)
            case CancelCommand():
                self._cancel(command)
            case InfoCommand():
                self._reply(self._info(command))
            case QuitCommand():
                self._quitting = asyncio.ensure_future(self._end(command))
        return None

    async def finish(self) -> None:
        """Wait until no command is running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> bool:
        """Cancel all requests, close the engine, and ignore later lines. Idempotent.

        Returns:
            Whether all commands ended in time; the others are answered with an error.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        return await asyncio.shield(self._closing)

    async def _close(self) -> bool:
        for request in self._requests:
            request.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace)
        if self._tasks:
            for task, id in self._tasks.items():
                task.cancel()
                self._reply(error_reply(id, EngineClosedError("the bridge has ended")))
            return False
        if (engine := self.engine) is not None:
            closing = asyncio.ensure_future(on_own_thread(engine.close))
            await asyncio.wait([closing], timeout=self._grace)
            return closing.done()
        return True

    def _load(self, command: LoadCommand) -> asyncio.Task[None]:
        # Pending loads are limited, too.
        self._check_room(len(self._tasks) - len(self._requests))
        before, self._since_load = self._since_load, set()
        previous, self._engine = self._engine, None
        loading = asyncio.ensure_future(self._loaded(command, previous, before))
        self._engine = loading

        async def answer() -> None:
            engine = await asyncio.shield(loading)
            self._reply(LoadedReply(id=command.id, **dict(_facts(engine))))

        return self._begin(command.id, answer())

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
            await on_own_thread(previous.result().close)
            # Two models may not fit into memory: the old one is released first.
            del previous
            process_runtime.collect()
        return await asyncio.to_thread(self._make_engine, command)

    def _generate(self, command: GenerateCommand | ChatCommand) -> asyncio.Task[None]:
        loading = self._engine
        if loading is None:
            raise NoModelError("no model is loaded", hint='Send {"cmd": "load"} first.')
        is_named = command.id is not None
        if is_named and any(request.id == command.id for request in self._requests):
            raise DuplicateIdError(
                "a request with this id is running", hint="Give each request an id of its own."
            )
        self._check_room(len(self._requests))
        request = _Request(command.id)
        self._requests.append(request)
        if is_named:
            return self._begin(command.id, self._run(command, loading, request))
        # Replies without ids are attributed by their order.
        run = self._run(command, loading, request, self._unnamed)
        self._unnamed = self._begin(None, run)
        return self._unnamed

    def _check_room(self, taken: int) -> None:
        if taken >= self._max_requests:
            raise TooManyRequestsError(
                f"{self._max_requests} requests are running or waiting",
                limit=self._max_requests,
                hint="Wait for some of them to end.",
            )

    async def _run(
        self,
        command: GenerateCommand | ChatCommand,
        loading: asyncio.Task[InferenceEngine],
        request: _Request,
        previous: asyncio.Task[None] | None = None,
    ) -> None:
        try:
            if previous is not None:
                await asyncio.wait([previous])
                del previous
            last = await self._stream(command, loading, request)
        finally:
            self._requests.remove(request)
        # After the removal: once the client reads the reply, it may use the id again.
        self._reply(last)

    async def _stream(
        self,
        command: GenerateCommand | ChatCommand,
        loading: asyncio.Task[InferenceEngine],
        request: _Request,
    ) -> Reply:
        """Write the replies of a request as it runs; return its last one."""
        events = ("token",) if command.events is None else tuple(command.events)
        engine = await _engine_of(loading)
        stream = await engine.astream(
            _prompt(command),
            response_format=command.response_format,
            tools=command.tools,
            tool_choice=command.tool_choice,
            **given_options(command),
        )
        request.begin(stream)
        texts = TokenTexts(engine.vocabulary.token_bytes, engine.vocabulary.end_token_ids)
        async with stream:
            async for event in stream:
                ready: Iterable[StreamEvent[Any]] = (event,)
                if isinstance(event, TokenGenerated):
                    ready = texts.add(event)
                elif isinstance(event, Finished):
                    ready = texts.finish()
                for each in ready:
                    if each.type in events:
                        self._reply(event_reply(command.id, each))
                if isinstance(event, Finished):
                    return event_reply(command.id, event)
        raise AssertionError("a stream ends with Finished or an error")

    def _cancel(self, command: CancelCommand) -> None:
        target = command.id if command.target is None else command.target
        found = [request for request in self._requests if target in (None, request.id)]
        for request in found:
            request.cancel()
        self._reply(CancelledReply(id=command.id, cancelled=[request.id for request in found]))

    def _info(self, command: InfoCommand) -> InfoReply:
        engine = self.engine
        return InfoReply(
            id=command.id,
            is_loading=self._engine is not None and not self._engine.done(),
            model=None if engine is None else _facts(engine),
            running=[request.id for request in self._requests],
        )

    async def _end(self, command: QuitCommand) -> None:
        if command.wait:
            await self.finish()
        await self.close()
        self._reply(QuitReply(id=command.id))
        self._on_quit()

    def _begin(self, id: RequestId, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(self._answered(id, work))
        self._tasks[task] = id
        task.add_done_callback(self._tasks.pop)
        since = self._since_load
        since.add(task)
        task.add_done_callback(since.discard)
        return task

    async def _answered(self, id: RequestId, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            self._reply(error_reply(id, error))


async def _engine_of(loading: asyncio.Task[InferenceEngine]) -> InferenceEngine:
    try:
        # Shielded: other commands wait for it, too.
        return await asyncio.shield(loading)
    except Exception as error:
        raise NoModelError(
            f"the model could not be loaded: {error}", hint="Load another one."
        ) from error


def _prompt(command: GenerateCommand | ChatCommand) -> Prompt:
    if isinstance(command, ChatCommand):
        return command.messages
    if isinstance(command.prompt, str) and not command.raw:
        return command.prompt
    return RawPrompt(command.prompt)


def _facts(engine: InferenceEngine) -> ModelFacts:
    return ModelFacts(
        model=engine.model_name,
        model_type=engine.model_type,
        vocab_size=engine.vocabulary.size,
        context_length=engine.context_length,
        layers=engine.num_layers,
        hidden_size=engine.hidden_size,
        draft_model=engine.draft_model_name,
    )
