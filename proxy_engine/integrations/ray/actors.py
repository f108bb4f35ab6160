"""The engine of an actor, and the tables that it extends by answers.

Free of Ray: the classes are plain, and :mod:`.datasets` makes actors of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from state_machines.errors import ProxyError

from ...checks import argument_names, short_repr
from ...errors import InvalidOptionError
from ...extraction.answer_format import AnswerFormat
from ...extraction.column_types import answer_types
from ...extraction.options import ExtractionOptions
from ...extraction.records import RecordReader
from ...extraction.results import ExtractionResults, record_of
from ...extraction.run import check_requests, extraction_of
from ...extraction.sources import record_inputs
from ...extraction.tables import as_frame, rows_of
from ...models.load_options import LoadArguments, LoadOptions
from ...runtime import process_runtime

if TYPE_CHECKING:
    from ...engine.inference_engine import InferenceEngine


LOADING = frozenset(argument_names(LoadOptions))
"""The names of the options of loading."""


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
        self._settings = settings
        self._types = answer_types(self.extraction.answers)
        # The process belongs to the actor.
        process_runtime.take_over()
        self.engine: InferenceEngine = InferenceEngine(**{"on_progress": None, **settings.engine})
        check_requests(self.engine, self.extraction)
        process_runtime.freeze()

    def extend(self, table: Any) -> Any:
        """Return a ``pyarrow.Table`` with the columns of the answers and errors.

        The types of the columns follow from the schema. All calls of an actor share the vocabulary
        and the compiled machine, which the engine stores by schema.

        Raises:
            InvalidOptionError: A column is missing, or has the name of a column of the result.
            ProxyError: An error that does not come from a record.
        """
        extraction, reader = self.extraction, self.reader
        # Empty blocks may have no columns.
        if table.column_names:
            check_columns(reader, extraction.answers, table.column_names)
        read = table.select(self._settings.fields(table.column_names))
        rows = (row for batch in read.to_batches(max_chunksize=1_000) for row in rows_of(batch))
        inputs = record_inputs(rows, None, reader)
        outcomes = extraction.outcomes(self.engine, inputs, lambda fields: None)
        return ExtractionResults(
            (record_of(outcome, extraction) for outcome in outcomes),
            answers=extraction.answers,
            reader=reader,
            frame=as_frame(table),
            types=self._types,
        ).to_arrow()


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
        yield self._extractor.extend(table)


def check_columns(reader: RecordReader, answers: AnswerFormat, columns: Iterable[str]) -> None:
    """Raise ``InvalidOptionError`` if a column is missing, or has the name of a result's column.

    Args:
        reader: Reads the content of records.
        answers: The format of the answers.
        columns: The columns of the input.
    """
    names = list(columns)
    reader.check_columns(names)
    answers.check_columns(names)


def engine_arguments(model: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the engines, with absolute paths. The model is not looked for.

    Args:
        model: The model.
        arguments: The other arguments; those that are ``None`` are left out.

    Raises:
        InvalidOptionError: An argument is invalid.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    batch_size = given.setdefault("batch_size", 8)
    for name, value in (("model", model), ("draft_model", given.get("draft_model"))):
        if not isinstance(value, str | os.PathLike | None):
            raise InvalidOptionError(
                f"{name} should be a path or a repo id, not {short_repr(value)}",
                option=name,
                hint="A model in memory cannot be sent to actors; save it to a directory.",
            )
        if value is not None:
            given[name] = _absolute(value)
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise InvalidOptionError(
            f"batch_size should be an integer of at least 1, not {short_repr(batch_size)}",
            option="batch_size",
        )
    loading = {name: given[name] for name in LOADING if name in given}
    options = LoadOptions.of(cast(LoadArguments, loading))
    if options.distributed:
        raise InvalidOptionError(
            "the actors of Ray are not ranks of a distributed run",
            option="distributed",
            hint="Each actor has a model of its own.",
        )
    if options.chat_template is not None:
        # Read here: the file may be on this machine alone.
        given["chat_template"] = options.chat_template
    if options.adapter_path is not None:
        given["adapter_path"] = _absolute(options.adapter_path)
    return given


def _absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a directory; a repo id as it is."""
    found = Path(path).expanduser()
    return str(found.absolute()) if found.is_dir() else os.fspath(path)
