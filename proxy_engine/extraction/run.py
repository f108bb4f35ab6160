"""An extraction from Python objects: earlier rows, the batch, the output file, the progress."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import EarlierRunError
from .answer_format import AnswerFormat
from .chunks import Chunks
from .frames import Frame
from .inputs import Content, Item
from .outcomes import Batch, Engine, Outcome, check_reads, with_input
from .outputs import Done, Output, OutputOptions
from .progress import Progress, showing
from .prompts import Instruction, Prompts
from .records import RecordInputs, RecordItem
from .results import ExtractedRecord
from .rows import Answer, Failure, JsonLines, Read, RowFormat

if TYPE_CHECKING:
    from ..results.parts import Quotation


@dataclass(frozen=True, slots=True)
class Run:
    """An extraction that has not begun.

    Attributes:
        engine: Generates the answers.
        inputs: The records.
        answers: The format of the answers.
        columns: The fields of the records, if they are known.
        frame: The frame with the records, if they came from one.
        instruction: The instruction to the model.
        output: The output file.
        progress: How to show progress.
        options: The options of all requests.
        chunks: How long texts are divided; ``None``: not at all.
    """

    engine: Engine
    inputs: RecordInputs
    answers: AnswerFormat
    columns: tuple[str, ...]
    frame: Frame | None
    instruction: Instruction | None
    output: OutputOptions | None
    progress: Progress
    options: Mapping[str, Any]
    chunks: Chunks | None = None

    def records(self) -> Generator[ExtractedRecord[Any]]:
        """Yield the outcomes in the order of the records. Closing stops the requests.

        A row is in the output file before its record is yielded.

        Raises:
            OutputFileError: The output file cannot be written or continued.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        with contextlib.ExitStack() as stack:
            output: Output | None = None
            if self.output is not None:
                types = dict if self.frame is None else self.frame.arrow_types
                opened = self.output.opened(self.answers, self.columns, types)
                output = stack.enter_context(opened)
            advance = stack.enter_context(showing(self.progress, self.inputs.count()))
            done = Done()
            if output is not None and self.output is not None and self.output.is_resumed:
                earlier = output.earlier(self.inputs)
                for item, read in earlier:
                    advance(not isinstance(read, Answer))
                    yield self._earlier_record(item, read)
                done = earlier.done
            if output is not None:
                output.check_continuable(done, self.inputs)
                output.begin(done)
            rows = JsonLines(self.answers) if output is None else output.rows
            for outcome in stack.enter_context(contextlib.closing(self._outcomes(rows))):
                if output is not None:
                    output.write(outcome)
                advance(outcome.error is not None)
                yield self._record(outcome)
            if output is not None:
                output.finish()

    def _outcomes(self, rows: RowFormat) -> Generator[Outcome]:
        prompts = Prompts(
            self.instruction, self.answers.properties, is_json=self.answers.schema is not None
        )

        def check(content: Content) -> None:
            check_reads(self.engine, content, hint="Load a multimodal model.")

        batch = Batch(
            prompts,
            self.answers.response_format,
            self.options,
            rows.admit,
            check,
            quotes_input=self.answers.quotes_input,
            chunks=self.chunks,
        )
        return batch.outcomes(self.engine, self.inputs)

    def _record(self, outcome: Outcome) -> ExtractedRecord[Any]:
        index, record = _position(outcome.item)
        if outcome.result is None:
            return ExtractedRecord(index, record, error=outcome.error)
        return ExtractedRecord(
            index,
            record,
            outcome.result.parsed,
            usage=outcome.result.usage,
            quotes=outcome.result.quotes,
            details=self.answers.details.cells(outcome.result),
        )

    def _earlier_record(self, item: Item, read: Read) -> ExtractedRecord[Any]:
        index, record = _position(item)
        if isinstance(read, Failure):
            return ExtractedRecord(
                index, record, error=EarlierRunError(read.message, type=read.type)
            )
        quotes = earlier_quotes(item, read, self.answers, self.options)
        return ExtractedRecord(index, record, read.value, quotes=quotes, details=read.details)


def earlier_quotes(
    item: Item, read: Answer, answers: AnswerFormat, options: Mapping[str, Any]
) -> tuple[Quotation, ...]:
    """Return the quotes of a row of an earlier run, each at its first occurrence."""
    if not answers.has_quotes:
        return ()
    try:
        text = item.read().text
    except ValueError:
        # The file has changed since.
        return ()
    return answers.quotations(read.value, with_input(options, text))


def _position(item: Item) -> tuple[int, Any]:
    assert isinstance(item, RecordItem), "the inputs are records"
    return item.index, item.record


def columns_of(inputs: RecordInputs, columns: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names of the records' fields: those of a frame, or of the first record."""
    if columns is not None:
        return columns
    first = inputs.peek()
    return () if first is None else tuple(first.fields())
