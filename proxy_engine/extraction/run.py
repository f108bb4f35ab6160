"""Runs of an extraction: earlier rows, the batch, the output file.

:func:`extract` and :func:`iter_extract` are built on the public methods of an engine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Unpack, cast

from state_machines.errors import UnsatisfiableSchemaError

from ..checks import check_names, is_iterable, reusable, short_repr
from ..errors import InvalidOptionError
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from .answer_format import AnswerFormat
from .chunks import Chunks
from .details import DetailColumns
from .inputs import Content, Inputs
from .options import ExtractionArguments
from .outcomes import Engine, Extraction, Outcome, check_one_answer
from .outputs import Output, OutputOptions
from .progress import Progress, showing
from .records import CHECKED_RECORDS, Field, Instruction, RecordReader
from .results import ExtractedRecord, ExtractionResults, ExtractionStream, record_of
from .rows import JsonLines, RowFormat
from .sources import record_inputs
from .tables import Frame, as_frame


def extract(
    engine: Engine,
    records: Iterable[Any],
    response_format: Any,
    **arguments: Unpack[ExtractionArguments],
) -> ExtractionResults[Any]:
    """Extract an answer from each record: ``InferenceEngine.extract`` as a function.

    Args:
        engine: The engine.
        records: As in ``InferenceEngine.extract``, as are the other arguments.
        response_format: The response format.
    """
    return _prepared(engine, records, response_format, **arguments).results()


def iter_extract(
    engine: Engine,
    records: Iterable[Any],
    response_format: Any,
    **arguments: Unpack[ExtractionArguments],
) -> ExtractionStream[Any]:
    """:func:`extract` as a stream: ``InferenceEngine.iter_extract`` as a function."""
    return ExtractionStream(_prepared(engine, records, response_format, **arguments).records())


@dataclass(frozen=True, slots=True)
class Run:
    """An extraction from inputs that has not begun.

    Attributes:
        extraction: The format of the answers, the instruction and the options.
        inputs: The records.
        fields: The fields of the records, if they are known.
        output: The output file.
        opened_engine: Returns the engine; called if there are records left.
    """

    extraction: Extraction
    inputs: Inputs
    fields: tuple[str, ...]
    output: OutputOptions | None
    opened_engine: Callable[[], AbstractContextManager[Engine]]

    def outcomes(self) -> Generator[Outcome]:
        """Yield the outcomes in the order of the records. Closing stops the requests.

        A row is in the output file before its record is yielded.

        Raises:
            OutputFileError: The output file cannot be written or continued.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        answers = self.extraction.answers
        with contextlib.ExitStack() as stack:
            output: Output | None = None
            rows: RowFormat = JsonLines(answers)
            if self.output is not None:
                opened = self.output.opened(answers, self.inputs, self.fields)
                output = stack.enter_context(opened)
                rows = output.rows
                if self.output.is_resumed:
                    yield from output.earlier()
            if self.inputs.peek() is not None:
                if output is not None:
                    output.check_continuable()
                engine = stack.enter_context(self.opened_engine())
                if output is not None:
                    output.begin()
                outcomes = self.extraction.outcomes(engine, self.inputs, rows.admit)
                for outcome in stack.enter_context(contextlib.closing(outcomes)):
                    yield outcome if output is None else output.write(outcome)
            elif output is not None:
                output.begin()
            if output is not None:
                output.finish()


def _prepared(
    engine: Engine,
    records: Iterable[Any],
    response_format: Any,
    *,
    text: Field = "text",
    image: Field | None = None,
    instruction: Instruction | None = None,
    prefix: str = "",
    columns: Sequence[DetailColumns] = (),
    quotes: bool = False,
    chunk_tokens: int | None = None,
    chunk_overlap: int | None = None,
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress = None,
    **options: Unpack[OptionOverrides],
) -> _RecordsRun:
    """Check all arguments; the model does not run before."""
    reader = RecordReader(text, image)
    check_names(options, GenerationOptions.model_fields, GenerationOptions.name_hints)
    # The check of the options and all records read them.
    options = cast(OptionOverrides, reusable(options))
    if options.get("confidence") and "confidence" not in columns:
        columns = (*columns, "confidence")
    answers = AnswerFormat.of(response_format, prefix, options, columns, quotes=quotes)
    chunks = Chunks.of(chunk_tokens, chunk_overlap, answers)
    if "confidence" in columns:
        options = {"exact_choices": True, "confidence": True, **options}
    frame = as_frame(records)
    if frame is None:
        if not is_iterable(records):
            raise InvalidOptionError(
                f"records should be an iterable of records, not {short_repr(records)}",
                option="records",
                hint="Put a single one into a list.",
            )
        if isinstance(records, Sequence):
            # Records of an iterator fail alone.
            reader.check_records(records[:CHECKED_RECORDS])
    elif frame.columns is not None:
        reader.check_columns(frame.columns)
    if output is None and resume:
        raise InvalidOptionError("resume requires an output file", option="resume")
    file = None if output is None else OutputOptions.of(os.fspath(output), is_resumed=resume)
    extraction = Extraction(answers, instruction, options, chunks)
    # Errors of the response format and the options are those of every record.
    check_requests(engine, extraction)
    inputs = record_inputs(records, frame, reader)
    fields = inputs.fields()
    if frame is not None and frame.columns is None and fields:
        reader.check_columns(fields)
    answers.check_columns(fields)
    run = Run(extraction, inputs, fields, file, lambda: contextlib.nullcontext(engine))
    return _RecordsRun(run, reader, frame, progress)


def check_requests(engine: Engine, extraction: Extraction) -> None:
    """Raise the errors of the response format and the options, which all records have.

    Raises:
        ProxyError: As ``InferenceEngine.generate`` raises it, such as ``MaxTokensTooSmallError``.
    """
    answers, options = extraction.answers, extraction.options
    check_one_answer(engine.options.override(cast(OptionOverrides, options)))
    if answers.quotes_input:
        options = {**options, "sources": extraction.sources(Content("-"))}
    try:
        engine.count_tokens("-", answers.response_format, **cast(OptionOverrides, options))
    except UnsatisfiableSchemaError:
        # Records have other texts, which may have the quotes that this one lacks.
        if not answers.has_quotes:
            raise


@dataclass(frozen=True, slots=True)
class _RecordsRun:
    """A run over Python objects that has not begun."""

    run: Run
    reader: RecordReader
    frame: Frame | None
    progress: Progress

    def records(self) -> Generator[ExtractedRecord[Any]]:
        with (
            showing(self.progress, self.run.inputs.count) as advance,
            contextlib.closing(self.run.outcomes()) as outcomes,
        ):
            for outcome in outcomes:
                advance(outcome.error is not None)
                yield record_of(outcome, self.run.extraction)

    def results(self) -> ExtractionResults[Any]:
        answers = self.run.extraction.answers
        with ExtractionStream(self.records()) as stream:
            return ExtractionResults(stream, answers=answers, reader=self.reader, frame=self.frame)
