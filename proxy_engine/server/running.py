"""The answers of a request that run: their start, their events, their metrics, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

from fastapi import Depends, Request

from ..results.events import Finished, PromptProgress, StreamEvent, TokenGenerated
from ..results.generation import GenerationResult
from ..transcription.results import Transcript, TranscriptSegment
from .admission import Admission, Host, Lease
from .errors import PartName, shutting_down
from .metrics import Metrics
from .models import KnownModel, ModelChoice, ModelRegistry
from .response_items import ResponseStore
from .settings import ServerSettings
from .unknown_fields import UnknownFields

Event: TypeAlias = "StreamEvent[Any] | TranscriptSegment | Transcript[Any]"
"""An event of an answer, or of a transcription, whose last event is its transcript."""

Received: TypeAlias = "tuple[int, Event | Exception]"
"""The index of an answer, and an event or the error of its stream."""

E = TypeVar("E", covariant=True)


class AnswerEvents(Awaitable[Any], AsyncIterable[E], Protocol[E]):
    """The events of an answer, such as an ``AsyncEventStream``. Awaiting it checks its request."""

    def cancel(self) -> None:
        """End the answer at its next token."""

    async def aclose(self) -> None:
        """Cancel the answer, and wait for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest(ABC):
    """A request of an endpoint, converted for the engine.

    Attributes:
        model: The model.
        is_streamed: Whether to stream the response.
        names: The endpoint's names for the engine's parameters, where they differ. ``media`` stands
            for a recording or an image.
        part_name: The endpoint's names for content parts.
        prompts: The prompts of its answers, for the log.
    """

    model: ModelChoice
    is_streamed: bool
    names: Mapping[str, str]
    part_name: PartName | None = None
    prompts: Sequence[Any]

    @abstractmethod
    def check_model(self, model: KnownModel) -> None:
        """Raise ``ProxyError`` for a model that cannot serve it, before the model is loaded."""

    @abstractmethod
    async def start(self, lease: Lease) -> tuple[Sequence[AnswerEvents[Event]], Mapping[str, str]]:
        """Start its answers.

        Returns:
            The answers, and why tools of the request are left out, by name.

        Raises:
            ProxyError: The engine refuses the request.
        """


@dataclass(slots=True)
class Services:
    """The objects that all requests share."""

    settings: ServerSettings
    registry: ModelRegistry
    host: Host
    admission: Admission
    metrics: Metrics
    responses: ResponseStore
    unknown_fields: UnknownFields


# `async` although it awaits nothing: FastAPI calls other functions on a thread.
async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOfRequest = Annotated[Services, Depends(_services)]


async def begin(request: ServedRequest, services: Services) -> Running:
    """Admit a request, and start its answers.

    Raises:
        ApiError: As ``Admission.admit`` raises it.
        ProxyError: The engine refuses the request.
    """
    started = time.perf_counter()
    async with AsyncExitStack() as stack:
        admitted = services.admission.admit(
            len(request.prompts), request.model, request.check_model
        )
        lease = await stack.enter_async_context(admitted)
        answers, left_out_tools = await request.start(lease)
        # From here on the returned object owns the place and the model.
        held = stack.pop_all()
        running = Running(lease, answers, left_out_tools, held, services.metrics, started)
        held.enter_context(services.admission.cancellable(running.cancel))
        return running


@dataclass(slots=True)
class _Progress:
    """Tokens of an answer so far. ``prompt_tokens`` counts prefilled tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    has_begun: bool = False
    is_counted: bool = False


class Running:
    """The answers of one request. ``close`` ends them, and frees their places and the model.

    Args:
        lease: The model.
        answers: The answers.
        left_out_tools: Why tools of the request are left out, by name.
        held: Resources that are freed when it is closed.
        metrics: Where to count.
        started: When the request began, as ``time.perf_counter`` has it.
    """

    def __init__(
        self,
        lease: Lease,
        answers: Sequence[AnswerEvents[Event]],
        left_out_tools: Mapping[str, str],
        held: AsyncExitStack,
        metrics: Metrics,
        started: float,
    ) -> None:
        self.lease = lease
        self.left_out_tools = left_out_tools
        self._held = held
        self._metrics = metrics
        self._started = started
        self._answers = answers
        self._progress = [_Progress() for _ in answers]
        self._results: list[GenerationResult[Any] | Transcript[Any]] = []
        self._events: asyncio.Queue[Received] = asyncio.Queue()
        # Received by `wait_for_output`, and not yielded yet.
        self._early: deque[Received] = deque()
        self._tasks = [
            asyncio.create_task(self._pump(index, answer)) for index, answer in enumerate(answers)
        ]
        metrics.started.inc(len(answers))

    @property
    def log_fields(self) -> dict[str, Any]:
        """Fields of the request's log line."""
        usages = [result.usage for result in self._results]
        recordings = [result.duration for result in self._results if isinstance(result, Transcript)]
        return {
            **({"audio_seconds": round(sum(recordings), 2)} if recordings else {}),
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
            ApiError: 503 after ``cancel`` was called.
            Exception: The error of an answer that failed before any began.
        """
        # A recording is decoded meanwhile, which may take longer.
        await asyncio.gather(*self._answers)
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
            ApiError: 503 after ``cancel`` was called.
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

    def cancel(self) -> None:
        """Cancel all answers; each ends at its next token."""
        for answer in self._answers:
            answer.cancel()

    async def close(self) -> None:
        """Cancel what still runs, and free everything held. Idempotent."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for index, progress in enumerate(self._progress):
            if not progress.is_counted:
                self._metrics.tokens["prompt_tokens"].inc(progress.prompt_tokens)
                self._metrics.tokens["completion_tokens"].inc(progress.completion_tokens)
            self._count(index, "cancelled")
        for answer in self._answers:
            await answer.aclose()
        await self._held.aclose()

    async def _pump(self, index: int, answer: AnswerEvents[Event]) -> None:
        try:
            async for event in answer:
                self._events.put_nowait((index, event))
        except Exception as error:
            # `events` raises it.
            self._events.put_nowait((index, error))

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
