"""Batches: requests that differ in more than the prompt, and streams of their outcomes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..options.overrides import OptionOverrides
from .generation import GenerationResult
from .streams import AsyncStream, Stream

if TYPE_CHECKING:
    from ..conversation.messages import Prompt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request that differs from the others of its batch in more than the prompt.

    Attributes:
        prompt: The prompt.
        response_format: Overrides the batch's response format; ``None``: the same.
        tools: Overrides the batch's tools; ``None``: the same.
        tool_choice: Overrides the batch's tool choice; ``None``: the same.
        options: Options that override the batch's.
    """

    prompt: Prompt
    response_format: Any = None
    tools: Any = None
    tool_choice: Any = None
    options: OptionOverrides = field(default_factory=OptionOverrides)


@dataclass(frozen=True, slots=True)
class BatchItem(Generic[T]):
    """The outcome of one request of a batch: a result or an error.

    Attributes:
        index: Position of the request in the batch, from 0.
        result: The result, unless the request failed.
        error: The error, if the request failed.
    """

    index: int
    result: GenerationResult[T] | None = None
    error: Exception | None = None


class BatchStream(Stream[BatchItem[T | None]], Generic[T]):
    """An iterator over the outcomes of a batch.

    Requests are read from the iterable as they can be run, so there may be any number of them. An
    error of one request is stored in its item. ``next`` raises if the iterable raises or the engine
    is closed; the other requests are then cancelled. Closing or dropping the stream cancels all
    requests. ``parsed`` of a cancelled request is ``None``.
    """

    def cancel(self) -> None:
        """Stop all requests at their next token, and begin no more. For any thread.

        The stream continues with the items of the requests that have begun.
        """
        self._cancel()


class AsyncBatchStream(AsyncStream[BatchItem[T | None]], Generic[T]):
    """:class:`BatchStream` for an event loop. A cancelled task cancels the requests."""

    def cancel(self) -> None:
        """Stop all requests at their next token; see :meth:`BatchStream.cancel`."""
        self._cancel()
