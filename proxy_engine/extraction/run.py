"""Runs of an extraction: earlier rows, the batch, the output file.

The engine's ``extract``, the command line and the actors of Ray are built on :class:`Run`, which
uses the public methods of an engine.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, cast

from state_machines.errors import UnsatisfiableSchemaError

from ..checks import check_names, is_iterable, reusable, short_repr
from ..errors import InvalidOptionError
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from .answer_format import AnswerFormat
from .chunks import Chunks
from .inputs import Inputs, RecordContent
from .options import ExtractionArguments, ExtractionOptions
from .outcomes import Engine, Extraction, Outcome, check_one_answer
from .outputs import Output, OutputOptions
from .paths import is_url
from .progress import showing
from .records import CHECKED_RECORDS, RecordReader
from .results import ExtractedRecord, ExtractionResults, ExtractionStream, record_of
from .rows import JsonLines, RowFormat
from .sources import opened_inputs, record_inputs
from .tables import Frame, as_frame

_SHOWN_TEXT = 60


def extract(
    engine: Engine,
    records: Iterable[Any] | str | os.PathLike[str],
    response_format: Any,
    **arguments: Unpack[ExtractionArguments],
) -> ExtractionResults[Any]:
    """Extract an answer from each record: ``InferenceEngine.extract`` as a function.

    Args:
        engine: The engine.
        records: As in ``InferenceEngine.extract``, as are the other arguments.
        response_format: The response format.
    """
    run = _PreparedRun.of(engine, records, response_format, arguments)
    with ExtractionStream(run.records()) as stream:
        answers = run.run.extraction.answers
        return ExtractionResults(stream, answers=answers, reader=run.reader, frame=run.frame)


def iter_extract(
    engine: Engine,
    records: Iterable[Any] | str | os.PathLike[str],
    response_format: Any,
    **arguments: Unpack[ExtractionArguments],
) -> ExtractionStream[Any]:
    """:func:`extract` as a stream: ``InferenceEngine.iter_extract`` as a function."""
    return ExtractionStream(_PreparedRun.of(engine, records, response_format, arguments).records())


def extraction_of(
    response_format: Any,
    options: ExtractionOptions,
    requests: Mapping[str, Any],
    model_hint: str = "Load a multimodal model.",
) -> Extraction:
    """Check the arguments of an extraction, without an engine.

    Args:
        response_format: The response format.
        options: The options of the extraction.
        requests: The options of the requests.
        model_hint: How to name a model that reads images, as a sentence.

    Raises:
        InvalidOptionError: An option is invalid.
        InvalidResponseFormatError: The response format is none of the accepted kinds.
    """
    check_names(requests, GenerationOptions.model_fields, GenerationOptions.name_hints)
    # The check of the options and all records read them.
    requests, columns = reusable(requests), options.columns
    if requests.get("confidence") and "confidence" not in columns:
        columns = (*columns, "confidence")
    answers = AnswerFormat.of(
        response_format, options.prefix, requests, columns, quotes=options.quotes
    )
    chunks = Chunks.of(options.chunk_tokens, options.chunk_overlap, answers)
    instruction = options.instruction
    if not (instruction is None or isinstance(instruction, str) or callable(instruction)):
        raise InvalidOptionError(
            f"instruction should be a text or a function of a record, not "
            f"{short_repr(instruction)}",
            option="instruction",
        )
    if "confidence" in columns:
        requests = {"exact_choices": True, "confidence": True, **requests}
    return Extraction(
        answers,
        options.instruction,
        requests,
        chunks,
        model_hint,
        retry_cut_short=options.retry_cut_short,
    )


def check_requests(engine: Engine, extraction: Extraction) -> None:
    """Raise the errors of the response format and the options, which all records have.

    Raises:
        ProxyError: As ``InferenceEngine.generate`` raises it, such as ``MaxTokensTooSmallError``.
    """
    answers, options = extraction.answers, extraction.request_options(engine)
    check_one_answer(engine.options.override(cast(OptionOverrides, options)))
    if answers.quotes_input:
        options = {**options, "sources": extraction.sources(RecordContent("-"))}
    try:
        engine.count_tokens("-", answers.response_format, **cast(OptionOverrides, options))
    except UnsatisfiableSchemaError:
        # Records have other texts, which may have the quotes that this one lacks.
        if not answers.has_quotes:
            raise


@dataclass(frozen=True)
class Run:
    """An extraction from inputs to an output file that has not begun.

    Attributes:
        extraction: The format of the answers, the instruction and the options.
        inputs: The records.
        output: The output file.
        opened_engine: Returns the engine, which has passed :func:`check_requests`; called if there
            are records left.
    """

    extraction: Extraction
    inputs: Inputs
    output: OutputOptions | None
    opened_engine: Callable[[], AbstractContextManager[Engine]]

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the records, if they are known."""
        return self.inputs.fields()

    def check_columns(self, *, has_error: bool = True) -> None:
        """Raise ``InvalidOptionError`` if a column of the result has the name of a field.

        Args:
            has_error: Whether there is a column of errors.
        """
        self.extraction.answers.check_columns(self.fields, has_error=has_error)

    def outcomes(self) -> Generator[Outcome]:
        """Yield the outcomes in the order of the records. Closing stops the requests.

        A row is in the output file before its record is yielded.

        Raises:
            OutputFileError: The output file cannot be written or continued.
            ProxyError: An error that does not come from a record, such as ``EngineClosedError``.
        """
        answers = self.extraction.answers
        with ExitStack() as stack:
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
                    stack.callback(output.interrupt)
                outcomes = self.extraction.outcomes(engine, self.inputs, rows.admit)
                for outcome in stack.enter_context(contextlib.closing(outcomes)):
                    yield outcome if output is None else output.write(outcome)
            elif output is not None:
                output.begin()
            if output is not None:
                output.finish()


@dataclass(frozen=True, slots=True)
class _PreparedRun:
    """A run for Python, which has not begun.

    Attributes:
        run: The run.
        reader: Reads the content of records.
        frame: The frame with the records, if they came from one.
        progress: How progress is shown.
        stack: Closes the input.
    """

    run: Run
    reader: RecordReader
    frame: Frame | None
    progress: Any
    stack: ExitStack

    @classmethod
    def of(
        cls, engine: Engine, records: Any, response_format: Any, arguments: Mapping[str, Any]
    ) -> _PreparedRun:
        """Check all arguments; the model does not run before."""
        options, requests = ExtractionOptions.split(arguments)
        reader = RecordReader(options.text, options.image)
        with ExitStack() as stack:
            extraction = extraction_of(response_format, options, requests)
            frame = as_frame(records)
            check_records(records, frame, reader)
            if isinstance(records, str | os.PathLike):
                path = os.fspath(records)
                inputs = stack.enter_context(opened_inputs([path], reader, are_named=True))
            else:
                inputs = record_inputs(records, frame, reader)
            output = OutputOptions.of(options)
            run = Run(extraction, inputs, output, lambda: contextlib.nullcontext(engine))
            check_requests(engine, extraction)
            if frame is not None and frame.columns is None and run.fields:
                reader.check_columns(run.fields)
            run.check_columns()
            return cls(run, reader, frame, options.progress, stack.pop_all())

    def records(self) -> Generator[ExtractedRecord[Any]]:
        with (
            self.stack,
            showing(self.progress, self.run.inputs.count) as advance,
            contextlib.closing(self.run.outcomes()) as outcomes,
        ):
            for outcome in outcomes:
                advance(outcome.error is not None, outcome.is_limited)
                yield record_of(outcome, self.run.extraction)


def check_records(records: Any, frame: Frame | None, reader: RecordReader) -> None:
    """Raise ``InvalidOptionError`` for what is no iterable of records, or a list without texts."""
    if frame is not None:
        if frame.columns is not None:
            reader.check_columns(frame.columns)
    elif isinstance(records, os.PathLike) or (isinstance(records, str) and is_url(records)):
        return
    elif not is_iterable(records):
        raise InvalidOptionError(
            f"records should be an iterable of records, not {short_repr(records)}",
            option="records",
            hint=_records_hint(records),
        )
    elif isinstance(records, Sequence):
        # Records of an iterator fail alone.
        reader.check_records(records[:CHECKED_RECORDS])


def _records_hint(records: Any) -> str:
    """Return the argument to write in place of a single record, a path or a dict of columns."""
    if isinstance(records, str):
        shown = repr(records) if len(records) < _SHOWN_TEXT else "records"
        return f"Write pathlib.Path({shown}) for a file, and [{shown}] for a text."
    if isinstance(records, Mapping) and any(map(is_iterable, records.values())):
        return "Write pandas.DataFrame(records) for columns, and [records] for a single record."
    return "Put a single record into a list."
