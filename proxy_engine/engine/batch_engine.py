"""Many requests at once, as methods of the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from ..checks import is_iterable, reusable, short_repr
from ..conversation.messages import Prompt
from ..errors import BatchError, InvalidOptionError, PromptError
from ..options.overrides import OptionOverrides
from ..requests.retries import Attempts
from ..requests.streams import RunningBatch, aitems
from ..results.generation import GenerationResult
from ..results.streams import AsyncBatchStream, BatchRequest, BatchStream
from .arguments import RequestArguments
from .core import EngineCore

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .arguments import Format, T

Prompts: TypeAlias = Iterable[Prompt]
Requests: TypeAlias = Iterable[Prompt | BatchRequest]


class BatchArguments(RequestArguments, total=False):
    """The keyword arguments of ``InferenceEngine.iter_batch``, which describes them."""

    ordered: bool


class BatchEngine:
    """``generate_batch`` and its variants."""

    _core: EngineCore

    @overload
    def generate_batch(
        self, requests: Prompts, response_format: TypeForm[T], **options: Unpack[OptionOverrides]
    ) -> list[GenerationResult[T]]: ...
    @overload
    def generate_batch(
        self,
        requests: Prompts,
        response_format: Format[T] = None,
        **options: Unpack[OptionOverrides],
    ) -> list[GenerationResult[T]]: ...
    @overload
    def generate_batch(
        self, requests: Prompts, response_format: TypeForm[T], **arguments: Unpack[RequestArguments]
    ) -> list[GenerationResult[T | None]]: ...
    @overload
    def generate_batch(
        self, requests: Requests, response_format: Any = None, **arguments: Unpack[RequestArguments]
    ) -> list[GenerationResult[Any]]: ...
    @overload
    def generate_batch(
        self,
        requests: Requests,
        response_format: Any = None,
        *,
        return_exceptions: bool,
        **arguments: Unpack[RequestArguments],
    ) -> list[GenerationResult[Any] | Exception]: ...
    def generate_batch(
        self,
        requests: Requests,
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
        with self.iter_batch(requests, response_format, **arguments) as stream:
            items = list(stream)
        first = next((item for item in items if item.error is not None), None)
        if first is None or return_exceptions:
            return [item.error or item.result for item in items]
        failed = sum(item.error is not None for item in items)
        # The hint is appended as a sentence.
        reason = str(first.error).rstrip(".?")
        raise BatchError(
            f"{failed} of {len(items)} requests failed; request {first.index}: {reason}",
            items=items,
            hint="Look at its items, or give return_exceptions=True.",
        ) from first.error

    @overload
    def iter_batch(
        self, requests: Prompts, response_format: TypeForm[T], **arguments: Unpack[BatchArguments]
    ) -> BatchStream[T]: ...
    @overload
    def iter_batch(
        self,
        requests: Requests,
        response_format: Format[T] = None,
        **arguments: Unpack[BatchArguments],
    ) -> BatchStream[T]: ...
    def iter_batch(
        self,
        requests: Requests,
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
        batch = self._batch(requests, response_format, ordered, arguments)
        return BatchStream(batch.items(), batch.cancel)

    @overload
    def aiter_batch(
        self, requests: Prompts, response_format: TypeForm[T], **arguments: Unpack[BatchArguments]
    ) -> AsyncBatchStream[T]: ...
    @overload
    def aiter_batch(
        self,
        requests: Requests,
        response_format: Format[T] = None,
        **arguments: Unpack[BatchArguments],
    ) -> AsyncBatchStream[T]: ...
    def aiter_batch(
        self,
        requests: Requests,
        response_format: Any = None,
        *,
        ordered: bool = True,
        **arguments: Unpack[RequestArguments],
    ) -> AsyncBatchStream[Any]:
        """:meth:`iter_batch` for event loops: ``async for item in engine.aiter_batch(…)``."""
        batch = self._batch(requests, response_format, ordered, arguments)

        async def begin() -> AsyncGenerator[Any]:
            return aitems(batch)

        return AsyncBatchStream(begin, batch.cancel)

    def _batch(
        self, requests: Requests, response_format: Any, ordered: bool, arguments: RequestArguments
    ) -> RunningBatch:
        if not is_iterable(requests):
            raise PromptError(
                f"requests should be an iterable of prompts, not a {type(requests).__name__}",
                hint="Put a single one into a list.",
            )
        shared = reusable(arguments)

        def prepare(request: BatchRequest) -> Attempts:
            if not isinstance(request.options, Mapping):
                raise InvalidOptionError(
                    f"options should be a mapping, not {short_repr(request.options)}",
                    option="options",
                )
            changes: dict[str, Any] = {"tools": request.tools, "tool_choice": request.tool_choice}
            changes = {name: value for name, value in changes.items() if value is not None}
            prepared = self._core.preparation.request(
                request.prompt,
                response_format if request.response_format is None else request.response_format,
                {**shared, **changes, **request.options},
            )
            # The batch decides how long it is queued.
            prepared.counts_waiting = False
            return self._core.attempts(prepared)

        return RunningBatch(
            prepare,
            requests,
            batch_size=self._core.batch.batch_size,
            announced=self._core.scheduler.announced,
            ordered=ordered,
        )
