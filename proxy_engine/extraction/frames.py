"""Data frames as inputs and outputs: pandas, polars, pyarrow, and datasets of Hugging Face.

No library is imported unless the caller passes one of its frames, or asks for one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from ..errors import InvalidOptionError, MissingExtraError
from .column_types import ColumnType, ListOf, Struct, conform_column, infer_type

Library: TypeAlias = Literal["pandas", "polars", "pyarrow", "datasets"]

_ARROW_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the caller.

    Attributes:
        library: Its library.
        data: The frame.
        columns: The names of its columns; ``None`` if they are not known.
        is_streamed: Whether it can be read only once, and its length is not known.
    """

    library: Library
    data: Any
    columns: tuple[str, ...] | None
    is_streamed: bool = False

    def count(self) -> int | None:
        """Return the number of rows, if it is known."""
        return None if self.is_streamed else len(self.data)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows."""
        if self.library == "pandas":
            for row in self.data.itertuples(index=False, name=None):
                yield dict(zip(self.columns or (), row, strict=True))
        elif self.library == "polars":
            yield from self.data.iter_rows(named=True)
        elif self.library == "pyarrow":
            for batch in self.data.to_batches(max_chunksize=_ARROW_ROWS):
                yield from batch.to_pylist()
        else:
            yield from self.data

    def arrow_types(self) -> dict[str, Any]:
        """Return the types of the columns in pyarrow, where they are known."""
        arrow = import_library("pyarrow")
        if self.library == "pandas":
            schema = arrow.Schema.from_pandas(self.data.head(0), preserve_index=False)
        elif self.library == "polars":
            schema = self.data.head(0).to_arrow().schema
        elif self.library == "pyarrow":
            schema = self.data.schema
        else:
            features = self.data.features
            schema = () if features is None else features.arrow_schema
        return {field.name: field.type for field in schema if field.type != arrow.null()}

    def with_columns(
        self, columns: Mapping[str, Sequence[Any]], types: Mapping[str, ColumnType]
    ) -> Any:
        """Return a frame of the same library with further columns; this one is unchanged.

        Args:
            columns: The columns.
            types: The types of columns that do not depend on the values.
        """
        added = make_frame(self.library, columns, types)
        if self.library == "pandas":
            added.index = self.data.index
            return import_library("pandas").concat([self.data, added], axis=1)
        if self.library == "polars":
            return self.data.hstack(added)
        if self.library == "pyarrow":
            table = self.data
            for name in added.column_names:
                table = table.append_column(name, added.column(name))
            return table
        return import_library("datasets").concatenate_datasets([self.data, added], axis=1)


def as_frame(records: Any) -> Frame | None:
    """Return a frame of a known library; ``None`` for other records.

    Raises:
        InvalidOptionError: The frame has two columns of a name, or cannot be iterated.
    """
    if _is(records, "pandas", "DataFrame"):
        return _checked(Frame("pandas", records, tuple(map(str, records.columns))))
    if _is(records, "polars", "DataFrame"):
        return Frame("polars", records, tuple(records.columns))
    if _is(records, "pyarrow", "Table"):
        return _checked(Frame("pyarrow", records, tuple(records.column_names)))
    if _is(records, "pyarrow", "RecordBatch"):
        table = sys.modules["pyarrow"].Table.from_batches([records])
        return _checked(Frame("pyarrow", table, tuple(table.column_names)))
    if _is(records, "datasets", "Dataset"):
        return Frame("datasets", records, tuple(records.column_names))
    if _is(records, "datasets", "IterableDataset"):
        names = records.column_names
        columns = None if names is None else tuple(names)
        return Frame("datasets", records, columns, is_streamed=True)
    if _is(records, "polars", "LazyFrame"):
        raise InvalidOptionError(
            "records should not be a LazyFrame", option="records", hint="Call its collect()."
        )
    if _is(records, "datasets", "DatasetDict") or _is(records, "datasets", "IterableDatasetDict"):
        raise InvalidOptionError(
            f"records should not be the splits {sorted(records)}",
            option="records",
            hint=f"Give one split, such as records[{sorted(records)[0]!r}].",
        )
    return None


def make_frame(
    library: Library,
    columns: Mapping[str, Sequence[Any]],
    types: Mapping[str, ColumnType] = MappingProxyType({}),
) -> Any:
    """Return a frame with columns of plain values.

    Args:
        library: The library of the frame.
        columns: The columns.
        types: The types of columns that do not depend on the values.

    Raises:
        MissingExtraError: The library is not installed.
    """
    module = import_library(library)
    if library == "pandas":
        make = _pandas_column(module)
        return module.DataFrame(
            {name: make(column, types.get(name)) for name, column in columns.items()}
        )
    if library == "polars":
        series = [
            conform_column(values, _polars_column(module, name), types.get(name))
            for name, values in columns.items()
        ]
        return module.DataFrame(series)
    arrow = import_library("pyarrow")
    make_array = _arrow_array(arrow)
    arrays = {
        name: conform_column(values, make_array, types.get(name))
        for name, values in columns.items()
    }
    table = arrow.table(arrays)
    return table if library == "pyarrow" else module.Dataset(table)


def import_library(name: Library) -> Any:
    """Import a library of frames.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise MissingExtraError(f"the frame requires {name}", extra="frames") from error


def _is(value: Any, library: Library, name: str) -> bool:
    # A value can be of a library only if the library is loaded.
    kind = getattr(sys.modules.get(library), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def _checked(frame: Frame) -> Frame:
    names = frame.columns or ()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidOptionError(
            f"the frame has several columns of the name {', '.join(map(repr, twice))}",
            option="records",
            hint="Rename them.",
        )
    return frame


def _pandas_column(pandas: Any) -> Callable[[Sequence[Any], ColumnType | None], Any]:
    # Nullable: an error leaves a gap, which makes integers floats in other types.
    nullable = {"boolean": "boolean", "integer": "Int64", "number": "Float64"}

    def make(values: Sequence[Any], known: ColumnType | None) -> Any:
        from_python: Any = object
        kind = infer_type(values) if known is None else known
        if isinstance(kind, str) and kind in nullable:
            from_python = nullable[kind]
        elif kind == "string":
            # The library's own default, which differs between its versions.
            from_python = None
        try:
            return pandas.Series(list(values), dtype=from_python)
        except UnicodeEncodeError:
            # Lone surrogates, which the library's type of texts cannot have.
            return pandas.Series(list(values), dtype=object)

    return make


def _polars_column(polars: Any, name: str) -> Callable[[Sequence[Any], ColumnType], Any]:
    scalars = {
        # Columns without values: other programs read few files with columns of nulls.
        "null": polars.String,
        "boolean": polars.Boolean,
        "integer": polars.Int64,
        "number": polars.Float64,
        "string": polars.String,
        "json": polars.String,
    }

    def dtype(kind: ColumnType) -> Any:
        if isinstance(kind, ListOf):
            return polars.List(dtype(kind.item))
        if isinstance(kind, Struct):
            return polars.Struct({name: dtype(member) for name, member in kind.members})
        return scalars[kind] if isinstance(kind, str) else None

    return lambda values, kind: polars.Series(name, values, dtype=dtype(kind))


def _arrow_array(arrow: Any) -> Callable[[Sequence[Any], ColumnType], Any]:
    return lambda values, kind: arrow.array(values, type=arrow_type(arrow, kind))


def arrow_type(arrow: Any, kind: ColumnType) -> Any:
    """Return a type of pyarrow; ``None`` for one that it infers from the values."""
    scalars = {
        "null": arrow.string(),
        "boolean": arrow.bool_(),
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "string": arrow.string(),
        "json": arrow.string(),
    }
    if isinstance(kind, ListOf):
        return arrow.list_(arrow_type(arrow, kind.item))
    if isinstance(kind, Struct):
        return arrow.struct([(name, arrow_type(arrow, member)) for name, member in kind.members])
    return scalars[kind] if isinstance(kind, str) else None
