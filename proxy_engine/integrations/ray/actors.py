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
from ...extraction.options import ExtractionOptions
from ...extraction.outcomes import Outcome
from ...extraction.records import RecordReader
from ...extraction.rows import error_text, unwritten
from ...extraction.run import check_requests, extraction_of
from ...extraction.sources import record_inputs
from ...extraction.tables import Column, answer_types, fitted, import_arrow, rows_of
from ...runtime import process_runtime

if TYPE_CHECKING:
    from ...engine.inference_engine import InferenceEngine

_Cells = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """The settings of an actor's extraction. Sent to each actor once.

    Attributes:
        response_format: The response format.
        reader: Reads the content of records.
        extraction: The options of the extraction.
        engine: The arguments of ``InferenceEngine``.
        options: The options of all requests.
    """

    response_format: Any
    reader: RecordReader = field(default_factory=RecordReader)
    extraction: ExtractionOptions = field(default_factory=ExtractionOptions)
    engine: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def fields(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that records are made of: all of them if a function reads records."""
        text, image = self.reader.text, self.reader.image
        if any(map(callable, (text, image, self.extraction.instruction))):
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
        cut_short: Answers so far that a limit cut short.

    Raises:
        ProxyError: The engine cannot be created.
    """

    def __init__(self, settings: ActorSettings) -> None:
        # Deferred: the driver does not need MLX.
        from ...engine.inference_engine import InferenceEngine  # noqa: PLC0415

        self.extraction = extraction_of(
            settings.response_format,
            settings.extraction,
            settings.options,
            model_hint="Name a multimodal model.",
        )
        self.reader = settings.reader
        self.completion_tokens = self.cut_short = 0
        self._settings = settings
        self._types = answer_types(self.extraction.answers)
        # The process belongs to the actor.
        process_runtime.take_over()
        self.engine: InferenceEngine = InferenceEngine(**{"on_progress": None, **settings.engine})
        check_requests(self.engine, self.extraction)
        process_runtime.freeze()

    def counted(self, outcomes: Generator[Outcome]) -> Generator[Outcome]:
        """Yield outcomes, and count their tokens and those that a limit cut short."""
        with contextlib.closing(outcomes):
            for outcome in outcomes:
                self.cut_short += outcome.is_limited
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
                yield from rows_of(batch)

    def _empty(self, taken: deque[Any]) -> Iterator[Any]:
        """Yield the tables at the front that have no rows."""
        while taken and taken[0].num_rows == 0:
            yield self._extended(taken.popleft(), [])

    def _extended(self, table: Any, outcomes: list[Outcome]) -> Any:
        arrow, answers = import_arrow(), self.extraction.answers
        rows: list[_Cells] = [{} for _ in outcomes]
        errors = [outcome.error for outcome in outcomes]
        for position, outcome in enumerate(outcomes):
            if outcome.result is None:
                continue
            try:
                cells = answers.cells(answers.plain(outcome.result.parsed))
                rows[position] = fitted(cells, self._types)
            except ValueError as error:
                errors[position] = unwritten(error, outcome.answer)
        for name, kind in self._types.items():
            values = [row.get(name) for row in rows]
            table = table.append_column(
                name, arrow.array(values, arrow.string() if kind is None else kind)
            )
        for name, named in answers.details.types.items():
            details = [
                None if error else outcome.details.get(name)
                for outcome, error in zip(outcomes, errors, strict=True)
            ]
            table = table.append_column(name, arrow.array(details, type=Column(named).type))
        texts = [None if error is None else error_text(error) for error in errors]
        return table.append_column(answers.prefix + ERROR, arrow.array(texts, type=arrow.string()))


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
