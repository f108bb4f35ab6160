"""Many requests at once: the part of the engine that is built on single requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Unpack, overload

from .conversation.prompts import Prompt
from .errors import BatchError, InvalidOptionError, PromptError
from .option_overrides import OptionOverrides
from .requests.batches import AsyncBatchStream, BatchRequest, BatchStream, Begun
from .results import GenerationResult
from .text_checks import listed, short_repr

__all__ = ["BatchEngine"]


class BatchEngine(ABC):
    """``generate_batch`` and its kin, of whatever can begin a request and runs several together."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """How many requests are run together at most."""

    @abstractmethod
    def _begin(
        self,
        prompt: Prompt,
        response_format: Any,
        tools: Iterable[Any] | None,
        tool_choice: Any,
        options: OptionOverrides,
        *,
        counts_waiting: bool = True,
    ) -> Begun:
        """Check and queue a request; ``counts_waiting``: its time runs from now on."""

    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        return_exceptions: Literal[False] = False,
        **options: Unpack[OptionOverrides],
    ) -> list[GenerationResult[Any]]: ...
    @overload
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        return_exceptions: bool,
        **options: Unpack[OptionOverrides],
    ) -> list[GenerationResult[Any] | Exception]: ...
    def generate_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        return_exceptions: bool = False,
        **options: Unpack[OptionOverrides],
    ) -> list[Any]:
        """Answer many prompts, up to ``batch_size`` together, and return the answers in order.

        What else is given holds for all of them; a ``BatchRequest`` is one that differs. Each has
        its own masks, samplers, seed and limits, and none harms another. Where some fail,
        ``BatchError`` is raised when all are done, which has what came of each; or, as in
        ``asyncio.gather``, their exceptions are returned with the others' results.
        """
        with self.iter_batch(
            requests,
            response_format=response_format,
            tools=tools,
            tool_choice=tool_choice,
            **options,
        ) as stream:
            items = list(stream)
        errors = [item for item in items if item.error is not None]
        if errors and not return_exceptions:
            first = errors[0]
            raise BatchError(
                f"{len(errors)} of {len(items)} requests failed, number {first.index} with: "
                f"{first.error}",
                items=items,
                hint="Look at its items, or give return_exceptions=True.",
            ) from first.error
        return [item.error or item.result for item in items]

    def iter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> BatchStream[Any]:
        """``generate_batch``, item by item: any number of requests, asked for as they are needed.

        Items come in the order of the requests, or as they are finished; what is wrong with one
        is told in its item. Some ``4 * batch_size`` are asked for before the first item comes out.
        A closed or forgotten stream cancels what runs.

        Raises ``PromptError`` for a string, and for a value that is not iterable.
        """
        try:
            is_list = iter(requests) is not None and not isinstance(requests, str | bytes | Mapping)
        except TypeError:
            is_list = False
        if not is_list:
            raise PromptError(
                f"requests are several prompts, and not a {type(requests).__name__}",
                hint="Put a single one into a list.",
            )
        begin = self._begin
        # An iterator can be read only once. Any other value is refused with each request.
        items = listed(tools)
        shared_tools = tools if items is None else items

        def begin_one(request: BatchRequest) -> Begun:
            if not isinstance(request.options, Mapping):
                raise InvalidOptionError(
                    f"options are a mapping by name, not {short_repr(request.options)}",
                    option="options",
                )
            return begin(
                request.prompt,
                response_format if request.response_format is None else request.response_format,
                shared_tools if request.tools is None else request.tools,
                tool_choice if request.tool_choice is None else request.tool_choice,
                {**options, **request.options},
                # It is queued long before its turn, which is none of its doing.
                counts_waiting=False,
            )

        return BatchStream(begin_one, requests, batch_size=self.batch_size, ordered=ordered)

    def aiter_batch(
        self,
        requests: Iterable[Prompt | BatchRequest],
        *,
        response_format: Any = None,
        tools: Iterable[Any] | None = None,
        tool_choice: Any = None,
        ordered: bool = True,
        **options: Unpack[OptionOverrides],
    ) -> AsyncBatchStream[Any]:
        """``iter_batch`` for an event loop: ``async for item in engine.aiter_batch(…)``."""
        return AsyncBatchStream(
            self.iter_batch(
                requests,
                response_format=response_format,
                tools=tools,
                tool_choice=tool_choice,
                ordered=ordered,
                **options,
            )
        )
