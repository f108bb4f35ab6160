"""Extraction from many records, as methods of the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from ..extraction.options import ExtractionArguments
from ..extraction.results import ExtractionResults, ExtractionStream
from ..extraction.run import extract, iter_extract
from .batch_engine import BatchEngine

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..extraction.outcomes import Engine
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
            columns: Columns of frames and output files about the answers: ``"cut_short"``, the
                default (``cut_short``, why an answer ended early, and ``cut_short_at``, the JSON
                Pointer of the value; rows of JSON Lines have them only then), ``"tokens"``
                (``prompt_tokens`` and ``completion_tokens``) and ``"confidence"``
                (``<property>_confidence`` for each property; the options ``exact_choices`` and
                ``confidence`` are then on by default). ``confidence=True`` adds the last one.
            retry_cut_short: Whether a record whose answer ``max_tokens`` cuts short is tried once
                more with twice as many tokens. Without ``max_tokens``, here and in the options of
                the engine, an answer ends with the context at the latest.
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
        return extract(cast("Engine", self), records, response_format, **arguments)

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
        return iter_extract(cast("Engine", self), records, response_format, **arguments)
