"""Extraction on Ray without a cluster: the work of actors, partitions, and output directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs, parquet
from pydantic import BaseModel, field_validator

from proxy_engine import (
    InvalidOptionError,
    ModelNotFoundError,
    OutputFileError,
    OutputFileRefusedError,
)
from proxy_engine.cli.main import main
from proxy_engine.extraction.records import RecordReader
from proxy_engine.integrations.ray.actors import ActorSettings, Extractor, TableActor
from proxy_engine.integrations.ray.output import MANIFEST, OutputDirectory
from proxy_engine.integrations.ray.partitions import (
    InputFile,
    Location,
    Partition,
    PartitionLines,
    digest_of,
    empty_table,
    list_files,
    plan_partitions,
    read_tables,
)
from state_machines import JsonSchemaStateMachine


class Tag(BaseModel):
    kind: Literal["a", "bb"]
    size: Literal[1, 22] | None

    @field_validator("size")
    @classmethod
    def _enlarge(cls, size: int | None) -> int | None:
        """Return a value that is none of the schema's: an integer of more than 64 bits."""
        return 1 << 70 if size == 22 else size


@pytest.fixture(scope="module")
def actor_settings(tiny_model_directory: Path) -> ActorSettings:
    return ActorSettings(
        Tag, engine={"model": str(tiny_model_directory)}, options={"temperature": 0}
    )


@pytest.fixture(scope="module")
def extractor(actor_settings: ActorSettings) -> Extractor:
    return Extractor(actor_settings)


def location(path: Path) -> Location:
    return Location(fs.LocalFileSystem(), str(path))


TEXTS = ["one", None, "", "x" * 5_000, "two", "line\nbreak", "\0", "three"]


def test_rows_keep_their_fields_and_have_answers_or_errors(extractor: Extractor) -> None:
    tables = [
        pyarrow.table({"id": range(8), "text": TEXTS}),
        pyarrow.table({"id": pyarrow.array([], "int64"), "text": pyarrow.array([], "string")}),
        pyarrow.table({"id": [8], "text": ["four"]}),
    ]
    extended = list(extractor.extend(tables))
    assert [table.num_rows for table in extended] == [8, 0, 1]
    assert {table.schema for table in extended} == {extended[0].schema}
    assert extended[0].schema.types[2:] == [
        pyarrow.string(),
        pyarrow.int64(),
        pyarrow.string(),
    ]
    rows = extended[0].to_pylist()
    assert [row["text"] for row in rows] == TEXTS
    names = [(row["error"] or "None").partition(":")[0] for row in rows]
    assert names[1:4] == ["RecordError", "RecordError", "PromptTooLongError"]
    for row in (rows[0], *rows[4:]):
        if row["error"] is None:
            assert row["kind"] in ("a", "bb")
            assert row["size"] in (1, None)
        else:
            # The validator's value has no place in a column of 64-bit integers.
            assert "'size' does not fit its column" in row["error"]
            assert row["kind"] is None


def test_text_that_is_not_utf8_is_an_error_of_its_row(extractor: Extractor) -> None:
    texts = pyarrow.array([b"one", b"\xff\xfe", None], "binary").cast("string", safe=False)
    table = pyarrow.table({"id": [1, 2, 3], "text": texts})
    extended = next(extractor.extend([table]))
    assert "lone surrogate" in extended["error"][1].as_py()
    assert extended["id"].to_pylist() == [1, 2, 3]
    assert "lone" not in str(extended["error"][0].as_py())


def test_an_actor_compiles_its_schema_once(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    compile_schema = JsonSchemaStateMachine.__init__

    def counting(self: Any, *arguments: Any, **options: Any) -> None:
        compiled.append(self)
        compile_schema(self, *arguments, **options)

    monkeypatch.setattr(JsonSchemaStateMachine, "__init__", counting)
    actor = TableActor(extractor._settings)
    for number in range(3):
        list(actor(pyarrow.table({"text": [f"text {number}", "x"]})))
    assert len(compiled) == 1


def test_error_of_the_engine_is_raised_by_the_first_call(actor_settings: ActorSettings) -> None:
    actor = TableActor(replace(actor_settings, engine={"model": "/nowhere"}))
    with pytest.raises(ModelNotFoundError):
        next(actor(pyarrow.table({"text": ["x"]})))


def test_missing_column_is_an_error_of_the_call(extractor: Extractor) -> None:
    with pytest.raises(InvalidOptionError, match="no column 'text'"):
        next(extractor.extend([pyarrow.table({"body": ["x"]})]))
    with pytest.raises(InvalidOptionError, match="two columns of the name 'kind'"):
        next(extractor.extend([pyarrow.table({"text": ["x"], "kind": ["x"]})]))


LINES = st.lists(st.sampled_from([b"", b" ", b"{}", b'{"text": "a"}', b"\xff", b"x" * 40]))


def lines_of(path: Path, partitions: Sequence[Partition]) -> list[tuple[int, bytes]]:
    filesystem, reader = fs.LocalFileSystem(), RecordReader()
    return [
        (line.offset, line.content.rstrip(b"\n"))
        for partition in partitions
        for line in PartitionLines(filesystem, partition, reader)
    ]


@given(lines=LINES, rows=st.integers(1, 5), is_ended=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_each_line_is_in_one_partition(
    tmp_path: Path, lines: list[bytes], rows: int, is_ended: bool
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + (b"\n" if is_ended else b""))
    source = location(tmp_path)
    files = list_files(source, "in")
    partitions = plan_partitions(source, files, rows, lambda file, columns: None)
    assert [content for _, content in lines_of(path, partitions)] == [
        line for line in lines if line.strip()
    ]
    assert partitions == plan_partitions(source, files, rows, lambda file, columns: None)


@given(groups=st.lists(st.integers(0, 7), max_size=4), rows=st.integers(1, 6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_each_row_is_in_one_partition(tmp_path: Path, groups: list[int], rows: int) -> None:
    path = tmp_path / "a.parquet"
    schema = pyarrow.schema([("id", "int64")])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for size in groups:
            writer.write_table(pyarrow.table({"id": range(count, count + size)}, schema))
            count += size
    source = location(tmp_path)
    partitions = plan_partitions(source, list_files(source, "in"), rows, lambda file, columns: None)
    found = [
        [row for table in read_tables(source.filesystem, one) for row in table["id"].to_pylist()]
        for one in partitions
    ]
    assert [row for ids in found for row in ids] == list(range(count))
    assert all(len(ids) == rows for ids in found[:-1])
    for one in partitions[:1]:
        assert empty_table(source.filesystem, one).schema == schema


def test_files_are_those_of_subdirectories_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.jsonl", "c/a.ndjson", "_SUCCESS", ".x.jsonl", "_temporary/z.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    assert [file.name for file in list_files(location(tmp_path), "in")] == ["b.jsonl", "c/a.ndjson"]
    assert [f.name for f in list_files(location(tmp_path / "b.jsonl"), "in")] == ["b.jsonl"]
    (tmp_path / "d.csv").write_text("")
    with pytest.raises(InvalidOptionError, match=r"'d\.csv', whose suffix names no format"):
        list_files(location(tmp_path), "in")
    with pytest.raises(InvalidOptionError, match="cannot read 'in'"):
        list_files(location(tmp_path / "nowhere"), "in")


def test_digest_depends_on_names_sizes_and_times() -> None:
    file = InputFile("/in/a", "a", 1, 2)
    digests = {digest_of([one]) for one in (file, file._replace(size=2), file._replace(modified=3))}
    assert len(digests) == 3
    assert digest_of([file]) == digest_of([file._replace(path="/other/a")])


PARTITION = Partition(7, "/in/a.jsonl", "a.jsonl", "jsonl", 0, 10)


def directory(path: Path) -> OutputDirectory:
    return OutputDirectory(location(path), "out")


def test_output_directory_is_continued_by_a_run_with_equal_settings(tmp_path: Path) -> None:
    output = directory(tmp_path / "out")
    assert output.open({"model": "m", "input": "1"}, is_resumed=False) == set()
    output.write_lines(PARTITION, ["{}"])
    assert output.open({"model": "m", "input": "1"}, is_resumed=True) == {
        MANIFEST,
        "part-00000007.jsonl",
    }
    with pytest.raises(OutputFileRefusedError, match=r"not empty\. --resume continues"):
        output.open({"model": "m", "input": "1"}, is_resumed=False)
    with pytest.raises(OutputFileRefusedError, match="another model, another seed"):
        output.open({"model": "n", "input": "1", "seed": 1}, is_resumed=True)
    (tmp_path / "out" / MANIFEST).write_text("[")
    with pytest.raises(OutputFileRefusedError, match="manifest is malformed"):
        output.open({}, is_resumed=True)
    (tmp_path / "out" / MANIFEST).unlink()
    with pytest.raises(OutputFileRefusedError, match="not written by an extraction on Ray"):
        output.open({}, is_resumed=True)


def test_interrupted_partition_leaves_no_file(tmp_path: Path) -> None:
    output = directory(tmp_path / "out")
    output.open({}, is_resumed=False)

    def lines() -> Any:
        yield "{}"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        output.write_lines(PARTITION, lines())
    assert output.names() == {MANIFEST}
    # A killed process cannot remove its file.
    (tmp_path / "out" / "_temporary-1-part").write_text("{")
    assert output.names() == {MANIFEST}
    output.remove_temporary()
    assert [file.name for file in (tmp_path / "out").iterdir()] == [MANIFEST]


def test_attempts_of_processes_that_died_are_counted(tmp_path: Path) -> None:
    output = directory(tmp_path / "out")
    output.open({}, is_resumed=False)
    assert [output.begin(PARTITION) for _ in range(3)] == [1, 2, 3]
    assert output.begin(replace(PARTITION, number=8)) == 1
    assert output.names() == {MANIFEST}
    output.forget_attempts()
    assert output.begin(PARTITION) == 1
    output.remove_temporary()
    assert [file.name for file in (tmp_path / "out").iterdir()] == [MANIFEST]


def test_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputFileError, match="cannot write 'out'"):
        directory(tmp_path / "out" / "more").open({}, is_resumed=False)


@pytest.fixture
def has_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the command line come after that of the extra."""
    monkeypatch.setattr("proxy_engine.cli.extract_ray.import_extra", lambda *_, **__: None)


@pytest.mark.usefixtures("has_ray")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ray", "auto"], "--ray requires --input"),
        (["--ray", "auto", "--input", "x"], "--ray requires --output"),
        (["--ray", "auto", "--input", "x", "--output", "y", "z"], "cannot be used with files"),
        (["--ray", "auto", "--input", "x", "--output", "y", "--overwrite"], "with --overwrite"),
        (["--ray", "auto", "--input", "x", "--output", "y", "--concurrency", "0"], "at least 1"),
        (["--input", "x"], "--input requires --ray"),
        (["--num-cpus", "1"], "--num-cpus requires --ray"),
    ],
)
def test_wrong_command_line_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", "--schema", "s.json", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_missing_extra_is_the_first_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proxy_engine.runtime.extras.is_installed", lambda extra: False)
    assert main(["extract", "--schema", "nowhere.json", "--ray", "auto"]) == 1
    assert "pip install 'proxy-engine[ray]'" in capsys.readouterr().err
