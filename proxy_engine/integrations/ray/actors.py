"""The engine of an actor, and the tables that it extends by answers.

Free of Ray: the classes are plain, and :mod:`.datasets` makes actors of them.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from state_machines.errors import ProxyError

from ...extraction.answer_format import ERROR, AnswerFormat
from ...extraction.outcomes import Extraction, Outcome
from ...extraction.records import Instruction, RecordReader
from ...extraction.rows import error_text, unwritten
from ...extraction.sources import record_inputs
from ...extraction.tables import answer_types, fit, import_arrow
from ...runtime import process_runtime

if TYPE_CHECKING:
    from ...engine.inference_engine import InferenceEngine

_Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings of an actor's extraction. Sent to each actor once.

    Attributes:
        response_format: The response format.
        prefix: The text before the names of the result's columns.
        reader: Reads the content of records.
        instruction: The instruction to the model.
        engine: The arguments of ``InferenceEngine``.
        options: The options of all requests.
    """

    response_format: Any
    prefix: str = ""
    reader: RecordReader = field(default_factory=RecordReader)
    instruction: Instruction | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def fields(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that records are made of: all of them if a function reads records."""
        text, image = self.reader.text, self.reader.image
        if any(map(callable, (text, image, self.instruction))):
            return list(columns)
        return [name for name in columns if name in (text, image)]


class Extractor:
    """An engine and the answer format of a run.

    Args:
        settings: The settings of the run.

    Attributes:
        extraction: The format of the answers, the instruction and the options.
        reader: Reads the content of records.
        engine: The engine.
        completion_tokens: Tokens of all answers so far.

    Raises:
        ProxyError: The engine cannot be created.
    """

    def __init__(self, settings: ActorSettings) -> None:
        # Deferred: the driver does not need MLX.
        from ...engine.inference_engine import InferenceEngine  # noqa: PLC0415

        answers = AnswerFormat.of(settings.response_format, settings.prefix, settings.options)
        self.extraction = Extraction(
            answers, settings.instruction, settings.options, model_hint="Name a multimodal model."
        )
        self.reader = settings.reader
        self.completion_tokens = 0
        self._settings = settings
        self._types = answer_types(answers)
        # The process belongs to the actor.
        process_runtime.take_over()
        self.engine: InferenceEngine = InferenceEngine(**{"on_progress": None, **settings.engine})
        process_runtime.freeze()

    def counted(self, outcomes: Generator[Outcome]) -> Generator[Outcome]:
        """Yield outcomes, and count the tokens of their answers."""
        with contextlib.closing(outcomes):
            for outcome in outcomes:
                if outcome.result is not None:
                    self.completion_tokens += outcome.result.usage.completion_tokens
                yield outcome

    def extend(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Yield each ``pyarrow.Table`` with the columns of the answers and errors.

        The tables form one batch of the engine. The types of the columns follow from the schema.
        All batches of an actor share the vocabulary and the compiled machine, which the engine
        stores by schema.

        Raises:
            InvalidOptionError: A column is missing, or has the name of a column of the result.
            ProxyError: An error that does not come from a record.
        """
        taken: deque[Any] = deque()
        inputs = record_inputs(self._records(tables, taken), None, self.reader)
        outcomes: list[Outcome] = []
        found = self.extraction.outcomes(self.engine, inputs, lambda fields: None)
        with contextlib.closing(self.counted(found)) as found:
            for outcome in found:
                yield from self._empty(taken)
                outcomes.append(outcome)
                if len(outcomes) == taken[0].num_rows:
                    yield self._extended(taken.popleft(), outcomes)
                    outcomes = []
        yield from self._empty(taken)

    def _records(self, tables: Iterable[Any], taken: deque[Any]) -> Iterator[_Cells]:
        for table in tables:
            # Empty blocks may have no columns.
            if table.column_names:
                check_columns(self.reader, self.extraction.answers, table.column_names)
            taken.append(table)
            rows = table.select(self._settings.fields(table.column_names))
            for batch in rows.to_batches(max_chunksize=1_000):
                yield from _rows(batch)

    def _empty(self, taken: deque[Any]) -> Iterator[Any]:
        """Yield the tables at the front that have no rows."""
        while taken and taken[0].num_rows == 0:
            yield self._extended(taken.popleft(), [])

    def _extended(self, table: Any, outcomes: list[Outcome]) -> Any:
        arrow = import_arrow()
        rows: list[_Cells] = [{} for _ in outcomes]
        errors = [outcome.error for outcome in outcomes]
        for position, outcome in enumerate(outcomes):
            if outcome.result is None:
                continue
            try:
                rows[position] = self._cells(outcome.result.parsed)
            except ValueError as error:
                errors[position] = unwritten(error, outcome.answer)
        for name, kind in self._types.items():
            values = [row.get(name) for row in rows]
            table = table.append_column(
                name, arrow.array(values, arrow.string() if kind is None else kind)
            )
        texts = [None if error is None else error_text(error) for error in errors]
        return table.append_column(
            self.extraction.answers.prefix + ERROR, arrow.array(texts, type=arrow.string())
        )

    def _cells(self, value: Any) -> _Cells:
        """Return the columns of an answer, of the types of the columns.

        Raises:
            ValueError: A value has another type.
        """
        answers = self.extraction.answers
        cells = answers.cells(answers.plain(value))
        return {name: _fitted(name, cell, self._types[name]) for name, cell in cells.items()}


class TableActor:
    """A class for ``map_batches``: extends tables by answers.

    An error of the constructor is raised by the first call, since Ray would create the actor
    again.
    """

    def __init__(self, settings: ActorSettings) -> None:
        self._error: ProxyError | None = None
        try:
            self._extractor = Extractor(settings)
        except ProxyError as error:
            self._error = error

    def __call__(self, table: Any) -> Iterator[Any]:
        """Yield the table with the columns of the answers and errors.

        Ray replaces exceptions of functions by its own, but not those of generators.
        """
        if self._error is not None:
            raise self._error
        yield from self._extractor.extend([table])


def check_columns(reader: RecordReader, answers: AnswerFormat, columns: Iterable[str]) -> None:
    """Raise ``InvalidOptionError`` for a missing column, or one of the name of a result's column.

    Args:
        reader: Reads the content of records.
        answers: The format of the answers.
        columns: The columns of the input.
    """
    names = list(columns)
    reader.check_columns(names)
    answers.check_columns(names)


def _rows(batch: Any) -> list[_Cells]:
    """Return the rows of a record batch. Texts that are not UTF-8 have lone surrogates."""
    try:
        rows: list[_Cells] = batch.to_pylist()
    except UnicodeDecodeError:
        # Parquet files can have such texts, which must fail alone.
        arrow = import_arrow()
        columns = {
            name: _decoded(column.cast(arrow.binary()).to_pylist())
            if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)
            else column.to_pylist()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return rows


def _decoded(texts: list[bytes | None]) -> list[str | None]:
    return [None if text is None else text.decode("utf-8", "surrogateescape") for text in texts]


def _fitted(name: str, value: Any, kind: Any) -> Any:
    try:
        return fit(value, kind)
    except ValueError as error:
        raise ValueError(f"the value of {name!r} does not fit its column: {error}") from error
