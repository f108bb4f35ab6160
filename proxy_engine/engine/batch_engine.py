"""Many requests at once, as methods of the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from ..checks.texts import as_list, short_repr
from ..conversation.messages import Prompt
from ..errors import BatchError, InvalidOptionError, PromptError
from ..requests.batches import AsyncBatchStream, BatchItem, BatchRequest, BatchStream, Begun
from ..results.generation import GenerationResult
from .request_arguments import RequestArguments

if TYPE_CHECKING:
    from pydantic import TypeAdapter as Adapter
    from typing_extensions import TypeForm

    from ..options.overrides import OptionOverrides

T = TypeVar("T")


class BatchEngine(ABC):
    """``generate_batch`` and its variants, built on single requests."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """Maximum number of requests that run together."""

    @abstractmethod
    def _begin(
        self,
        prompt: Prompt,
        response_format: Any,
        arguments: RequestArguments,
        *,
        counts_waiting: bool = True,
    ) -> Begun:
        """Check and queue a request.

        Args:
            prompt: The prompt.
            response_format: The response format.
            arguments: Tools and options.
            counts_waiting: Whether ``max_seconds`` includes the time in the queue.
        """

    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        **options: Unpack[OptionOverrides],
    ) -> list[GenerationResult[T]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        **options: Unpack[OptionOverrides],
    ) -> list[GenerationResult[T]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        **arguments: Unpack[RequestArguments],
    ) -> list[GenerationResult[T | None]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        **arguments: Unpack[RequestArguments],
    ) -> list[GenerationResult[T | None]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        return_exceptions: Literal[False] = False,
        **arguments: Unpack[RequestArguments],
    ) -> list[GenerationResult[Any]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        return_exceptions: bool,
        **arguments: Unpack[RequestArguments],
    ) -> list[GenerationResult[Any] | Exception]: ...
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        return_exceptions: bool = False,
        **arguments: Unpack[RequestArguments],
    ) -> list[Any]:
        """Answer many prompts, up to ``batch_size`` together, and return the results in order.

        Each request has its own masks, samplers, seed and limits. A failed request does not affect
        the others.

        Args:
            requests: Prompts; a ``BatchRequest`` has its own response format, tools or options.
            response_format: The response format; see :meth:`InferenceEngine.generate`.
            return_exceptions: Return exceptions in place of results, as ``asyncio.gather`` does.
            arguments: Tools and options; see :meth:`InferenceEngine.generate`.

        Raises:
            BatchError: Some requests failed. It has the results of the others.
            PromptError: ``requests`` is a string or not iterable.
        """
        with self.iter_batch(requests, response_format=response_format, **arguments) as stream:
            return _results(list(stream), return_exceptions=return_exceptions)

    @overload
    def iter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        *,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> BatchStream[T]: ...
    @overload
    def iter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        *,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> BatchStream[T]: ...
    @overload
    def iter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> BatchStream[T | None]: ...
    @overload
    def iter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> BatchStream[T | None]: ...
    @overload
    def iter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> BatchStream[Any]: ...
    def iter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> BatchStream[Any]:
        """Answer any number of prompts as a stream of ``BatchItem``; see :meth:`generate_batch`.

        Some ``4 * batch_size`` requests are read before the first item is returned, and more as
        items are read. The error of a request is in its item. Closing or dropping the stream
        cancels the running requests.

        Args:
            requests: As in :meth:`generate_batch`; may be an endless iterator.
            response_format: As in :meth:`generate_batch`.
            ordered: Return items in the order of the requests, or as they finish.
            arguments: As in :meth:`generate_batch`.

        Raises:
            PromptError: ``requests`` is a string or not iterable.
        """
        try:
            is_list = iter(requests) is not None and not isinstance(requests, str | bytes | Mapping)
        except TypeError:
            is_list = False
        if not is_list:
            raise PromptError(
                f"requests should be an iterable of prompts, not a {type(requests).__name__}",
                hint="Put a single one into a list.",
            )
        begin = self._begin
        # An iterator can be read only once. Other values are refused with each request.
        tools = as_list(arguments.get("tools"))
        if tools is not None:
            arguments["tools"] = tools

        def begin_one(request: BatchRequest) -> Begun:
            if not isinstance(request.options, Mapping):
                raise InvalidOptionError(
                    f"options should be a mapping, not {short_repr(request.options)}",
                    option="options",
                )
            own = {"tools": request.tools, "tool_choice": request.tool_choice}
            given = {name: value for name, value in own.items() if value is not None}
            return begin(
                request.prompt,
                response_format if request.response_format is None else request.response_format,
                cast(RequestArguments, {**arguments, **given, **request.options}),
                # The batch, not the request, decides how long it is queued.
                counts_waiting=False,
            )

        return BatchStream(begin_one, requests, batch_size=self.batch_size, ordered=ordered)

    @overload
    def aiter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        *,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> AsyncBatchStream[T]: ...
    @overload
    def aiter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        *,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> AsyncBatchStream[T]: ...
    @overload
    def aiter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: TypeForm[T],
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncBatchStream[T | None]: ...
    @overload
    def aiter_batch(
        self,
        requests: Iterable[Prompt],
        response_format: Adapter[T],
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncBatchStream[T | None]: ...
    @overload
    def aiter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncBatchStream[Any]: ...
    def aiter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        response_format: Any = None,
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncBatchStream[Any]:
        """:meth:`iter_batch` for event loops: ``async for item in engine.aiter_batch(…)``."""
        return AsyncBatchStream(
            self.iter_batch(requests, response_format=response_format, ordered=ordered, **arguments)
        )


def _results(items: list[BatchItem[Any]], *, return_exceptions: bool) -> list[Any]:
    """Return the results of a batch, in order.

    Raises:
        BatchError: Some requests failed, unless ``return_exceptions``.
    """
    errors = [item for item in items if item.error is not None]
    if errors and not return_exceptions:
        first = errors[0]
        # The hint is appended as a sentence.
        reason = str(first.error).removesuffix(".")
        raise BatchError(
            f"{len(errors)} of {len(items)} requests failed; request {first.index}: {reason}",
            items=items,
            hint="Look at its items, or give return_exceptions=True.",
        ) from first.error
    return [item.error or item.result for item in items]
