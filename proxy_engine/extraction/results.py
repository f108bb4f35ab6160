"""Results of an extraction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..checks import summary
from ..errors import EarlierRunError
from ..results.streams import Stream
from .answer_format import ERROR, AnswerFormat
from .column_types import fitted
from .details import is_limit
from .json_values import encode, is_missing, jsonable
from .page import PageRecord, page
from .progress import ExtractionProgress
from .records import RecordReader
from .rows import error_text, unwritten
from .tables import Frame, make_frame

if TYPE_CHECKING:
    from ..results.parts import CutShort, Quotation, Usage
    from .outcomes import Extraction, Outcome

T = TypeVar("T")

_SHOWN_ROWS = 20
_SHOWN_CHARS = 300
_SHOWN_LINES = 10
_LINE_CHARS = 100
_CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0"
# No value takes more than its share of the table.
_VALUE = (
    "max-height:4.5em;max-width:20em;overflow:auto;overflow-wrap:break-word;white-space:pre-line"
)
_CUT = "background:rgba(230,160,0,0.18)"
_DIM = "opacity:0.65;font-size:85%"


@dataclass(frozen=True, slots=True)
class ExtractedRecord(Generic[T]):
    """The outcome of one record: a value or an error.

    Attributes:
        index: Position of the record in the input, from 0.
        record: The record; a dict for a row of a frame.
        value: The value, unless the record failed.
        error: The error, if the record failed.
        usage: Token counts and times; ``None`` if the record failed, or its row was read from the
            output of an earlier run.
        quotes: Where the quotes of the value stand in the text of the record, as
            ``GenerationResult.quotes``; with ``quotes=True`` also the quote of each property, at
            the property's pointer.
        details: The columns that ``columns=`` and ``quotes=`` have added, by name.
        cut_short: What cut the value short, as ``GenerationResult.cut_short``. Of an earlier run it
            is known by the columns ``cut_short``.
    """

    index: int
    record: Any
    value: T | None = None
    error: Exception | None = None
    usage: Usage | None = None
    quotes: tuple[Quotation, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    cut_short: CutShort | None = None

    def __str__(self) -> str:
        """Return the value as JSON, or the error."""
        if self.error is not None:
            return error_text(self.error)
        return encode(jsonable(self.value))

    def __repr__(self) -> str:
        cut = None if self.cut_short is None else str(self.cut_short)
        return summary(self, str(self), index=self.index, cut_short=cut)


def record_of(outcome: Outcome, extraction: Extraction) -> ExtractedRecord[Any]:
    """Return an outcome as a record of the results."""
    item, error, value = outcome.item, outcome.error, None
    try:
        value = outcome.value()
    except ValueError as refused:
        # A validator rejects the value that it has returned in an earlier run.
        error = EarlierRunError(str(refused), type=type(refused).__name__)
    usage = None if outcome.result is None else outcome.result.usage
    quotes = extraction.quotes(outcome)
    details, cut = outcome.details, None if error is not None else outcome.cut_short
    return ExtractedRecord(item.index, item.record, value, error, usage, quotes, details, cut)


class ExtractionStream(Stream[ExtractedRecord[T]], Generic[T]):
    """An iterator over the outcomes of an extraction, in the order of the records.

    Records are read from the iterable as they can be run. Closing or dropping the stream cancels
    the requests; rows that the output file has are kept.
    """


class ExtractionResults(Sequence[ExtractedRecord[T]]):
    """The outcomes of all records, in the order of the input.

    Frames have the columns of the input, a column for each property of the answers, the columns
    that ``columns=`` adds, and a column ``error`` with texts. If the answers are no objects with
    known properties, they are in the column ``result``. Properties that a schema allows and does
    not name are in the column ``additional_properties``.

    Args:
        records: The outcomes.
        answers: The format of the answers.
        reader: Reads the fields of the records.
        frame: The frame with the records, if they came from one.
        types: The types of the columns, if they follow from the schema; other values are errors.
    """

    def __init__(
        self,
        records: Iterable[ExtractedRecord[T]],
        *,
        answers: AnswerFormat,
        reader: RecordReader,
        frame: Frame | None = None,
        types: Mapping[str, Any] | None = None,
    ) -> None:
        self._records = tuple(records)
        self._answers = answers
        self._reader = reader
        self._frame = frame
        self._schema_types = types or {}
        self._types = {**self._schema_types, **answers.details.types}

    @overload
    def __getitem__(self, index: int) -> ExtractedRecord[T]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ExtractedRecord[T]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    @property
    def values(self) -> list[T | None]:
        """The value of each record; ``None`` for a record that failed."""
        return [record.value for record in self._records]

    @property
    def errors(self) -> dict[int, Exception]:
        """The errors by the index of their records."""
        return {record.index: record.error for record in self._records if record.error is not None}

    @property
    def cut_short(self) -> dict[int, CutShort]:
        """The limits that cut answers short, by the index of their records."""
        return {
            record.index: record.cut_short
            for record in self._records
            if record.cut_short is not None and is_limit(record.cut_short)
        }

    def to_frame(self) -> Any:
        """Return a frame of the library of the input; of pandas if the input is no frame.

        Raises:
            MissingExtraError: The library is not installed.
        """
        return self._to("pandas" if self._frame is None else self._frame.library)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; with the index of the input if that is one.

        Numbers and booleans have nullable types (``Int64``, ``Float64``, ``boolean``), so that
        integers remain integers beside errors. Lists and objects are Python values.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return self._to("pandas")

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``. Lists and objects are lists and structs.

        Columns whose values have no common type are texts with JSON.

        Raises:
            MissingExtraError: polars is not installed.
        """
        return self._to("polars")

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``, with the same types as :meth:`to_polars`.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        return self._to("pyarrow")

    def to_html(self) -> str:
        """Return an HTML page of the texts, with the quotes of the answers highlighted.

        The page needs no other file, and follows the light or dark mode of the browser.
        """
        return "".join(page(map(self._page_record, self._records)))

    def _page_record(self, record: ExtractedRecord[T]) -> PageRecord:
        label = f"record {record.index}"
        try:
            text = self._reader.read(record.record).text
        except ValueError:
            text = ""
        if record.error is not None:
            return PageRecord(label, text, error=error_text(record.error))
        has_field_quotes = self._answers.field_quotes is not None
        try:
            answer = self._answers.written(record.value)
        except ValueError as error:
            return PageRecord(label, text, error=error_text(unwritten(error, "")))
        return PageRecord(
            label,
            text,
            answer,
            record.quotes,
            has_field_quotes=has_field_quotes,
            cut_short=record.cut_short,
        )

    def _to(self, library: str) -> Any:
        frame = self._frame
        if frame is not None and frame.library == library and not frame.is_streamed:
            return frame.with_columns(self._added(), self._types)
        columns = {**self._fields(), **self._added()}
        return make_frame(library, columns, self._types)

    def _fields(self) -> dict[str, list[Any]]:
        """Return the fields of the records as columns."""
        rows = [self._reader.fields(record.record) for record in self._records]
        names = dict.fromkeys(name for row in rows for name in row)
        if self._frame is not None and self._frame.columns is not None:
            names = dict.fromkeys((*self._frame.columns, *names))
        return {name: [_cell(row.get(name)) for row in rows] for name in names}

    def _added(self) -> dict[str, list[Any]]:
        """Return the columns of the answers and errors."""
        rows, errors = [], []
        for record in self._records:
            error, row = record.error, {}
            try:
                if error is None:
                    cells = self._answers.cells(self._answers.plain(record.value))
                    row = fitted(cells, self._schema_types) if self._schema_types else cells
            except ValueError as refused:
                error = unwritten(refused, "")
            rows.append(row)
            errors.append(None if error is None else error_text(error))
        columns = {name: [row.get(name) for row in rows] for name in self._answers.columns}
        for name in self._answers.details.types:
            columns[name] = [record.details.get(name) for record in self._records]
        return {**columns, self._answers.prefix + ERROR: errors}

    def __str__(self) -> str:
        """Return the first records, one in a line, and the counts."""
        lines = [
            f"{record.index}: {_cut(' '.join(str(record).split()), _LINE_CHARS)}"
            + (f" (cut short by {record.cut_short})" if record.cut_short is not None else "")
            for record in self._records[:_SHOWN_LINES]
        ]
        if len(self) > _SHOWN_LINES:
            lines.append("…")
        return "\n".join([*lines, self._counts()])

    def __repr__(self) -> str:
        return f"<ExtractionResults: {self._counts()}>"

    def _counts(self) -> str:
        """Return the counts in words."""
        counts = ExtractionProgress(len(self), len(self.errors), len(self), len(self.cut_short))
        return f"{len(self):,} records, {counts.problems}"

    def _repr_html_(self) -> str:
        """Return a table of the first records for a notebook."""
        shown = ExtractionResults(
            self._records[:_SHOWN_ROWS], answers=self._answers, reader=self._reader
        )
        columns = {**shown._fields(), **shown._added()}
        head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
        rows = "".join(map(_row, shown, zip(*columns.values(), strict=True)))
        caption = self._counts()
        if len(self) > _SHOWN_ROWS:
            caption += f"; the first {_SHOWN_ROWS} are shown"
        return (
            f'<table style="color:inherit;background:none"><tr>{head}</tr>{rows}</table>'
            f'<div style="{_DIM}">{caption}</div>'
        )


def _cell(value: Any) -> Any:
    """Return the value of a field as a plain value."""
    if is_missing(value):
        return None
    plain = (bool, int, float, str, bytes, list, dict)
    if type(value) in plain or type(value).__module__ in ("datetime", "decimal"):
        return value
    return jsonable(value)


def _row(record: ExtractedRecord[Any], values: Sequence[Any]) -> str:
    """Return a row of the table. A record that a limit cut short has a mark."""
    cells = [f'<div style="{_VALUE}">{escape(_shown(value))}</div>' for value in values]
    style, cut = "", record.cut_short
    if cut is not None and is_limit(cut):
        style = f' style="{_CUT}"'
        title = escape(f"cut short by {cut.reason} at {cut.pointer or 'the whole answer'}")
        cells[0] = f'<span title="{title}">✂ cut short</span>{cells[0]}'
    return f"<tr{style}>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"


def _shown(value: Any) -> str:
    """Return a value as a reader writes it, at most :data:`_SHOWN_CHARS` characters."""
    return _cut(_plain_text(jsonable(value)), _SHOWN_CHARS)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _plain_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case list() if any(isinstance(item, list | dict) for item in value):
            return "\n".join(f"• {_plain_text(item)}" for item in value)
        case list():
            return ", ".join(map(_plain_text, value))
        case dict():
            return ", ".join(f"{name}: {_plain_text(member)}" for name, member in value.items())
    return encode(value)
