"""Output files of ``engine.extract``: formats, resuming, faults."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_engine import (
    EarlierRunError,
    InferenceEngine,
    OutputFileError,
    OutputFileRefusedError,
)
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.csv_rows import Csv
from proxy_engine.extraction.inputs import Content
from proxy_engine.extraction.json_members import encode, join_members, split_members
from proxy_engine.extraction.rows import Answer, Failure, JsonLines, RowFormat, Written


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]
    ages: list[Literal[1, 2]] | None = pydantic.Field(max_length=2)


OPTIONS: dict[str, Any] = {"max_tokens": 80, "temperature": 0.0, "progress": False}
RECORDS: list[Any] = [
    {"id": 1, "text": 'quotes " and, commas'},
    {"id": 2, "text": None},
    {"id": 3, "text": "line\nbreak \ud800"},
    {"id": 4, "text": "ü"},
]
FORMATS = ["jsonl", "csv", "parquet"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_resumed_run_has_all_values_and_columns(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    options = {**OPTIONS, "columns": ["cut_short", "tokens", "confidence"]}
    with tiny_engine.iter_extract(RECORDS, Pet, output=path, **options) as stream:
        first = [next(stream) for _ in range(3)]
    seen: list[Any] = []

    def counted() -> Iterator[Any]:
        for record in RECORDS:
            seen.append(record)
            yield record

    resumed = tiny_engine.extract(counted(), Pet, output=path, resume=True, **options)
    assert [record.details for record in resumed[:3]] == [record.details for record in first]
    assert first[0].usage is not None
    assert first[0].details["prompt_tokens"] == first[0].usage.prompt_tokens
    assert 0 < first[0].details["kind_confidence"] <= 1
    assert resumed.values[:3] == [record.value for record in first]
    assert isinstance(resumed.errors[1], EarlierRunError)
    assert resumed.errors[1].type == "RecordError"
    assert [record.usage is None for record in resumed] == [True, True, True, False]
    assert seen == RECORDS
    whole = path.read_bytes()
    again = tiny_engine.extract(RECORDS, Pet, output=path, resume=True, **options)
    assert again.values == resumed.values
    made = again.to_pandas()
    added = ["kind_confidence", "ages_confidence", "cut_short", "cut_short_at"]
    assert list(made)[4:] == [*added, "prompt_tokens", "completion_tokens", "error"]
    assert list(made.dtypes.map(str))[4:9:4] == ["Float64", "Int64"]
    assert made.equals(resumed.to_pandas())
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_file_of_other_records_is_refused_and_unchanged(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    whole = path.read_bytes()
    with pytest.raises(OutputFileRefusedError, match="already exists"):
        tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    others = [{**RECORDS[0], "id": 9}, *RECORDS[1:]]
    for records in (others, RECORDS[:2]):
        with pytest.raises(OutputFileRefusedError, match="not written by this extraction"):
            tiny_engine.extract(records, Pet, output=path, resume=True, **OPTIONS)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_full_disk_leaves_whole_rows(
    tiny_engine: InferenceEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    write, room = os.write, 150

    def full(descriptor: int, content: memoryview) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        written = write(descriptor, content[:room])
        room -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr("proxy_engine.extraction.output_file.os.write", full)
        with pytest.raises(OutputFileError, match="No space left"):
            tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    assert path.read_bytes().endswith(b"\n")
    resumed = tiny_engine.extract(RECORDS, Pet, output=path, resume=True, **OPTIONS)
    other = tmp_path / f"other.{suffix}"
    tiny_engine.extract(RECORDS, Pet, output=other, **OPTIONS)
    assert len(resumed) == 4
    assert path.read_bytes() == other.read_bytes()


def test_failed_conversion_to_parquet_is_repeated(
    tiny_engine: InferenceEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.parquet"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("proxy_engine.extraction.parquet.os.replace", full)
        with pytest.raises(OutputFileError, match="No space left"):
            tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet.partial.jsonl"]
    monkeypatch.setattr(InferenceEngine, "generate", None)
    results = tiny_engine.extract(RECORDS, Pet, output=path, resume=True, **OPTIONS)
    assert all(record.usage is None for record in results)
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]


@dataclasses.dataclass(frozen=True)
class Fields:
    """An item with fields."""

    given: Mapping[str, Any]
    record: None = None
    label: str = "item"
    key: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def fields(self) -> Mapping[str, Any]:
        return self.given

    def read(self) -> Content:
        raise NotImplementedError


texts = st.text(st.sampled_from('a",\n\r;5 \\ü\0'), max_size=6)
values = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
SCHEMA = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "o": {"type": ["string", "null"]},
        "n": {"type": "integer"},
        "l": {"type": "array", "items": {"type": ["string", "integer"]}},
        "m": {"type": "object"},
    },
    "required": ["s", "o", "l"],
    "additionalProperties": False,
}
answers = st.fixed_dictionaries(
    {"s": texts, "o": st.none() | texts.filter(bool), "l": st.lists(texts | st.integers())},
    optional={"n": st.integers(), "m": st.dictionaries(texts, texts, max_size=2)},
)


@pytest.mark.parametrize("make", [Csv, JsonLines])
@given(data=st.data())
@settings(max_examples=40)
def test_rows_are_read_as_they_were_written(make: type[RowFormat], data: st.DataObject) -> None:
    rows = make(AnswerFormat.of(SCHEMA))
    drawn = data.draw(
        st.lists(st.tuples(st.fixed_dictionaries({"f": values, "g": values}), answers), max_size=4)
    )
    items = [Fields(fields) for fields, _ in drawn]
    for item in items:
        rows.admit(item.fields())
    written = b"".join(
        rows.encode(item, Written(encode(answer))).encode() + b"\n"
        for item, (_, answer) in zip(items, drawn, strict=True)
    )
    found = rows.split(
        iter(written.splitlines(keepends=True) if make is JsonLines else _lines(written))
    )
    again = make(AnswerFormat.of(SCHEMA))
    size = again.read_header(found, items[0] if items else None)
    assert size is not None
    whole = list(found)
    assert len(whole) == len(items)
    for row, item, (_, answer) in zip(whole, items, drawn, strict=True):
        assert again.read(row, item) == Answer(answer)
        assert all(again.is_beginning(row[:end], item) for end in range(0, len(row), 7))
        other = Fields({**item.fields(), "f": "another"})
        assert again.read(row, other) is None or item.fields()["f"] == "another"


def _lines(content: bytes) -> Iterator[bytes]:
    """Lines as a binary file has them."""
    *lines, last = content.split(b"\n")
    yield from (line + b"\n" for line in lines)
    if last:
        yield last


@pytest.mark.parametrize("make", [Csv, JsonLines])
def test_errors_are_read_as_they_were_written(make: type[RowFormat]) -> None:
    rows = make(AnswerFormat.of(SCHEMA))
    item = Fields({"id": 1})
    rows.admit(item.fields())
    encoded = rows.encode(item, ValueError('bad: "x",\n'))
    *header, row = rows.split(_lines(encoded.encode() + b"\n"))
    assert len(header) == (make is Csv)
    assert rows.read(row, item) == Failure("ValueError", 'bad: "x",\n')


@given(st.dictionaries(texts, values, max_size=4), st.sampled_from([None, 1]))
def test_members_keep_their_texts(members: dict[str, Any], indent: int | None) -> None:
    import json  # noqa: PLC0415

    text = json.dumps(members, ensure_ascii=False, indent=indent)
    split = split_members(text)
    assert {name: json.loads(member) for name, member in split.items()} == members
    assert json.loads(join_members(split)) == members


def test_members_keep_the_notation_of_numbers() -> None:
    assert split_members('{"a": 1.50, "b" : 1e400}') == {"a": "1.50", "b": "1e400"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_later_fields_have_a_place_or_fail(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    records = [{"text": "a"}] * 2 + [{"text": "b", "more": 1}]
    path = tmp_path / f"out.{suffix}"
    results = tiny_engine.extract(records, Pet, output=path, **OPTIONS)
    # Records that are read before the first row is written have columns.
    assert results.errors == {}
    more = [{"text": "a"}] * 40 + [{"text": "b", "more": 1}]
    path.unlink()
    results = tiny_engine.extract(more, Pet, output=path, **OPTIONS)
    assert list(results.errors) == ([40] if suffix == "csv" else [])
