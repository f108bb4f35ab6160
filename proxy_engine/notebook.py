"""Streams in notebooks: the answer is displayed while it is generated."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar

from .errors import EngineError
from .results.events import (
    AnswerRejected,
    Event,
    Finished,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenGenerated,
    ToolCallDelta,
    ToolCallStarted,
    ToolInputDelta,
)
from .results.generation import GenerationResult
from .results.notebook_view import ShownSegment, kind_of, running_html
from .results.streams import AsyncEventStream, EventStream
from .runtime.extras import import_extra

__all__ = ["LiveView", "ashow", "show"]

T = TypeVar("T")

SECONDS_BETWEEN_UPDATES = 0.1
"""Shortest time between two updates of the display."""

_MEASURED_SECONDS = 0.5
"""Shortest time from which a speed is computed."""


def show(stream: EventStream[T]) -> GenerationResult[T]:
    """Display the answer of a stream while it is generated, and return its result.

    The cell shows the progress of the prompt, then the answer so far by part, and at last the
    result. Interrupting the cell cancels the request. Outside of notebooks IPython displays plain
    text. As in ``result = show(engine.stream("Hi"))``: a call that is the last expression of a cell
    displays the result a second time.

    Args:
        stream: A stream that no event was read from.

    Raises:
        MissingExtraError: IPython is not installed.
        EngineError: The stream has ended already.
        ProxyError: The error of the request.
    """
    display = _Display()
    with stream:
        for event in stream:
            display.add(event)
    return display.result()


async def ashow(stream: AsyncEventStream[T]) -> GenerationResult[T]:
    """Display an asynchronous stream, as :func:`show` does.

    Notebooks run an event loop: ``result = await ashow(engine.astream("Hi"))``.
    """
    display = _Display()
    async with stream:
        async for event in stream:
            display.add(event)
    return display.result()


class LiveView:
    """The answer so far of a stream.

    Args:
        clock: Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._segments: list[ShownSegment] = []
        self._processed = self._prompt_tokens = self._tokens = 0
        self._first = self._last = 0.0

    def add(self, event: Event) -> None:
        """Take an event of the stream."""
        match event:
            case PromptProgress(processed=processed, total=total):
                self._processed, self._prompt_tokens = processed, total
            case TokenGenerated():
                self._last = self._clock()
                self._first = self._first or self._last
                self._tokens += 1
            case AnswerRejected():
                self._segments.clear()
            case ReasoningDelta(part=part, text=text):
                self._append(kind_of(part), text)
            case TextDelta(part=part, text=text):
                self._append(kind_of(part, is_value=part != "text"), text)
            case ToolCallStarted(part=part, name=name):
                self._append(kind_of(part), f"\n{name} " if self._segments else f"{name} ")
            case ToolCallDelta(part=part, arguments=text) | ToolInputDelta(part=part, input=text):
                self._append(kind_of(part), text)

    def _append(self, kind: str, text: str) -> None:
        last = self._segments[-1] if self._segments else None
        if last is not None and last.kind == kind:
            self._segments[-1] = last._replace(text=last.text + text)
        else:
            self._segments.append(ShownSegment(kind, text))

    @property
    def tokens_per_second(self) -> float:
        """Speed of generation after the first token; 0 until it is known."""
        seconds = self._last - self._first
        return (self._tokens - 1) / seconds if seconds >= _MEASURED_SECONDS else 0.0

    @property
    def status(self) -> str:
        """The progress of the prompt, then the number and speed of tokens."""
        if not self._tokens:
            return f"prompt: {self._processed:,} of {self._prompt_tokens:,} tokens"
        speed = f", {self.tokens_per_second:.1f} a second" if self.tokens_per_second else ""
        return f"{self._tokens:,} tokens{speed} …"

    def __str__(self) -> str:
        return "".join(segment.text for segment in self._segments) or self.status

    def _repr_html_(self) -> str:
        """Return the answer so far as HTML, which notebooks show."""
        return running_html(self._segments, self.status)


class _Display:
    """Updates one output of a cell, at most every :data:`SECONDS_BETWEEN_UPDATES`."""

    def __init__(self) -> None:
        module = import_extra("notebook", "IPython.display", purpose="the display of a stream")
        self._view = LiveView()
        self._handle: Any = module.DisplayHandle()
        self._handle.display(_bundle(self._view), raw=True)
        self._updated = perf_counter()
        self._result: GenerationResult[Any] | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._result = event.result
            self._handle.update(_bundle(event.result), raw=True)
            return
        self._view.add(event)
        now = perf_counter()
        if now - self._updated >= SECONDS_BETWEEN_UPDATES:
            self._updated = now
            self._handle.update(_bundle(self._view), raw=True)

    def result(self) -> GenerationResult[Any]:
        if self._result is None:
            raise EngineError("the stream has no more events", hint="Show a new stream")
        return self._result


def _bundle(shown: Any) -> dict[str, str]:
    """Return the MIME bundle of an object."""
    text = shown.text if isinstance(shown, GenerationResult) else str(shown)
    return {"text/html": shown._repr_html_(), "text/plain": text}
