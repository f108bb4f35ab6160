"""Extraction from many records, as methods of the engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from state_machines.errors import UnsatisfiableSchemaError

from ..checks import check_names, is_iterable, reusable, short_repr
from ..errors import InvalidOptionError
from ..extraction.answer_format import AnswerFormat
from ..extraction.chunks import Chunks
from ..extraction.details import DetailColumns
from ..extraction.frames import Frame, as_frame
from ..extraction.inputs import Content
from ..extraction.outcomes import Extraction, check_one_answer
from ..extraction.outputs import OutputOptions
from ..extraction.progress import Progress, showing
from ..extraction.records import CHECKED_RECORDS, Field, Instruction, RecordReader
from ..extraction.results import ExtractedRecord, ExtractionResults, ExtractionStream, record_of
from ..extraction.run import Run
from ..extraction.sources import record_inputs
from ..options.generation import GenerationOptions
from ..options.overrides import OptionOverrides
from .arguments import ExtractionArguments
from .batch_engine import BatchEngine

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .arguments import Format, T

Records: TypeAlias = Iterable[Any]


class ExtractionEngine(BatchEngine):
    """``extract`` and ``iter_extract``, built on batches."""

    @overload
    def extract(
        self,
        records: Records,
        response_format: TypeForm[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionResults[T]: ...
    @overload
    def extract(
        self, records: Records, response_format: Format[T], **arguments: Unpack[ExtractionArguments]
    ) -> ExtractionResults[T]: ...
    def extract(
        self,
        records: Records,
        response_format: Any = None,
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionResults[Any]:
        """Extract an answer from each record, up to ``batch_size`` together.

        An error of one record is stored with it and does not affect the others. An interrupt stops
        all requests; the output file keeps the rows that it has.

        Args:
            records: Strings, mappings, dataclasses, pydantic objects or named tuples in a list or
                another iterable; a data frame of pandas or polars, a table of pyarrow, or a dataset
                of Hugging Face, with a record in each row.
            response_format: As in :meth:`generate`, except free text and compositions.
            text: The field or column with the text, or a function of the record.
            image: The field or column with an image, or a function of the record: a path, a URL,
                bytes, an image of Pillow, or a list of these. A record with an image needs no text.
            instruction: The instruction to the model, or a function of the record. Default: extract
                the properties of the response format.
            prefix: Text before the names of the result's columns, where the records have fields of
                the same names.
            columns: Further columns of frames and output files: ``"tokens"`` (``prompt_tokens`` and
                ``completion_tokens``), ``"cut_short"`` (``cut_short``, why an answer ended early,
                and ``cut_short_at``, the JSON Pointer of the value) and ``"confidence"``
                (``<property>_confidence`` for each property; the options ``exact_choices`` and
                ``confidence`` are then on by default). ``confidence=True`` adds the last one.
            quotes: Whether the model copies the words of the text that state a property after it
                has written the property. The quotes are in ``record.quotes``, at the pointers of
                the properties, and in columns ``<property>_quote``; the values are without them.
                The answer must be an object with listed properties. A quote may be empty.
            chunk_tokens: Divide longer texts at sentences into pieces of about this many tokens,
                and merge the items of their answers by their quotes. The answer must be a list of
                items with quotes from ``"input"``, or an object whose only property is one.
            chunk_overlap: Number of tokens by which pieces overlap at least. Default: an eighth of
                ``chunk_tokens``.
            output: A file to which rows are written as they finish. Its suffix, ``.jsonl``,
                ``.csv`` or ``.parquet``, is its format. The rows of a Parquet file are beside it,
                in ``.partial.jsonl``, until the last one.
            resume: Continue the output file of an interrupted run over the same records. Its rows
                are validated, and returned without ``usage``.
            progress: Whether to show a progress bar, or a function that is called with an
                ``ExtractionProgress`` after each record. Default: a bar if standard error is a
                terminal, and in notebooks.
            options: The options of ``GenerationOptions``.

        Returns:
            The outcomes in the order of the records.

        Raises:
            InvalidOptionError: An argument is invalid, a column is missing, or a column of the
                result has the name of a field.
            InvalidResponseFormatError: The response format is none of the accepted kinds.
            OutputFileRefusedError: The output file exists and ``resume`` is false, or it was not
                written by this extraction.
            OutputFileError: The output file cannot be written.
            ProxyError: As :meth:`generate` raises it for every record, before the first one.
        """
        return self._extraction(records, response_format, **arguments).results()

    @overload
    def iter_extract(
        self,
        records: Records,
        response_format: TypeForm[T],
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionStream[T]: ...
    @overload
    def iter_extract(
        self, records: Records, response_format: Format[T], **arguments: Unpack[ExtractionArguments]
    ) -> ExtractionStream[T]: ...
    def iter_extract(
        self,
        records: Records,
        response_format: Any = None,
        **arguments: Unpack[ExtractionArguments],
    ) -> ExtractionStream[Any]:
        """:meth:`extract` as a stream of records, for inputs that are larger than the memory.

        Some ``4 * batch_size`` records are read ahead. The output file is opened when the first
        record is requested. Arguments and exceptions are those of :meth:`extract`.
        """
        return ExtractionStream(self._extraction(records, response_format, **arguments).records())

    def _extraction(
        self,
        records: Records,
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
    ) -> _Extraction:
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
        self._check(extraction)
        inputs = record_inputs(records, frame, reader)
        fields = inputs.fields()
        if frame is not None and frame.columns is None and fields:
            reader.check_columns(fields)
        answers.check_columns(fields)
        run = Run(extraction, inputs, fields, file, lambda: contextlib.nullcontext(self))
        return _Extraction(run, reader, frame, progress)

    def _check(self, extraction: Extraction) -> None:
        """Raise the errors of the response format and the options, which all records have."""
        answers, options = extraction.answers, extraction.options
        check_one_answer(self._core.preparation.options.override(options))
        if answers.quotes_input:
            options = {**options, "sources": extraction.sources(Content("-"))}
        try:
            self._core.preparation.request("-", answers.response_format, options)
        except UnsatisfiableSchemaError:
            # Records have other texts, which may have the quotes that this one lacks.
            if not answers.has_quotes:
                raise


@dataclass(frozen=True, slots=True)
class _Extraction:
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
