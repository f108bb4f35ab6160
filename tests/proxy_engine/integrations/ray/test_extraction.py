"""Extraction on Ray without a cluster: the work of actors, partitions, and output directories."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import fsspec
import pyarrow
import pytest
from pyarrow import parquet
from pydantic import BaseModel, field_validator

from proxy_engine import (
    InvalidOptionError,
    ModelNotFoundError,
    OutputFileError,
    OutputFileRefusedError,
)
from proxy_engine.cli.main import main
from proxy_engine.extraction.answer_format import AnswerFormat
from proxy_engine.extraction.outputs import Output
from proxy_engine.extraction.records import RecordReader
from proxy_engine.integrations.ray.actors import ActorSettings, Extractor, TableActor
from proxy_engine.integrations.ray.files import (
    SETTINGS,
    Counts,
    FileActor,
    Location,
    OutputDirectory,
    check_tables,
    parts_of,
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


TEXTS = ["one", None, "", "x" * 5_000, "two", "line\nbreak", "\0", "three"]


def test_rows_keep_their_fields_and_have_answers_or_errors(extractor: Extractor) -> None:
    tables = [
        pyarrow.table({"id": range(8), "text": TEXTS}),
        pyarrow.table({"id": pyarrow.array([], "int64"), "text": pyarrow.array([], "string")}),
        pyarrow.table({"id": [8], "text": ["four"]}),
    ]
    extended = list(map(extractor.extend, tables))
    assert [table.num_rows for table in extended] == [8, 0, 1]
    assert {table.schema for table in extended} == {extended[0].schema}
    assert extended[0].schema.types[2:] == [
        pyarrow.string(),
        pyarrow.int64(),
        *3 * [pyarrow.string()],
    ]
    rows = extended[0].to_pylist()
    assert [row["text"] for row in rows] == TEXTS
    names = [(row["error"] or "None").partition(":")[0] for row in rows]
    assert names[1:4] == ["RecordError", "RecordError", "PromptTooLongError"]
    assert "no visible characters" in rows[6]["error"]
    for row in (rows[0], *rows[4:6], rows[7]):
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
    extended = extractor.extend(table)
    assert "lone surrogate" in extended["error"][1].as_py()
    assert extended["id"].to_pylist() == [1, 2, 3]
    assert "lone" not in str(extended["error"][0].as_py())


def test_an_actor_compiles_its_schema_once(
    actor_settings: ActorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []
    compile_schema = JsonSchemaStateMachine.__init__

    def counting(self: Any, *arguments: Any, **options: Any) -> None:
        compiled.append(self)
        compile_schema(self, *arguments, **options)

    monkeypatch.setattr(JsonSchemaStateMachine, "__init__", counting)
    actor = TableActor(actor_settings)
    for number in range(3):
        list(actor(pyarrow.table({"text": [f"text {number}", "x"]})))
    assert len(compiled) == 1


def test_error_of_the_engine_is_raised_by_the_first_call(actor_settings: ActorSettings) -> None:
    actor = TableActor(replace(actor_settings, engine={"model": "/nowhere"}))
    with pytest.raises(ModelNotFoundError):
        next(actor(pyarrow.table({"text": ["x"]})))


def test_missing_column_is_an_error_of_the_call(extractor: Extractor) -> None:
    with pytest.raises(InvalidOptionError, match="no column 'text'"):
        extractor.extend(pyarrow.table({"body": ["x"]}))
    with pytest.raises(InvalidOptionError, match="two columns of the name 'kind'"):
        extractor.extend(pyarrow.table({"text": ["x"], "kind": ["x"]}))


@pytest.fixture
def source(tmp_path: Path) -> Location:
    """An input of texts, an image that no model reads, and tables."""
    root = tmp_path / "in"
    for name, content in {
        "a.txt": "one",
        "b/c.txt": "",
        "b/d.txt": "two",
        "_SUCCESS": "",
        ".x.jsonl": "",
        "table.jsonl": '{"id": 1, "text": "three"}\n[\n{"id": 3, "text": "four"}\n',
        "table.csv": 'id,text\n1,"a, b"\n2\n',
    }.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(content)
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), root / "rows.parquet", row_group_size=3)
    return Location.of(str(root))


def test_parts_are_tables_and_groups_of_files(source: Location) -> None:
    Path(source.path, "b", "parent").symlink_to(source.path)
    parts = parts_of(source.files())
    assert [(part.name, part.files) for part in parts] == [
        ("part-00000000.jsonl", ("a.txt", "b/c.txt", "b/d.txt")),
        ("part-00000001-rows.parquet", ("rows.parquet",)),
        ("part-00000002-table.csv", ("table.csv",)),
        ("part-00000003-table.jsonl", ("table.jsonl",)),
    ]
    files = dict.fromkeys(f"{number:04}.txt" for number in range(600))
    sizes = [len(part.files) for part in parts_of(files)]
    assert sum(sizes) == 600
    assert len(sizes) == 3
    table = Location.of(f"{source.path}/table.csv")
    assert [part.files for part in parts_of(table.files())] == [("table.csv",)]


@pytest.mark.parametrize("is_local", [True, False])
def test_actor_writes_a_file_for_each_part(
    source: Location, tmp_path: Path, actor_settings: ActorSettings, is_local: bool
) -> None:
    output = Location.of(str(tmp_path / "out"))
    if not is_local:
        # As an object store: files are copied to the actor and back.
        memory = fsspec.filesystem("memory")
        memory.put(f"{source.path}/", "/in", recursive=True)
        source, output = Location.of("memory://in"), Location.of("memory://out")
    directory = OutputDirectory(output)
    assert directory.open({}, is_resumed=False) == set()
    actor = FileActor(actor_settings, source, output)
    parts = parts_of(source.files())
    counts = [actor.extract(part) for part in parts]
    assert [one[0] for one in counts if isinstance(one, Counts)] == [3, 8, 2, 3]
    # Texts of the table that are missing, empty or too long, and values that fit no column.
    assert [one[1] for one in counts if isinstance(one, Counts)] == [1, 8, 1, 1]
    directory.finish()
    out = tmp_path / "out"
    if not is_local:
        memory.get("/out", str(out), recursive=True)
        memory.rm("/in", recursive=True)
        memory.rm("/out", recursive=True)
    assert {file.name for file in out.iterdir()} == {
        SETTINGS,
        *(part.name for part in parts),
    }
    texts = [json.loads(line) for line in (out / "part-00000000.jsonl").read_text().splitlines()]
    assert [row["file"] for row in texts] == ["a.txt", "b/c.txt", "b/d.txt"]
    assert texts[1]["error"]["message"] == "the text is empty"
    table = parquet.read_table(out / "part-00000001-rows.parquet")
    assert table["id"].to_pylist() == list(range(8))
    assert table.schema.field("size").type == pyarrow.int64()
    lines = (out / "part-00000003-table.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["text"] == "three"
    assert json.loads(lines[1])["error"]["line"] == 2


def test_actor_continues_the_rows_of_one_that_died(
    source: Location, tmp_path: Path, actor_settings: ActorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Location.of(str(tmp_path / "out"))
    OutputDirectory(output).open({}, is_resumed=False)
    part = parts_of(source.files())[3]
    actor = FileActor(actor_settings, source, output)
    first = actor.extract(part)
    assert isinstance(first, Counts)
    whole = (tmp_path / "out" / part.name).read_bytes()
    (tmp_path / "out" / part.name).unlink()
    with monkeypatch.context() as patch:
        write, count = Output.write, 0

        def dying(output: Output, outcome: Any) -> Any:
            nonlocal count
            count += 1
            if count == 3:
                raise KeyboardInterrupt
            return write(output, outcome)

        patch.setattr(Output, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            actor.extract(part)
    unfinished = tmp_path / "out" / "_unfinished" / part.name
    assert whole.startswith(unfinished.read_bytes())
    counts = actor.extract(part)
    assert isinstance(counts, Counts)
    assert counts[:2] == (3, 1)
    # Of the rows that were missing.
    assert 0 < counts.completion_tokens < first.completion_tokens
    assert (tmp_path / "out" / part.name).read_bytes() == whole


def test_tables_without_texts_are_refused_before_actors_start(source: Location) -> None:
    answers = AnswerFormat.of(Tag)
    parts = parts_of(source.files())
    check_tables(source, parts, RecordReader(), answers)
    with pytest.raises(InvalidOptionError, match="no column 'body'; its columns: 'id', 'text'"):
        check_tables(source, parts, RecordReader("body"), answers)
    Path(source.path, "rows.parquet").write_text("no table")
    with pytest.raises(InvalidOptionError, match=r"cannot read 'rows\.parquet'"):
        check_tables(source, parts, RecordReader(), answers)


def test_output_directory_is_continued_by_a_run_with_equal_settings(tmp_path: Path) -> None:
    output = OutputDirectory(Location.of(str(tmp_path / "out")))
    assert output.open({"model": "m", "input": "1"}, is_resumed=False) == set()
    (tmp_path / "out" / "part-00000007.jsonl").write_text("{}")
    names = output.open({"model": "m", "input": "1"}, is_resumed=True)
    assert names == {"part-00000007.jsonl"}
    with pytest.raises(OutputFileRefusedError, match=r"not empty\. resume=True continues"):
        output.open({"model": "m", "input": "1"}, is_resumed=False)
    with pytest.raises(OutputFileRefusedError, match="another model, another seed"):
        output.open({"model": "n", "input": "1", "seed": 1}, is_resumed=True)
    (tmp_path / "out" / SETTINGS).unlink()
    with pytest.raises(OutputFileRefusedError, match="not written by an extraction on Ray"):
        output.open({}, is_resumed=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFileError, match="cannot write"):
        OutputDirectory(Location.of(str(tmp_path / "file" / "more"))).open({}, is_resumed=False)


@pytest.fixture
def has_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks of the command line come after that of the extra."""
    monkeypatch.setattr("proxy_engine.cli.extract.import_extra", lambda *_, **__: None)


@pytest.mark.usefixtures("has_ray")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ray", "auto"], "--ray requires one directory or file, and --output"),
        (["--ray", "auto", "--input", "x"], "--ray requires one directory or file, and --output"),
        (["--ray", "auto", "--output", "y", "x", "z"], "requires one directory or file"),
        (["--ray", "auto", "--input", "x", "--output", "y", "--html", "z"], "--html cannot be"),
        (["x", "--num-cpus", "1"], "--num-cpus cannot be used without --ray"),
        (["--ray", "auto", "nowhere", "--output", "y"], "'nowhere' has no files"),
        (["--ray", "auto", "x", "--output", "y", "--batch-size", "0"], "--batch-size should be"),
    ],
)
def test_wrong_command_line_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text('{"type": "integer"}')
    assert main(["extract", "--schema", str(tmp_path / "s.json"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_missing_extra_is_the_first_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proxy_engine.runtime.extras.is_installed", lambda extra: False)
    assert main(["extract", "--schema", "nowhere.json", "--ray", "auto"]) == 1
    assert "pip install 'proxy-engine[ray]'" in capsys.readouterr().err
