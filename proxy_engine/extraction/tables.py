"""Tables: frames of any library as records and results.

Frames are read by narwhals, and columns are made by pyarrow. No library is imported unless the
caller passes a frame, or asks for one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import InvalidOptionError
from ..runtime.extras import import_extra
from .column_types import Column, import_arrow

_BATCH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the caller.

    Attributes:
        data: The frame.
        columns: The names of its columns; ``None`` if they are not known.
        table: The frame in narwhals; ``None`` for a dataset of Hugging Face.
        is_streamed: Whether it can be read only once, and its length is not known.
    """

    data: Any
    columns: tuple[str, ...] | None
    table: Any = None
    is_streamed: bool = False

    @property
    def library(self) -> str:
        """The name of its library."""
        return "datasets" if self.table is None else str(self.table.implementation.value)

    def count(self) -> int | None:
        """Return the number of rows, if it is known."""
        return None if self.is_streamed else len(self.data)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        if self.table is None:
            yield from self.data
            return
        names = self.columns or ()
        for row in self.table.iter_rows(named=False, buffer_size=_BATCH_ROWS):
            yield dict(zip(names, row, strict=True))

    def tables(self) -> list[Any] | None:
        """Return the rows as tables of pyarrow; ``None`` for rows that pyarrow has no types of."""
        arrow = import_arrow()
        if self.is_streamed:
            return None
        if self.table is None:
            return [self.data.with_format("arrow")[:]]
        try:
            # The index of pandas is left out.
            return [
                self.table.to_arrow().select(list(self.columns or ())).replace_schema_metadata()
            ]
        except (arrow.ArrowException, TypeError, ValueError):
            return None

    def with_columns(self, columns: Mapping[str, Sequence[Any]], types: Mapping[str, Any]) -> Any:
        """Return a copy with further columns, as a frame of the same library.

        Args:
            columns: The columns.
            types: The types of columns that do not depend on the values.
        """
        added = make_frame(self.library, columns, types)
        if self.table is None:
            datasets = import_extra("frames", "datasets", purpose="The frame")
            return datasets.concatenate_datasets([self.data, added], axis=1)
        if hasattr(self.data, "index"):
            added.index = self.data.index
        narwhals = _narwhals()
        frames = [self.table, narwhals.from_native(added)]
        return narwhals.concat(frames, how="horizontal").to_native()


def as_frame(records: Any) -> Frame | None:
    """Return a frame of a known library; ``None`` for other records.

    Raises:
        InvalidOptionError: The frame is lazy, or has two columns of a name.
        MissingExtraError: narwhals, which reads frames, is not installed.
    """
    if _is_dataset(records, "Dataset"):
        return Frame(records, tuple(records.column_names))
    if _is_dataset(records, "IterableDataset"):
        names = records.column_names
        return Frame(records, None if names is None else tuple(names), is_streamed=True)
    if _is_dataset(records, "DatasetDict") or _is_dataset(records, "IterableDatasetDict"):
        raise InvalidOptionError(
            f"records should not be the splits {sorted(records)}",
            option="records",
            hint=f"Give one split, such as records[{sorted(records)[0]!r}].",
        )
    if not (hasattr(records, "__arrow_c_stream__") or hasattr(records, "collect_schema")):
        return None
    narwhals = _narwhals()
    if type(records).__name__ == "RecordBatch":
        records = import_arrow().table(records)
    try:
        table = narwhals.from_native(records, pass_through=True)
    except narwhals.exceptions.DuplicateError as error:
        raise InvalidOptionError(
            f"the frame has several columns of the name {list(records.columns)}",
            option="records",
            hint="Rename them.",
        ) from error
    if isinstance(table, narwhals.LazyFrame):
        raise InvalidOptionError(
            f"records should not be a {type(records).__name__}, which is lazy",
            option="records",
            hint="Call its collect().",
        )
    if not isinstance(table, narwhals.DataFrame):
        return None
    return Frame(records, tuple(map(str, table.columns)), table)


def make_frame(
    library: str,
    columns: Mapping[str, Sequence[Any]],
    types: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Return a frame with columns of plain values.

    Args:
        library: The library of the frame.
        columns: The columns.
        types: The types of columns that do not depend on the values.

    Raises:
        MissingExtraError: The library is not installed.
    """
    module = import_extra("frames", library, purpose="The frame")
    if library == "pandas":
        return module.DataFrame(
            {name: _series(module, values, types.get(name)) for name, values in columns.items()}
        )
    table = make_table(columns, types)
    if library == "pyarrow":
        return table
    if library == "datasets":
        return module.Dataset(table)
    return _narwhals().from_arrow(table, backend=library).to_native()


def make_table(
    columns: Mapping[str, Sequence[Any]], types: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """Return a ``pyarrow.Table`` with columns of plain values; arguments as :func:`make_frame`."""
    found = {}
    for name, values in columns.items():
        # JSON is a text.
        kind = types.get(name)
        column = Column("string" if kind is None and name in types else kind)
        column.learn(values)
        found[name] = column.array(values)
    return import_arrow().table(found)


def _narwhals() -> Any:
    return import_extra("frames", "narwhals", purpose="The frame")


def _is_dataset(value: Any, name: str) -> bool:
    # A value can be of a library only if the library is loaded.
    kind = getattr(sys.modules.get("datasets"), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


_NULLABLE = {"bool": "boolean", "int64": "Int64", "double": "Float64", "string": None}
"""Types of pandas. Nullable: an error leaves a gap, which makes integers floats in other types.

``None`` is the library's own default for texts, which differs between its versions.
"""


def _series(pandas: Any, values: Sequence[Any], kind: str | None) -> Any:
    column = Column(kind)
    column.learn(values)
    is_text = all(isinstance(value, str | None) for value in values)
    name = str(column.type) if is_text or str(column.type) != "string" else "json"
    try:
        return pandas.Series(list(values), dtype=_NULLABLE.get(name, object))
    except UnicodeEncodeError:
        # Lone surrogates, which the library's type of texts cannot have.
        return pandas.Series(list(values), dtype=object)


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a record batch. Texts that are not UTF-8 have lone surrogates."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except UnicodeDecodeError:
        # Parquet files can have such texts, which must fail alone.
        arrow = import_arrow()
        columns = [
            _decoded(column.cast(arrow.binary()).to_pylist())
            if arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)
            else column.to_pylist()
            for column in batch.columns
        ]
        names = batch.schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def _decoded(texts: list[bytes | None]) -> list[str | None]:
    return [None if text is None else text.decode("utf-8", "surrogateescape") for text in texts]
