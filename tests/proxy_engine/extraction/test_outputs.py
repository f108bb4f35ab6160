"""Output files of ``engine.extract``: formats, resuming, faults."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from object_schemas import closed_object

from proxy_engine import (
    EarlierRunError,
    InferenceEngine,
    OutputFileError,
    OutputFileRefusedError,
)
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.inputs import Item, RecordContent
from proxy_engine.extraction.json_values import encode, join_members, split_members
from proxy_engine.extraction.outcomes import Outcome
from proxy_engine.extraction.records import RecordReader
from proxy_engine.extraction.rows import Csv, JsonLines
from proxy_engine.extraction.sources import line_inputs
from state_machines import ChoiceStateMachine


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
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == [path.name, f"{path.name}.manifest"]


@pytest.mark.parametrize(
    "response_format",
    [
        ChoiceStateMachine(["a\n"]),
        {"type": "grammar", "grammar": 'root ::= "a\\n"'},
        {
            "type": "structural_tag",
            "format": {"type": "const_string", "value": "a\n"},
        },
    ],
    ids=["machine", "grammar", "structural tag"],
)
def test_answers_that_are_no_json_are_written_as_texts(
    tiny_engine: InferenceEngine, tmp_path: Path, response_format: Any
) -> None:
    path = tmp_path / "out.jsonl"
    tiny_engine.extract(["x"], response_format, output=path, **OPTIONS)
    assert json.loads(path.read_bytes()) == {"text": "x", "result": "a\n"}
    resumed = tiny_engine.extract(["x"], response_format, output=path, resume=True, **OPTIONS)
    assert resumed.values == ["a\n"]


class Owner(pydantic.BaseModel):
    is_known: bool = pydantic.Field(validation_alias="known", serialization_alias="isKnown")


class Changed(pydantic.BaseModel):
    """A type that rejects its own values in JSON."""

    kind: Literal["cat", "dog"] = pydantic.Field(exclude=True)
    age: Literal[1, 2]
    weight: Literal["1.5", "unknown"]
    owner: Owner

    @pydantic.field_validator("age")
    @classmethod
    def _add(cls, age: int) -> int:
        return age + 10

    @pydantic.field_validator("weight")
    @classmethod
    def _convert(cls, weight: str) -> float:
        return float("nan")


@pytest.mark.parametrize("suffix", FORMATS)
def test_values_that_validators_have_changed_are_written_and_resumed(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    with tiny_engine.iter_extract(RECORDS, Changed, output=path, **OPTIONS) as stream:
        first = next(stream)
    results = tiny_engine.extract(RECORDS, Changed, output=path, resume=True, **OPTIONS)
    assert [record.usage is None for record in results[:1]] == [True]
    assert str(results[0].value) == str(first.value)
    assert isinstance(results.values[3], Changed)
    if suffix == "jsonl":
        row = json.loads(path.read_bytes().splitlines()[0], parse_constant=pytest.fail)
        assert row["age"] in (11, 12)
        assert row["weight"] is None
        assert row["owner"].keys() == {"isKnown"}
        assert "kind" not in row


@pytest.mark.parametrize("suffix", FORMATS)
def test_earlier_answer_that_a_changed_validator_rejects_ends_no_run(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str
) -> None:
    rejected: list[str] = []

    class Checked(pydantic.BaseModel):
        kind: Literal["cat", "dog"]

        @pydantic.field_validator("kind")
        @classmethod
        def _check(cls, kind: str) -> str:
            return {name: name for name in ("cat", "dog") if name not in rejected}[kind]

    path = tmp_path / f"out.{suffix}"
    with tiny_engine.iter_extract(["a", "b"], Checked, output=path, **OPTIONS) as stream:
        assert next(stream).error is None
    rejected += ["cat", "dog"]
    results = tiny_engine.extract(["a", "b"], Checked, output=path, resume=True, **OPTIONS)
    assert [type(error).__name__ for error in results.errors.values()] == [
        "EarlierRunError",
        "OutputValidationError",
    ]
    if suffix == "parquet":
        rows = pyarrow.parquet.read_table(path).to_pylist()
        assert ["KeyError" in row["error"] for row in rows] == [True, True]


class Unwritten(pydantic.BaseModel):
    """Two values that pydantic cannot write: it has no form for one, and the other's raises."""

    path: Literal["a"] | None
    kind: Literal["cat", "dog"]

    @pydantic.field_validator("path")
    @classmethod
    def _convert(cls, path: str) -> Any:
        return Note()

    @pydantic.field_serializer("kind")
    def _write(self, kind: str) -> str:
        raise LookupError(kind)


class Note:
    def __str__(self) -> str:
        return "a note"


class Noted(Unwritten):
    @pydantic.field_serializer("kind")
    def _write(self, kind: str) -> str:
        return kind


class Named(Pet):
    """A type that is written as no object."""

    @pydantic.model_serializer
    def _write(self) -> str:
        return "a pet"


@pytest.mark.parametrize(("kind", "message"), [(Unwritten, "LookupError"), (Named, "no object")])
@pytest.mark.parametrize("suffix", FORMATS)
def test_value_that_cannot_be_written_is_the_error_of_its_record(
    tiny_engine: InferenceEngine, tmp_path: Path, suffix: str, kind: Any, message: str
) -> None:
    path = tmp_path / f"out.{suffix}"
    results = tiny_engine.extract(["a", "b"], kind, output=path, **OPTIONS)
    assert [message in str(error) for error in results.errors.values()] == [True, True]
    if suffix == "parquet":
        rows = pyarrow.parquet.read_table(path).to_pylist()
        assert all(message in row["error"] for row in rows)
    else:
        assert path.read_text().count(message) == 2


@pytest.mark.parametrize(("kind", "message"), [(Unwritten, "LookupError"), (Named, "no object")])
def test_frames_and_pages_have_the_errors_of_values_that_cannot_be_written(
    tiny_engine: InferenceEngine, kind: Any, message: str
) -> None:
    results = tiny_engine.extract(["a", "b"], kind, **OPTIONS)
    assert all(isinstance(value, kind) for value in results.values)
    for row in results.to_arrow().to_pylist():
        assert row["text"] in ("a", "b")
        assert row["kind"] is None
        assert message in row["error"]
    assert results._repr_html_()
    assert kind is Named or message in results.to_html()


def test_value_that_pydantic_cannot_write_is_written_as_text(
    tiny_engine: InferenceEngine, tmp_path: Path
) -> None:
    path = tmp_path / "noted.jsonl"
    assert tiny_engine.extract(["a"], Noted, output=path, **OPTIONS).errors == {}
    assert json.loads(path.read_bytes())["path"] == "a note"


def test_fields_of_pydantic_dataclasses_have_the_names_of_the_schema() -> None:
    @pydantic.dataclasses.dataclass
    class Pet:
        age: int = pydantic.Field(validation_alias="years")

    answers = AnswerFormat.of(Pet)
    assert answers.columns == ("years",)
    assert answers.split(answers.written(answers.parse('{"years": 3}'))) == {"years": "3"}


def test_unlisted_properties_keep_their_order_and_the_notation_of_numbers() -> None:
    schema = {**SCHEMA, "additionalProperties": True}
    members = ", ".join(f'"p{number}": 1.50' for number in range(9))
    columns = AnswerFormat.of(schema).split(f'{{"s": "", {members}}}')
    assert columns == {"s": '""', "additional_properties": f"{{{members}}}"}


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
        with pytest.raises(OutputFileRefusedError, match="cannot be resumed"):
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
        patch.setattr("proxy_engine.extraction.output_file.os.replace", full)
        with pytest.raises(OutputFileError, match="No space left"):
            tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    rows = tmp_path / "out.parquet.partial.jsonl"
    assert rows.exists()
    monkeypatch.setattr(InferenceEngine, "generate", None)
    results = tiny_engine.extract(RECORDS, Pet, output=path, resume=True, **OPTIONS)
    assert all(record.usage is None for record in results)
    assert path.exists()
    assert not rows.exists()
    with pytest.raises(OutputFileRefusedError, match="complete and has 4 rows"):
        tiny_engine.extract([*RECORDS, "more"], Pet, output=path, resume=True, **OPTIONS)


texts = st.text(st.sampled_from('a",\n\r;5 \\ü\0'), max_size=6)
values = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2)
SCHEMA = closed_object(["s"], s={"type": "string"}, o={"type": ["string", "integer", "array"]})
answers = st.fixed_dictionaries(
    {"s": texts}, optional={"o": texts | st.integers() | st.lists(texts)}
)


def outcome_of(
    fields: dict[str, Any], answer: Any = None, error: Exception | None = None
) -> Outcome:
    item = Item(0, None, "record 0", {}, fields, RecordContent)
    return Outcome(item, FORMAT, error=error, earlier=(encode(answer), {}))


FORMAT = AnswerFormat.of(SCHEMA)


@given(st.lists(st.tuples(st.fixed_dictionaries({"f": values}), answers), min_size=1, max_size=4))
@settings(max_examples=40)
def test_rows_are_those_that_standard_readers_read(drawn: list[tuple[Any, Any]]) -> None:
    table, lines = Csv(FORMAT, ["f"]), JsonLines(FORMAT)
    outcomes = [outcome_of(fields, answer) for fields, answer in drawn]
    written = "".join(table.row(outcome) + "\n" for outcome in outcomes)
    found = list(csv.DictReader(io.StringIO(written, newline="")))
    assert [json.loads(lines.row(outcome)) for outcome in outcomes] == [
        {**fields, **answer} for fields, answer in drawn
    ]
    for row, (fields, answer) in zip(found, drawn, strict=True):
        for name in ("f", "s", "o"):
            value = {**fields, **answer}.get(name)
            expected = value if isinstance(value, str) else encode(value)
            assert row[name] == ("" if value is None else expected)
        assert row["error"] == ""
    failed = outcome_of({"f": 1}, error=ValueError('bad: "x",\n'))
    (row,) = csv.reader(io.StringIO(table.row(failed), newline=""))
    assert row == ["1", "", "", 'ValueError: bad: "x",\n']


@given(st.dictionaries(texts, values, max_size=4), st.sampled_from([None, 1]))
def test_members_keep_their_texts(members: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(members, ensure_ascii=False, indent=indent)
    split = split_members(text)
    assert {name: json.loads(member) for name, member in split.items()} == members
    assert json.loads(join_members(split)) == members


def test_members_keep_the_notation_of_numbers() -> None:
    assert split_members('{"a": 1.50, "b" : 1e400}') == {"a": "1.50", "b": "1e400"}


@given(
    st.lists(st.sampled_from([b"", b" ", b'"a"', b"[1", b'{"id": 2}', b"\r"])), st.integers(1, 9)
)
def test_lines_have_numbers_and_blank_ones_are_skipped(parts: list[bytes], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proxy_engine.extraction.sources._CHUNK", chunk)
        inputs = line_inputs(io.BytesIO(b"\n".join(parts)), RecordReader())
        ahead = inputs.first(2)
        found = list(inputs)
    assert found[:2] == ahead
    assert [item.key["line"] for item in found] == [
        number for number, line in enumerate(parts, start=1) if line.strip()
    ]


def test_pipe_is_ready_when_a_whole_line_has_arrived() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink:
        inputs = line_inputs(source, RecordReader(), is_counted=True)
        assert inputs.count is None
        assert not inputs.is_ready(0)
        sink.write(b'\n\n"fir')
        assert not inputs.is_ready(0.01)
        sink.write(b'st"\n"second"\n"thi')
        assert inputs.is_ready(0)
        assert next(inputs).record == "first"
        assert inputs.is_ready(0)
        assert next(inputs).key == {"line": 4}
        assert not inputs.is_ready(0)
        sink.write(b'rd"')
        sink.close()
        assert inputs.is_ready(0)
        assert [item.record for item in inputs] == ["third"]
        assert inputs.is_ready(0)
        assert inputs.peek() is None


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


def test_replacement_that_was_interrupted_before_its_first_row_is_resumed(
    tiny_engine: InferenceEngine, tmp_path: Path
) -> None:
    path = tmp_path / "out.parquet"
    whole = tiny_engine.extract(RECORDS, Pet, output=path, **OPTIONS)
    # As `--overwrite` leaves them: the old file, no rows, and a manifest without entries.
    manifest = tmp_path / "out.parquet.manifest"
    manifest.write_bytes(manifest.read_bytes().partition(b"\n")[0] + b"\n")
    (tmp_path / "out.parquet.partial.jsonl").touch()
    resumed = tiny_engine.extract(RECORDS, Pet, output=path, resume=True, **OPTIONS)
    assert resumed.values == whole.values
    assert sorted(one.name for one in tmp_path.iterdir()) == [path.name, manifest.name]
    assert len(manifest.read_bytes().splitlines()) == len(RECORDS) + 1


def test_parquet_has_the_columns_of_a_frame_with_their_types(
    tiny_engine: InferenceEngine, tmp_path: Path
) -> None:
    table = pyarrow.table(
        {
            "text": ["a", "b", "c"],
            "image": [b"\xff", None, b""],
            "box": [{"x": 1, "y": None}, None, {"x": 2, "y": 3}],
            "nothing": [None, None, None],
        }
    )
    path = tmp_path / "out.parquet"
    with tiny_engine.iter_extract(table, Pet, output=path, **OPTIONS) as stream:
        next(stream)
    tiny_engine.extract(table, Pet, output=path, resume=True, **OPTIONS)
    written = pyarrow.parquet.read_table(path)
    assert written.select(["text", "image", "box"]).equals(table.select(["text", "image", "box"]))
    assert written["nothing"].to_pylist() == [None, None, None]
    assert written.column_names[4:] == ["kind", "ages", "cut_short", "cut_short_at", "error"]
