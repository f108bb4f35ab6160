"""The batch of an extraction: outcomes of records, in the order of the input."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from state_machines.errors import ProxyError

from ..errors import EngineClosedError, PromptError
from ..results.streams import BatchRequest
from ..runtime.extras import is_installed
from .answer_format import INPUT
from .chunks import Chunks
from .inputs import Content, Inputs, Item
from .merging import Piece
from .prompts import Prompts

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..results.generation import GenerationResult
    from ..results.streams import BatchStream

# The running requests wait this long for a further record to join the batch.
_ITEM_SECONDS = 0.05
# After this many invalid records without a valid one, their failures are written.
_MAX_INVALID_ITEMS = 1_000


class Engine(Protocol):
    """The part of the engine that runs an extraction."""

    @property
    def model_name(self) -> str: ...

    @property
    def input_modalities(self) -> frozenset[Any]: ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def iter_batch(self) -> Callable[..., BatchStream[Any]]: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result or error of a record; without either it is pending.

    Attributes:
        item: The record.
        result: The result.
        error: The error.
    """

    item: Item
    result: GenerationResult[Any] | None = None
    error: Exception | None = None


class _Pending:
    """A record whose outcome is not known yet, or invalid.

    Args:
        item: The record.
        text: Its text.
        pieces: The pieces of its text; each is a request.
        error: Why it is invalid.
    """

    def __init__(
        self,
        item: Item,
        text: str = "",
        pieces: Sequence[Piece] = (),
        error: Exception | None = None,
    ) -> None:
        self.error = error
        self._item = item
        self._text = text
        self._pieces = pieces
        self._results: list[GenerationResult[Any]] = []
        self._errors: list[Exception] = []

    def take(self, result: GenerationResult[Any] | None, error: Exception | None) -> None:
        """Take the answer to a piece, or its error."""
        if result is not None:
            self._results.append(result)
        if error is not None:
            self._errors.append(error)

    @property
    def is_complete(self) -> bool:
        return len(self._results) + len(self._errors) == len(self._pieces)

    def outcome(self, chunks: Chunks | None) -> Outcome:
        """Return the outcome. The first error of a piece is that of the record."""
        error = self.error or next(iter(self._errors), None)
        if error is not None:
            return Outcome(self._item, error=error)
        if chunks is None:
            return Outcome(self._item, self._results[0])
        try:
            return Outcome(self._item, chunks.items.merge(self._text, self._pieces, self._results))
        except ValueError as error:
            return Outcome(self._item, error=error)


@dataclass(frozen=True, slots=True)
class Batch:
    """What the requests of an extraction share.

    Attributes:
        prompts: Writes the prompts.
        response_format: The response format.
        options: The options.
        admit: Checks the fields of a record; a ``ValueError`` is the record's error.
        check: Checks the content of a record. Its exceptions end the run.
        quotes_input: Whether answers are quoted from the text of their record.
        chunks: How long texts are divided; ``None``: not at all.
    """

    prompts: Prompts
    response_format: Any
    options: Mapping[str, Any]
    admit: Callable[[Mapping[str, Any]], None]
    check: Callable[[Content], None]
    quotes_input: bool = False
    chunks: Chunks | None = None

    def outcomes(self, engine: Engine, inputs: Inputs) -> Generator[Outcome]:
        """Yield the outcome of each record. Closing the generator cancels the requests.

        Records are read as the engine takes them. If none is ready, as from a pipe whose writer
        waits for results, the records read so far are finished first.

        Raises:
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        while inputs.peek() is not None:
            pending: deque[_Pending] = deque()
            items = engine.iter_batch(
                self._requests(engine, inputs, pending),
                response_format=self.response_format,
                ordered=True,
                **self.options,
            )
            with contextlib.closing(items):
                for item in items:
                    while pending[0].error is not None:
                        yield pending.popleft().outcome(self.chunks)
                    pending[0].take(item.result, _error_of_record(item.error))
                    if pending[0].is_complete:
                        yield pending.popleft().outcome(self.chunks)
            for record in pending:
                yield record.outcome(self.chunks)

    def _requests(
        self, engine: Engine, inputs: Inputs, pending: deque[_Pending]
    ) -> Iterator[Prompt | BatchRequest]:
        """Yield the requests of the valid records, and append every record to ``pending``."""
        invalid = 0
        while invalid < _MAX_INVALID_ITEMS and (not pending or inputs.is_ready(_ITEM_SECONDS)):
            item = next(inputs, None)
            if item is None:
                return
            try:
                self.admit(item.fields())
                content = item.read()
                pieces = self._pieces(engine, content)
                contents = [replace(content, text=piece.text) for piece in pieces]
                prompts = [self.prompts.write(item.record, content) for content in contents]
            except ValueError as error:
                invalid += 1
                pending.append(_Pending(item, error=error))
            else:
                self.check(content)
                pending.append(_Pending(item, content.text, pieces))
                yield from map(self._request, prompts, contents)

    def _pieces(self, engine: Engine, content: Content) -> Sequence[Piece]:
        if self.chunks is None or content.images:
            return [Piece(0, content.text)]
        encode = engine.tokenizer.encode
        return self.chunks.divide(
            content.text, lambda text: len(encode(text, add_special_tokens=False))
        )

    def _request(self, prompt: Prompt, content: Content) -> Prompt | BatchRequest:
        if not self.quotes_input:
            return prompt
        return BatchRequest(prompt, options={"sources": with_input(self.options, content.text)})


def with_input(options: Mapping[str, Any], text: str) -> Mapping[str, str]:
    """Return the option ``sources`` with the text of a record as the source :data:`INPUT`."""
    return {INPUT: text, **(options.get("sources") or {})}


def check_reads(engine: Engine, content: Content, *, hint: str) -> None:
    """Raise ``PromptError`` for content with images if the model reads none.

    All records with images would fail: the run ends, and another model can resume it.

    Args:
        engine: The engine.
        content: The content.
        hint: How to name another model, as a sentence.
    """
    if not content.images or "image" in engine.input_modalities:
        return
    if not is_installed("vision"):
        hint = f"{hint[:-1]}, and install 'proxy-engine[vision]'."
    raise PromptError(f"the model {engine.model_name!r} does not read images", hint=hint)


def _error_of_record(error: Exception | None) -> Exception | None:
    """Return a record's error; raise an error that a further run may not meet again."""
    if isinstance(error, EngineClosedError):
        raise error
    if error is not None and not isinstance(error, ProxyError | ValueError):
        raise error
    return error
