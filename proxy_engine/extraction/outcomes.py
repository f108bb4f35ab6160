"""Extractions: what their requests share, and the outcomes of records in the order of the input."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

from state_machines.errors import ProxyError

from ..answers.compiler import STRUCTURED
from ..errors import EngineClosedError, InvalidOptionError, OutputValidationError, PromptError
from ..options.generation import PartOptions
from ..options.values import MAX_COUNT
from ..results.parts import total_usage
from ..results.streams import BatchRequest
from ..runtime.extras import is_installed
from .answer_format import AnswerFormat
from .chunks import Chunks, TextPiece
from .details import is_limit
from .inputs import Inputs, Item, RecordContent
from .records import Instruction, write_prompt
from .schemas import INPUT

if TYPE_CHECKING:
    from ..conversation.messages import Prompt
    from ..options.generation import GenerationOptions
    from ..options.overrides import OptionOverrides
    from ..results.generation import GenerationResult
    from ..results.parts import CutShort, Quotation, Usage
    from ..results.streams import BatchItem, BatchStream

# The running requests wait this long for a further record to join the batch.
_ITEM_SECONDS = 0.05
# After this many invalid records without a valid one, their failures are written.
_MAX_INVALID_ITEMS = 1_000


class Engine(Protocol):
    """The part of the engine that runs an extraction."""

    @property
    def options(self) -> GenerationOptions: ...

    @property
    def context_length(self) -> int | None: ...

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

    @cached_property
    def cut_short(self) -> CutShort | None:
        """What cut the answer short, with the pointer in it; of an earlier run by its columns."""
        details = self.answers.details
        if self.result is not None:
            return details.cut_short(self.result)
        return details.earlier_cut(self.details)

    @property
    def is_limited(self) -> bool:
        """Whether a limit cut the answer short."""
        return is_limit(self.cut_short)

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
        pieces: Sequence[TextPiece] = (),
        error: Exception | None = None,
    ) -> None:
        self.error = error
        self._item = item
        self._text = text
        self._pieces = pieces
        self._results: dict[int, GenerationResult[Any]] = {}
        self._errors: dict[int, Exception] = {}

    def add_answer(self, piece: int, answer: GenerationResult[Any] | Exception) -> None:
        """Add the answer to the piece of an index, or its error."""
        if isinstance(answer, Exception):
            self._errors[piece] = answer
        else:
            self._results[piece] = answer

    @property
    def is_complete(self) -> bool:
        return len(self._results) + len(self._errors) == len(self._pieces)

    def outcome(self, extraction: Extraction) -> Outcome:
        """Return the outcome. The first error of a piece is the record's error."""
        error = self.error or next((self._errors[piece] for piece in sorted(self._errors)), None)
        result = None
        if error is None:
            results = [self._results[piece] for piece in range(len(self._pieces))]
            result, chunks = results[0], extraction.chunks
            try:
                if chunks is not None:
                    result = chunks.items.merge(self._text, self._pieces, results)
            except ValueError as refused:
                error, result = refused, None
        return Outcome(self._item, extraction.answers, result, error)


@dataclass(frozen=True, slots=True)
class _Request:
    """The request for a piece of a record.

    Attributes:
        record: The record.
        piece: The index of the piece.
        prompt: The prompt.
        options: The options that other requests do not have.
        earlier: Token counts and times of the first attempt, which was cut short.
    """

    record: _Pending
    piece: int
    prompt: Prompt
    options: Mapping[str, Any]
    earlier: Usage | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """What the requests of an extraction share.

    Attributes:
        answers: The format of the answers.
        instruction: The text that precedes a record's text, or a function of the record.
        options: The options of the requests.
        chunks: How long texts are divided; ``None``: not at all.
        model_hint: How to name a model that reads images, as a sentence.
        retry_cut_short: Whether a request whose answer ``max_tokens`` cuts short is tried once more
            with twice as many.
    """

    answers: AnswerFormat
    instruction: Instruction | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    chunks: Chunks | None = None
    model_hint: str = "Load a multimodal model."
    retry_cut_short: bool = True

    def request_options(self, engine: Engine) -> dict[str, Any]:
        """Return the options of all requests.

        Without ``max_tokens`` in the options and those of the engine, the context is the limit.
        """
        options = dict(self.options)
        is_given = "max_tokens" in options or "max_tokens" in engine.options.model_fields_set
        if not is_given and engine.context_length is not None:
            options["max_tokens"] = None
        return options

    def more_tokens(self, engine: Engine, cut: CutShort | None, usage: Usage) -> dict[str, Any]:
        """Return options with twice the tokens for an answer that was cut short.

        They are empty for other answers, and where tokens do not help: the context is full, the
        time is over, or the limit is that of the part, in ``parts``.

        Args:
            engine: The engine.
            cut: What cut the answer short.
            usage: The tokens of the answer.
        """
        if not self.retry_cut_short or cut is None or cut.reason != "max_tokens":
            return {}
        options = engine.options.override(cast("OptionOverrides", self.request_options(engine)))
        limit, context = options.max_tokens, engine.context_length
        prompt_tokens = usage.prompt_tokens // (1 + usage.retries)
        if limit is None or (context is not None and prompt_tokens + limit >= context):
            return {}
        part = options.parts.get(STRUCTURED, PartOptions()).max_tokens
        reasoning_tokens = usage.reasoning_tokens // (1 + usage.retries)
        if part is not None and part <= limit - reasoning_tokens:
            return {}
        return {"max_tokens": min(2 * limit, MAX_COUNT)}

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
        pending: deque[_Pending] = deque()
        again: deque[_Request] = deque()
        options = self.request_options(engine)
        while pending or inputs.peek() is not None:
            running: deque[_Request] = deque()
            requests = self._requests(engine, inputs, admit, pending, again)
            items = engine.iter_batch(
                _queued(requests, running),
                response_format=self.answers.response_format,
                ordered=True,
                **options,
            )
            with contextlib.closing(items):
                for item in items:
                    yield from self._complete(pending)
                    self._take(engine, running.popleft(), item, again)
                    yield from self._complete(pending)
            yield from self._complete(pending)

    def _complete(self, pending: deque[_Pending]) -> Iterator[Outcome]:
        """Yield the outcomes of the first records up to the first record without an outcome."""
        while pending and pending[0].is_complete:
            yield pending.popleft().outcome(self)

    def _take(
        self, engine: Engine, request: _Request, item: BatchItem[Any], again: deque[_Request]
    ) -> None:
        """Take an answer, or append its request to ``again``."""
        result, error = item.result, _error_of_record(item.error)
        cut = _rejected_cut(error) if result is None else (result.cut_short, result.usage)
        if cut is not None and request.earlier is None:
            options = self.more_tokens(engine, *cut)
            if options:
                options = {**request.options, **options}
                again.append(replace(request, options=options, earlier=cut[1]))
                return
        if result is not None and request.earlier is not None:
            result = replace(result, usage=total_usage([result.usage, request.earlier]))
        request.record.add_answer(request.piece, cast("Any", error if result is None else result))

    def _requests(
        self,
        engine: Engine,
        inputs: Inputs,
        admit: Callable[[Mapping[str, Any]], None],
        pending: deque[_Pending],
        again: deque[_Request],
    ) -> Iterator[_Request]:
        """Yield the requests of the valid records, and append every record to ``pending``.

        The requests of ``again`` come first.
        """
        invalid = 0
        while True:
            while again:
                yield again.popleft()
            is_full = invalid == _MAX_INVALID_ITEMS
            if is_full or (pending and not inputs.is_ready(_ITEM_SECONDS)):
                return
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
                record = _Pending(item, content.text, pieces)
                pending.append(record)
                for piece, prompt in enumerate(prompts):
                    yield _Request(record, piece, prompt, self._sources(contents[piece]))

    def _pieces(self, engine: Engine, content: RecordContent) -> Sequence[TextPiece]:
        if self.chunks is None or content.images:
            return [TextPiece(0, content.text)]
        encode = engine.tokenizer.encode
        return self.chunks.divide(
            content.text, lambda text: len(encode(text, add_special_tokens=False))
        )

    def _sources(self, content: RecordContent) -> Mapping[str, Any]:
        return {"sources": self.sources(content)} if self.answers.quotes_input else {}

    def prompt(self, record: Any, content: RecordContent) -> Prompt:
        """Return the prompt of a record.

        Raises:
            RecordError: The instruction is a function that raises, or returns no text.
        """
        answers = self.answers
        is_json = answers.schema is not None
        return write_prompt(self.instruction, answers.properties, is_json, record, content)

    def sources(self, content: RecordContent) -> Mapping[str, str]:
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

    def check_reads(self, engine: Engine, content: RecordContent) -> None:
        """Raise ``PromptError`` for content with images if the model reads none.

        All records with images would fail: the run ends, and another model can resume it.
        """
        if not content.images or "image" in engine.input_modalities:
            return
        hint = self.model_hint
        if not is_installed("vision"):
            hint = f"{hint[:-1]}, and install 'proxy-engine[vision]'."
        raise PromptError(f"the model {engine.model_name!r} does not read images", hint=hint)


def _queued(
    requests: Iterator[_Request], running: deque[_Request]
) -> Iterator[Prompt | BatchRequest]:
    """Yield requests as the engine takes them, and append them to ``running``."""
    for request in requests:
        running.append(request)
        options = cast("OptionOverrides", request.options)
        yield BatchRequest(request.prompt, options=options) if options else request.prompt


def _rejected_cut(error: Exception | None) -> tuple[CutShort | None, Usage] | None:
    """Return what cut an answer short that a validator rejects, and its tokens."""
    if not isinstance(error, OutputValidationError) or not error.attempts:
        return None
    return error.attempts[-1].cut_short, error.attempts[-1].usage


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
