"""The answers that run: how many at a time, their events, their metrics, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Request

from ..conversation.messages import RawPrompt, template_messages
from ..conversation.prompts import Prompt
from ..options.overrides import OptionOverrides
from ..results.events import Finished, PromptProgress, StreamEvent, TokenGenerated
from ..results.generation import GenerationResult
from ..results.streams import AsyncEventStream
from ..runtime.extras import is_installed
from ..transcription.results import Transcript, TranscriptSegment
from .errors import ApiError, shutting_down
from .host import Host, Lease
from .metrics import Metrics
from .models import KnownModel, ModelChoice, ModelRegistry
from .response_store import ResponseStore
from .settings import ServerSettings
from .unknown_fields import UnknownFields

_MAX_RETRY_SECONDS = 60


class AdmissionQueue:
    """Slots for running and waiting answers. For one event loop.

    The engine schedules the answers itself; this only counts them.

    Args:
        max_running: Answers that run at a time.
        max_waiting: Answers that wait at a time.
        mean_seconds: Returns the mean duration of an answer, for ``Retry-After``.
        on_refused: Called with the number of answers that were refused because the queue is full.
    """

    def __init__(
        self,
        max_running: int,
        max_waiting: int,
        mean_seconds: Callable[[], float],
        on_refused: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._max_running = max_running
        self._max_waiting = max_waiting
        self._mean_seconds = mean_seconds
        self._on_refused = on_refused
        self._taken = 0
        self.is_closed = False

    @property
    def running(self) -> int:
        """The number of answers that run."""
        return min(self._taken, self._max_running)

    @property
    def waiting(self) -> int:
        """The number of answers that wait."""
        return self._taken - self.running

    @contextmanager
    def slots(self, count: int) -> Iterator[None]:
        """Hold slots for ``count`` answers, all or none, within the context.

        Raises:
            ApiError: 400 for more answers than the queue has slots; 503 if it is full or closed.
        """
        size = self._max_running + self._max_waiting
        if count > size:
            raise ApiError(
                400, f"{count} answers are too many; the maximum is {size}", code="too_many"
            )
        self.check_open()
        if self._taken + count > size:
            self._on_refused(count)
            raise ApiError(
                503,
                f"the queue is full: {self.running} answers run, {self.waiting} wait",
                code="queue_full",
                headers={"Retry-After": str(self._retry_seconds())},
            )
        self._taken += count
        try:
            yield
        finally:
            self._taken -= count

    def check_open(self) -> None:
        """Raise ``ApiError`` (503) if the queue is closed."""
        if self.is_closed:
            raise shutting_down()

    def _retry_seconds(self) -> int:
        rounds = (self._taken - self._max_running) / self._max_running + 1
        return min(_MAX_RETRY_SECONDS, max(1, math.ceil(rounds * self._mean_seconds())))


@dataclass(frozen=True, slots=True)
class Generation:
    """The arguments of ``InferenceEngine.astream`` for one answer."""

    prompt: Prompt
    response_format: Any = None
    tools: Sequence[Any] | None = None
    tool_choice: Any = None
    options: OptionOverrides = field(default_factory=OptionOverrides)


@dataclass(slots=True)
class _Progress:
    """Tokens of an answer so far. ``prompt_tokens`` counts prefilled tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    has_begun: bool = False
    is_counted: bool = False


Event: TypeAlias = "StreamEvent[Any] | TranscriptSegment | Transcript[Any]"
"""An event of an answer, or of a transcription, whose last event is its transcript."""

Received: TypeAlias = "tuple[int, Event | Exception]"
"""The index of an answer, and an event or the error of its stream."""


class Running(ABC):
    """What runs for a request. ``close`` ends it and frees its slots and the model.

    Args:
        lease: The model.
        answers: The number of answers.
        held: Resources that are freed when it is closed.
        metrics: Where to count.
        started: When the request began, as ``time.perf_counter`` has it.

    Attributes:
        left_out_tools: Why tools of the request are left out, by name.
    """

    def __init__(
        self, lease: Lease, answers: int, held: AsyncExitStack, metrics: Metrics, started: float
    ) -> None:
        self.lease = lease
        self.left_out_tools: Mapping[str, str] = {}
        self._held = held
        self._metrics = metrics
        self._started = started
        self._progress = [_Progress() for _ in range(answers)]
        self._results: list[GenerationResult[Any] | Transcript[Any]] = []
        self._events: asyncio.Queue[Received] = asyncio.Queue()
        # Received by `wait_for_output`, and not yielded yet.
        self._early: deque[Received] = deque()
        metrics.started.inc(answers)

    @abstractmethod
    def end(self) -> None:
        """Cancel it; it ends at its next token."""

    @abstractmethod
    async def _stop(self) -> None:
        """Cancel it, and wait for its end. Idempotent."""

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields of the request's log line."""
        usages = [result.usage for result in self._results]
        return {
            "prompt_tokens": sum(usage.prompt_tokens for usage in usages),
            "cached_tokens": sum(usage.cached_tokens for usage in usages),
            "completion_tokens": sum(usage.completion_tokens for usage in usages),
            "finish_reason": ",".join(result.finish_reason for result in self._results),
        }

    @property
    def completion_tokens(self) -> int:
        """The number of tokens so far."""
        return sum(progress.completion_tokens for progress in self._progress)

    @property
    def prompt_progress(self) -> PromptProgress | None:
        """The first event of an answer, which counts its prompt, until ``events`` yields it."""
        event = self._early[0][1] if self._early else None
        return event if isinstance(event, PromptProgress) else None

    async def wait_for_output(self, patience: float) -> None:
        """Wait until the prompt is processed and an answer begins, or for ``patience`` seconds.

        Raises:
            ApiError: 503 after ``end`` was called.
            Exception: The error of an answer that failed before any began.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not self._early or isinstance(self._early[-1][1], PromptProgress):
                    self._early.append(await self._events.get())
        event = self._early[-1][1] if self._early else None
        if isinstance(event, Exception) or _is_cancelled(_result_of(event)):
            # Raises the error, and counts the answer.
            async for _ in self.events():
                pass

    async def events(self) -> AsyncGenerator[tuple[int, Event], None]:
        """Yield each event with the index of its answer, until all answers are finished.

        Raises:
            ApiError: 503 after ``end`` was called.
            Exception: The first error of any of the streams.
        """
        left = len(self._progress)
        while left:
            early = self._early
            index, event = early.popleft() if early else await self._events.get()
            if isinstance(event, Exception):
                self._count(index, "failed")
                raise event
            result = _result_of(event)
            if result is None:
                self._follow(self._progress[index], event)
            else:
                left -= 1
                self._results.append(result)
                self._count(index, result.finish_reason)
                self._metrics.count_usage(result.usage)
                if _is_cancelled(result):
                    raise shutting_down()
            yield index, event

    async def close(self) -> None:
        """Cancel what still runs, and free everything held. Idempotent."""
        await self._stop()
        for index, progress in enumerate(self._progress):
            if not progress.is_counted:
                self._metrics.tokens["prompt_tokens"].inc(progress.prompt_tokens)
                self._metrics.tokens["completion_tokens"].inc(progress.completion_tokens)
            self._count(index, "cancelled")
        await self._held.aclose()

    def _follow(self, progress: _Progress, event: Event) -> None:
        if isinstance(event, PromptProgress):
            progress.prompt_tokens = event.processed
            return
        progress.completion_tokens += isinstance(event, TokenGenerated)
        if not progress.has_begun:
            progress.has_begun = True
            self._metrics.first_token.observe(time.perf_counter() - self._started)

    def _count(self, index: int, outcome: str) -> None:
        if not self._progress[index].is_counted:
            self._progress[index].is_counted = True
            self._metrics.answers.labels(outcome).inc()
            self._metrics.duration.observe(time.perf_counter() - self._started)


def _result_of(event: Event | None) -> GenerationResult[Any] | Transcript[Any] | None:
    """Return the result that the last event of an answer has; ``None`` for other events."""
    if isinstance(event, Finished):
        result: GenerationResult[Any] = event.result
        return result
    return event if isinstance(event, Transcript) else None


def _is_cancelled(result: GenerationResult[Any] | Transcript[Any] | None) -> bool:
    return result is not None and result.finish_reason == "cancelled"


class RunningAnswers(Running):
    """The answers of one request."""

    def __init__(
        self,
        lease: Lease,
        streams: Sequence[AsyncEventStream[Any]],
        held: AsyncExitStack,
        metrics: Metrics,
        started: float,
    ) -> None:
        super().__init__(lease, len(streams), held, metrics, started)
        self._streams = streams
        self._tasks = [
            asyncio.create_task(self._pump(index, stream)) for index, stream in enumerate(streams)
        ]

    def end(self) -> None:
        """Cancel all answers; each ends at its next token."""
        for stream in self._streams:
            stream.cancel()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _pump(self, index: int, stream: AsyncEventStream[Any]) -> None:
        try:
            async for event in stream:
                self._events.put_nowait((index, event))
        except Exception as error:
            # `events` raises it.
            self._events.put_nowait((index, error))


def _check_media(generations: Sequence[Generation], model: KnownModel) -> None:
    """Raise for a prompt with media if a model reads text only.

    Other models are checked once they are loaded: their processor knows the kinds they read.

    Raises:
        PromptError: The model does not read the media, or the prompt is malformed.
    """
    # The error of a multimodal model that lacks its extra is another one.
    if model.input_modalities != {"text"} or not is_installed("vision"):
        return
    for generation in generations:
        if not isinstance(generation.prompt, RawPrompt):
            in_history = generation.options.get("media_in_history", "placeholder")
            template_messages(generation.prompt, (), in_history)


@dataclass(slots=True)
class Services:
    """The shared objects, and the answers that run.

    ``recordings`` limits the recordings that are in memory.
    """

    settings: ServerSettings
    registry: ModelRegistry
    host: Host
    queue: AdmissionQueue
    metrics: Metrics
    responses: ResponseStore
    recordings: asyncio.Semaphore
    unknown_fields: UnknownFields
    running: set[Running] = field(default_factory=set)

    def drain(self) -> None:
        """Refuse new requests."""
        self.queue.is_closed = True
        self.host.is_draining = True

    def end_running(self) -> None:
        """Cancel all answers; each ends at its next token."""
        for answers in list(self.running):
            answers.end()


# `async` although it awaits nothing: FastAPI calls other functions on a thread.
async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOfRequest = Annotated[Services, Depends(_services)]


async def begin(
    generations: Sequence[Generation], choice: ModelChoice, services: Services
) -> RunningAnswers:
    """Take slots and the model, and start the answers.

    Args:
        generations: The answers to generate.
        choice: The model. A model of text is not loaded for a prompt with images.
        services: The application's shared objects.

    Raises:
        ApiError: The queue is full, or there is no such model, or it answers no prompts.
        ProxyError: As ``InferenceEngine.astream`` raises it.
    """
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        stack.enter_context(services.queue.slots(len(generations)))
        check = partial(_check_media, generations)
        lease = await stack.enter_async_context(services.host.lease(choice, check))
        # The server may have begun to shut down meanwhile.
        services.queue.check_open()
        streams = []
        for generation in generations:
            stream = await lease.engine.astream(
                generation.prompt,
                response_format=generation.response_format,
                tools=generation.tools,
                tool_choice=generation.tool_choice,
                **generation.options,
            )
            stack.push_async_callback(stream.aclose)
            streams.append(stream)
        # From here on the returned object owns the slots, the model and the streams.
        held = stack.pop_all()
        answers = RunningAnswers(lease, streams, held, services.metrics, started)
        services.running.add(answers)
        held.callback(services.running.discard, answers)
        return answers
