"""The arguments of an extraction besides the options of its requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Annotated, Any, Self, TypeAlias

from pydantic import BeforeValidator, Field

from ..checks import OptionModel, argument_names
from ..errors import InvalidOptionError
from ..options.overrides import OptionOverrides
from .details import DEFAULT_COLUMNS, DetailColumns
from .progress import Progress
from .records import Field as RecordField
from .records import Instruction


class ExtractionArguments(OptionOverrides, total=False):
    """The keyword arguments of an extraction, which ``InferenceEngine.extract`` describes."""

    text: RecordField | int
    image: RecordField | int | None
    instruction: Instruction | None
    prefix: str
    columns: Sequence[DetailColumns]
    retry_cut_short: bool
    quotes: bool
    chunk_tokens: int | None
    chunk_overlap: int | None
    output: str | os.PathLike[str] | None
    resume: bool
    overwrite: bool
    progress: Progress


def _as_name(column: Any) -> Any:
    """Return the name of a column as text; columns of pandas may be numbered."""
    is_number = isinstance(column, Integral) and not isinstance(column, bool)
    return str(column) if is_number else column


_Column: TypeAlias = Annotated[str | Callable[[Any], Any], BeforeValidator(_as_name)]


class ExtractionOptions(OptionModel):
    """Where the content of records is, what is extracted, and where rows are written. Immutable.

    Values are checked where they are used, before the model runs.

    Raises:
        InvalidOptionError: An option is unknown, or has no effect without another one.
    """

    text: _Column = "text"
    """The field or column with the text."""
    image: _Column | None = None
    """The field or column with an image."""
    instruction: Any = None
    """The text that precedes a record's text in its prompt. Default: extract the properties of the
    schema."""
    prefix: str = ""
    """Text before the names of the result's columns, where the input has the same names."""
    columns: Any = DEFAULT_COLUMNS
    """Columns about the answers: `cut_short`, `tokens`, `confidence`. Default: `cut_short`."""
    retry_cut_short: bool = True
    """Try an answer that `max_tokens` cuts short once more, with twice as many tokens."""
    quotes: bool = False
    """Quote the words of the text that state each property, in further columns."""
    chunk_tokens: int | None = Field(default=None, ge=1)
    """Divide longer texts into overlapping pieces of about this many tokens, and merge the items of
    their answers by their quotes. The schema is a list of items with quotes."""
    chunk_overlap: int | None = Field(default=None, ge=0)
    """Tokens by which pieces overlap. Default: an eighth of `chunk_tokens`."""
    output: Any = None
    """A file or URL to which rows are written as they finish: `.jsonl`, `.csv` or `.parquet`."""
    resume: bool = False
    """Continue the output of an interrupted run with the same input."""
    overwrite: bool = False
    """Replace an existing output."""
    progress: Any = None
    """Whether to show a progress bar, or a function of the counts."""

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the options. Raises ``InvalidOptionError``, as the constructor does."""
        options = cls(**arguments)
        if options.resume and options.output is None:
            raise InvalidOptionError("resume requires an output file", option="resume")
        if options.resume and options.overwrite:
            what = "resume keeps the rows of the output file, and overwrite drops them"
            raise InvalidOptionError(what, option="overwrite")
        return options

    @classmethod
    def split(cls, arguments: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Divide keyword arguments into the extraction's options and the options of requests."""
        names = argument_names(cls)
        given = {name: value for name, value in arguments.items() if name in names}
        others = {name: value for name, value in arguments.items() if name not in names}
        return cls.of(given), others
