"""Extractions: what their requests share, and the outcomes of records in the order of the input."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from state_machines.errors import ProxyError

from ..errors import EngineClosedError, InvalidOptionError, PromptError
from ..results.streams import BatchRequest
from ..runtime.extras import is_installed
from .answer_format import AnswerFormat
from .chunks import Chunks, Piece
from .inputs import Content, Inputs, Item
from .records import Instruction, write_prompt
from .schemas import INPUT

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..options.generation import GenerationOptions
    from ..results.generation import GenerationResult
    from ..results.parts import Quotation
    from ..results.streams import BatchStream

# The running requests wait this long for a further record to join the batch.
_ITEM_SECONDS = 0.05
# After this many invalid records without a valid one, their failures are written.
_MAX_INVALID_ITEMS = 1_000


class Engine(Protocol):
    """The part of the engine that runs an extraction."""

    @property
    def options(self) -> GenerationOptions: ...

    @property
    def count_tokens(self) -> Callable[..., int]: ...

    @property
    def model_name(self) -> str: ...

    @property
    def input_modalities(self) -> frozenset[Any]: ...

    @property
    def tokenizer(self) -> Any: ...

    @property
    def iter_batch(self) -> Callable[..., BatchStream[Any]]: ...


@dataclass(frozen=True)
class Outcome:
    """The answer to a record, or its error.

    Attributes:
        item: The record.
        answers: The format of the answers.
        result: The result; ``None`` for an error, and for a record of an earlier run.
        error: The error.
        earlier: The answer of an earlier run, as :attr:`answer`, and the columns about its
            generation.
    """

    item: Item
    answers: AnswerFormat
    result: GenerationResult[Any] | None = None
    error: Exception | None = None
    earlier: tuple[str, Mapping[str, Any]] | None = None

    @cached_property
    def answer(self) -> str:
        """The answer of the model as JSON in one line; empty for an error."""
        if self.result is not None:
            return self.answers.answer_text(self.result)
        return "" if self.earlier is None else self.earlier[0]

    @cached_property
    def text(self) -> str:
        """The value as JSON in one line, which validators may have changed; empty for an error.

        Raises:
            ValueError: As :meth:`value`.
        """
        if self.answers.reader is None or not self.answer:
            return self.answer
        return self.answers.written(self.value())

    @cached_property
    def details(self) -> Mapping[str, Any]:
        """The columns about the generation of the answer; none for an error."""
        if self.result is not None:
            return self.answers.details.cells(self.result)
        return {} if self.earlier is None else self.earlier[1]

    def value(self) -> Any:
        """Return the parsed answer; ``None`` for an error.

        Raises:
            ValueError: A validator rejects an answer that it accepted in an earlier run.
        """
        if self.result is not None:
            return self.result.parsed
        return self.answers.parse(self.answer) if self.answer else None


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

    def outcome(self, extraction: Extraction) -> Outcome:
        """Return the outcome. The first error of a piece is that of the record."""
        error = self.error or next(iter(self._errors), None)
        result = None
        if error is None:
            result, chunks = self._results[0], extraction.chunks
            try:
                if chunks is not None:
                    result = chunks.items.merge(self._text, self._pieces, self._results)
            except ValueError as refused:
                error, result = refused, None
        return Outcome(self._item, extraction.answers, result, error)


@dataclass(frozen=True, slots=True)
class Extraction:
    """What the requests of an extraction share.

    Attributes:
        answers: The format of the answers.
        instruction: The text that precedes that of a record, or a function of the record.
        options: The options of the requests.
        chunks: How long texts are divided; ``None``: not at all.
        model_hint: How to name a model that reads images, as a sentence.
    """

    answers: AnswerFormat
    instruction: Instruction | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    chunks: Chunks | None = None
    model_hint: str = "Load a multimodal model."

    def outcomes(
        self, engine: Engine, inputs: Inputs, admit: Callable[[Mapping[str, Any]], None]
    ) -> Generator[Outcome]:
        """Yield the outcome of each record. Closing the generator cancels the requests.

        Records are read as the engine takes them. If none is ready, as from a pipe whose writer
        waits for results, the records read so far are finished first.

        Args:
            engine: Generates the answers.
            inputs: The records.
            admit: Checks the fields of a record; a ``ValueError`` is the record's error.

        Raises:
            PromptError: A record has images, and the model reads none.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        while inputs.peek() is not None:
            pending: deque[_Pending] = deque()
            items = engine.iter_batch(
                self._requests(engine, inputs, admit, pending),
                response_format=self.answers.response_format,
                ordered=True,
                **self.options,
            )
            with contextlib.closing(items):
                for item in items:
                    while pending[0].error is not None:
                        yield pending.popleft().outcome(self)
                    pending[0].take(item.result, _error_of_record(item.error))
                    if pending[0].is_complete:
                        yield pending.popleft().outcome(self)
            for record in pending:
                yield record.outcome(self)

    def _requests(
        self,
        engine: Engine,
        inputs: Inputs,
        admit: Callable[[Mapping[str, Any]], None],
        pending: deque[_Pending],
    ) -> Iterator[Prompt | BatchRequest]:
        """Yield the requests of the valid records, and append every record to ``pending``."""
        invalid = 0
        while invalid < _MAX_INVALID_ITEMS and (not pending or inputs.is_ready(_ITEM_SECONDS)):
            item = next(inputs, None)
            if item is None:
                return
            try:
                admit(item.fields)
                content = item.read()
                pieces = self._pieces(engine, content)
                contents = [replace(content, text=piece.text) for piece in pieces]
                prompts = [self.prompt(item.record, content) for content in contents]
            except ValueError as error:
                invalid += 1
                pending.append(_Pending(item, error=error))
            else:
                self.check_reads(engine, content)
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
        if not self.answers.quotes_input:
            return prompt
        return BatchRequest(prompt, options={"sources": self.sources(content)})

    def prompt(self, record: Any, content: Content) -> Prompt:
        """Return the prompt of a record.

        Raises:
            RecordError: The instruction is a function that raises, or returns no text.
        """
        answers = self.answers
        is_json = answers.schema is not None
        return write_prompt(self.instruction, answers.properties, is_json, record, content)

    def sources(self, content: Content) -> Mapping[str, str]:
        """Return the sources of quotes, with the text of a record as :data:`INPUT`."""
        return {INPUT: content.text, **(self.options.get("sources") or {})}

    def quotes(self, outcome: Outcome) -> tuple[Quotation, ...]:
        """Return the quotes of an answer; of an earlier run each at its first occurrence."""
        if outcome.result is not None:
            return outcome.result.quotes
        if not (outcome.answer and self.answers.has_quotes):
            return ()
        try:
            sources = self.sources(outcome.item.read())
            return self.answers.quotations(outcome.answer, sources, outcome.details)
        except ValueError:
            # The file has changed since.
            return ()

    def check_reads(self, engine: Engine, content: Content) -> None:
        """Raise ``PromptError`` for content with images if the model reads none.

        All records with images would fail: the run ends, and another model can resume it.
        """
        if not content.images or "image" in engine.input_modalities:
            return
        hint = self.model_hint
        if not is_installed("vision"):
            hint = f"{hint[:-1]}, and install 'proxy-engine[vision]'."
        raise PromptError(f"the model {engine.model_name!r} does not read images", hint=hint)


def check_one_answer(options: GenerationOptions) -> None:
    """Raise ``InvalidOptionError`` for several answers to a record, which has one row."""
    if options.n > 1:
        raise InvalidOptionError(
            f"n is {options.n}, and an extraction has one answer for each record",
            option="n",
            hint="Give n=1, or several answers with engine.generate.",
        )


def _error_of_record(error: Exception | None) -> Exception | None:
    """Return a record's error; raise an error that a further run may not meet again."""
    if isinstance(error, EngineClosedError):
        raise error
    if error is not None and not isinstance(error, ProxyError | ValueError):
        raise error
    return error
