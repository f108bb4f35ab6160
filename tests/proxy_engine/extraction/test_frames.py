"""Frames as records and results."""

from __future__ import annotations

import datetime
import decimal
import importlib
from typing import Any, Literal

import datasets
import pandas
import polars
import pyarrow
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine import InferenceEngine, InvalidOptionError, MissingExtraError
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.records import RecordReader
from proxy_engine.extraction.results import ExtractedRecord, ExtractionResults
from proxy_engine.extraction.tables import as_frame, make_frame


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    age: Literal[1, 2, 3]


OPTIONS: dict[str, Any] = {"max_tokens": 60, "temperature": 0.0, "progress": False}
ROWS = {"id": [1, 2, 3], "body": ["x", None, "z"]}
ADDED = ["kind", "age", "cut_short", "cut_short_at", "error"]


def frames() -> list[Any]:
    dataset = datasets.Dataset.from_dict(ROWS)
    return [
        pandas.DataFrame(ROWS, index=[7, 7, 9]),
        polars.DataFrame(ROWS),
        pyarrow.table(ROWS),
        dataset,
        dataset.to_iterable_dataset(),
    ]


@pytest.mark.parametrize("frame", frames(), ids=lambda frame: type(frame).__module__)
def test_result_is_a_frame_of_the_library_of_the_input(
    tiny_engine: InferenceEngine, frame: Any
) -> None:
    results = tiny_engine.extract(frame, Pet, text="body", **OPTIONS)
    assert list(results.errors) == [1]
    assert "the text is missing" in str(results.errors[1])
    made = results.to_frame()
    expected = type(frame)
    if isinstance(frame, datasets.IterableDataset):
        expected = datasets.Dataset
    assert type(made) is expected
    names = getattr(made, "column_names", None) or list(made.columns)
    assert names == ["id", "body", *ADDED]
    for table in (results.to_pandas(), results.to_polars(), results.to_arrow().to_pandas()):
        assert list(table["id"]) == [1, 2, 3]
        assert list(table.columns) == ["id", "body", *ADDED]
    ages = [None if value is None else value.age for value in results.values]
    assert results.to_polars()["age"].to_list() == ages
    assert str(results.to_pandas()["age"].dtype) == "Int64"
    assert "the text is missing" in results._repr_html_()


def test_input_frame_is_unchanged_and_its_index_kept(tiny_engine: InferenceEngine) -> None:
    frame = pandas.DataFrame(ROWS, index=["a", "b", "b"])
    before = frame.copy()
    made = tiny_engine.extract(frame, Pet, text="body", **OPTIONS).to_frame()
    pandas.testing.assert_frame_equal(frame, before)
    pandas.testing.assert_frame_equal(made[["id", "body"]], before)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pandas.DataFrame([[1, "x"]], columns=["text", "text"]), "several columns of the name"),
        (pyarrow.table([["x"], ["y"]], names=["text", "text"]), "several columns of the name"),
        (pandas.DataFrame({"body": ["x"]}), "no column 'text'; its columns: 'body'"),
        (pandas.DataFrame({"text": ["x"], "kind": [3]}), "two columns of the name 'kind'"),
        (polars.DataFrame({"text": ["x"]}).lazy(), "LazyFrame"),
        (datasets.DatasetDict(train=datasets.Dataset.from_dict(ROWS)), r"records\['train'\]"),
    ],
)
def test_unusable_frame_is_refused(tiny_engine: InferenceEngine, frame: Any, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        tiny_engine.extract(frame, Pet, **OPTIONS)


def test_missing_values_of_pandas_are_missing_texts(tiny_engine: InferenceEngine) -> None:
    texts = pandas.Series(["x", None, float("nan"), pandas.NA, pandas.NaT], dtype=object)
    results = tiny_engine.extract(pandas.DataFrame({"text": texts}), Pet, **OPTIONS)
    assert list(results.errors) == [1, 2, 3, 4]
    assert list(tiny_engine.extract(texts, Pet, **OPTIONS).errors) == [1, 2, 3, 4]


def results_of(values: list[Any], kind: Any) -> ExtractionResults[Any]:
    records = [
        ExtractedRecord(n, f"text {n}", value, ValueError("failed") if value is None else None)
        for n, value in enumerate(values)
    ]
    return ExtractionResults(records, answers=AnswerFormat.of(kind), reader=RecordReader())


class Line(pydantic.BaseModel):
    name: str
    price: decimal.Decimal | None = None


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(alias="No.")
    day: datetime.date
    lines: list[Line]
    state: Literal["a"] | int

    @pydantic.computed_field
    def total(self) -> int:
        return 3


def test_nested_values_are_structs_and_names_those_of_the_schema() -> None:
    day = datetime.date(2024, 5, 6)
    lines = [Line(name="x", price=decimal.Decimal("1.50"))]
    invoices = [
        Invoice(**{"No.": 1, "day": day, "lines": lines, "state": "a"}),
        None,
        Invoice(**{"No.": 2, "day": day, "lines": [], "state": 4}),
    ]
    results = results_of(invoices, Invoice)
    frame = results.to_polars()
    assert frame.columns == ["text", "No.", "day", "lines", "state", "error"]
    assert frame["No."].to_list() == [1, None, 2]
    assert frame["day"].to_list() == [day, None, day]
    assert frame["lines"].to_list() == [[{"name": "x", "price": "1.50"}], None, []]
    # No common type: texts with JSON.
    assert frame["state"].to_list() == ['"a"', None, "4"]
    assert results.to_arrow().schema.field("day").type == pyarrow.date32()
    table = results.to_pandas()
    assert table["lines"][0] == [{"name": "x", "price": decimal.Decimal("1.50")}]
    assert str(table["No."].dtype) == "Int64"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(st.lists(json_values, min_size=1, max_size=5))
@settings(max_examples=60)
def test_values_of_any_types_fit_into_every_frame(values: list[Any]) -> None:
    for library in ("pandas", "polars", "pyarrow"):
        frame = make_frame(library, {"x": values})
        assert len(frame) == len(values)
        read = frame["x"].tolist() if library == "pandas" else None
        read = frame["x"].to_list() if library == "polars" else read
        read = frame["x"].to_pylist() if library == "pyarrow" else read
        assert read is not None
        for value, found in zip(values, read, strict=True):
            assert (value is None) == (found is None or found is pandas.NA or found != found)


def test_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module = importlib.import_module

    def missing(name: str) -> Any:
        if name == "polars":
            raise ModuleNotFoundError(name=name)
        return import_module(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"proxy-engine\[frames\]"):
        results_of([Line(name="x")], Line).to_polars()


def test_other_records_are_no_frames() -> None:
    assert as_frame([{"text": "x"}]) is None
    assert as_frame(iter("x")) is None
