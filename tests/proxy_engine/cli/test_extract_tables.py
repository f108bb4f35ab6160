"""``extract`` with types, CSV, Parquet, directories and other fields, without a model."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import stand_in_engine
from stand_in_engine import SCHEMA, StandInEngine

import proxy_engine
from proxy_engine.cli.main import main

MODEL = """
import pydantic

class Found(pydantic.BaseModel):
    n: int
    text: str

    @pydantic.field_validator("text")
    @classmethod
    def check(cls, text):
        if "wrong" in text:
            raise ValueError("no wrong texts")
        return text.strip().upper()

OPEN = {"type": "object", "properties": {"n": {"type": "integer"}}}
BROKEN = {"type": "nothing"}
"""


pytestmark = pytest.mark.usefixtures("directory", "engines")


def extract(*arguments: object) -> int:
    return main(["extract", "--schema", "schema.json", "--quiet", *map(str, arguments)])


def read_csv(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


CSV = 'id,body,note\n1,first,"a, ""b""\nc"\n2,,x\n3,refuse,\n4,last,ü\n'


class TestCsv:
    def test_rows_keep_their_other_columns(self) -> None:
        Path("in.csv").write_text(CSV, encoding="utf-8")
        assert extract("in.csv", "--text", "body", "--prefix", "r_", "--output", "out.csv") == 1
        rows = read_csv("out.csv")
        assert list(rows[0]) == [
            *("id", "note", "r_n", "r_text", "r_cut_short", "r_cut_short_at", "r_error"),
        ]
        assert [row["id"] for row in rows] == ["1", "2", "3", "4"]
        assert rows[0]["note"] == 'a, "b"\nc'
        assert rows[0]["r_text"].endswith("first")
        assert rows[1]["r_error"] == "RecordError: the text is missing"
        assert rows[2]["r_error"] == "PromptError: refused"
        assert rows[3]["note"] == "ü"

    def test_further_columns_and_a_page_are_written(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.csv").write_text(CSV, encoding="utf-8")
        arguments = ["in.csv", "--text", "body", "--columns", "tokens, cut_short"]
        output = ["--output", "out.csv", "--html", "out.html"]
        assert extract(*arguments, *output) == 1
        rows = read_csv("out.csv")
        added = ["cut_short", "cut_short_at", "prompt_tokens", "completion_tokens", "error"]
        assert list(rows[0])[4:] == added
        assert [row["completion_tokens"] for row in rows] == ["5", "", "", "5"]
        page = Path("out.html").read_text(encoding="utf-8")
        assert page.count("<section>") == 4
        assert "PromptError: refused" in page
        # A page of the rows that are there already.
        assert extract(*arguments, *output, "--resume") == 1
        assert Path("out.html").read_text(encoding="utf-8") == page
        assert extract(*arguments, "--html", "out.html") == 2
        assert "'out.html' already exists. --overwrite replaces it" in capsys.readouterr().err

    def test_json_lines_and_parquet_have_the_same_rows(self) -> None:
        Path("in.csv").write_text(CSV, encoding="utf-8")
        for name in ("out.jsonl", "out.parquet"):
            assert extract("in.csv", "--text", "body", "--output", name) == 1
        lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
        assert list(lines[0].items())[:2] == [("id", "1"), ("note", 'a, "b"\nc')]
        assert list(lines[0])[2:] == ["n", "text"]
        assert lines[1]["error"] == {
            "row": 2, "type": "RecordError", "message": "the text is missing",
        }  # fmt: skip
        table = pyarrow.parquet.read_table("out.parquet")
        added = ["cut_short", "cut_short_at", "error"]
        assert table.column_names == ["id", "note", "n", "text", *added]
        assert table.schema.field("n").type == pyarrow.int64()
        assert table.column("n").to_pylist() == [line.get("n") for line in lines]
        assert table.column("error").to_pylist()[2] == "PromptError: refused"
        assert not Path("out.parquet.partial.jsonl").exists()

    @pytest.mark.parametrize("content", [
        b"\xef\xbb\xbfid;text\r\n1;eins, zwei\r\n",
        b"id\ttext\n1\teins, zwei\n",
        b'id,text\n1,"eins, zwei"\n',
        b"text,id\n\"eins, zwei\",1",
    ])  # fmt: skip
    def test_delimiter_is_the_one_of_the_header(
        self, content: bytes, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.csv").write_bytes(content)
        assert extract("in.csv", "--prefix", "r_") == 0
        assert engines[0].prompts[0].endswith("\n\neins, zwei")
        assert json.loads(capsys.readouterr().out)["id"] == "1"

    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n"])
    def test_cell_that_is_not_closed_is_an_error(
        self, end: bytes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.csv").write_bytes(b'id,text\n1,"a"\n2,"b\n3,c' + end)
        assert extract("in.csv", "--prefix", "r_") == 1
        first, second = map(json.loads, capsys.readouterr().out.splitlines())
        assert "r_error" not in first
        assert "is not closed by a quotation mark" in second["r_error"]["message"]

    @pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
    def test_last_row_may_lack_a_line_break(
        self, end: bytes, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.csv").write_bytes(b'id,text\n1,"a\nb"\n2,c' + end)
        assert extract("in.csv", "--prefix", "r_") == 0
        assert [json.loads(row)["id"] for row in capsys.readouterr().out.splitlines()] == ["1", "2"]

    @pytest.mark.parametrize("encoding", ["UTF-16", "LATIN1"])
    def test_table_that_is_not_utf_8_is_refused(
        self, encoding: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.csv").write_bytes("id,text,é\n1,a,b\n".encode(encoding))
        assert extract("in.csv") == 2
        error = capsys.readouterr().err
        assert "the header of the table is not UTF-8" in error
        assert f"iconv -f {encoding} -t UTF-8" in error

    def test_lines_of_json_lines_may_begin_with_a_byte_order_mark(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in.jsonl").write_bytes(b'\xef\xbb\xbf"a"\n"\xff"\n{"b')
        assert extract("in.jsonl") == 1
        first, *others = map(json.loads, capsys.readouterr().out.splitlines())
        assert "error" not in first
        assert [each["error"]["message"][:18] for each in others] == [
            "the line is not UT",
            "the line is not JS",
        ]

    def test_tab_separated_values_are_rows(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("in.tsv").write_bytes(b"id\ttext\n1\ta\n")
        assert extract("in.tsv", "--prefix", "r_") == 0
        assert json.loads(capsys.readouterr().out)["id"] == "1"

    def test_field_of_a_text_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("in.json").write_bytes(b'[{"body": "a"}]')
        assert extract("in.json", "--text", "body") == 2
        assert "--text body names a field of rows" in capsys.readouterr().err

    def test_table_without_rows_is_reported(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("in.csv").write_bytes(b"id,text\n")
        assert main(["extract", "--schema", "schema.json", "in.csv"]) == 0
        assert capsys.readouterr().err.strip() == "the input has no rows"

    def test_malformed_rows_fail_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        huge = "x" * 200_000
        rows = [b"1,a", b"2", b"", b"3,b,c", b"4,\xff", f"5,{huge}".encode()]
        Path("in.csv").write_bytes(b"id,body\n" + b"\n".join(rows))
        assert extract("in.csv", "--text", "body") == 1
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [line["id"] for line in lines] == ["1", "2", "3", "4", "5"]
        messages = [line.get("error", {}).get("message") for line in lines]
        assert messages == [
            None,
            "the row has 1 cells, and the header 2",
            "the row has 3 cells, and the header 2",
            "the row is not UTF-8. Convert the file, for instance with iconv -f LATIN1 -t UTF-8.",
            None,
        ]

    def test_standard_input_is_read(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("in").write_text(CSV)
        with open("in") as source:
            monkeypatch.setattr(sys, "stdin", source)
            assert extract("--format", "csv", "--text", "body") == 1
        assert len(capsys.readouterr().out.splitlines()) == 4

    def test_file_without_rows_has_a_header(self) -> None:
        Path("in.csv").write_text("id,text\n")
        assert extract("in.csv", "--prefix", "r_", "--output", "out.csv") == 0
        assert Path("out.csv").read_text() == "id,r_n,r_text,r_cut_short,r_cut_short_at,r_error\n"
        assert extract("in.csv", "--prefix", "r_", "--output", "out.parquet") == 0
        assert pyarrow.parquet.read_table("out.parquet").num_rows == 0


def test_parquet_input_keeps_the_types_of_its_columns() -> None:
    import datetime  # noqa: PLC0415

    table = pyarrow.table(
        {
            "id": pyarrow.array([1, 2], pyarrow.uint8()),
            "at": pyarrow.array([datetime.datetime(2024, 5, 6), None], pyarrow.timestamp("ms")),
            "tags": pyarrow.array([["a"], None]),
            "body": ["one", "two"],
        }
    )
    pyarrow.parquet.write_table(table, "in.parquet")
    assert extract("in.parquet", "--text", "body", "--output", "out.parquet") == 0
    out = pyarrow.parquet.read_table("out.parquet")
    assert out.select(["id", "at", "tags"]).equals(table.select(["id", "at", "tags"]))


class TestTypes:
    @pytest.fixture(autouse=True)
    def _module(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (directory / "found_types.py").write_text(MODEL)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.delitem(sys.modules, "found_types", raising=False)

        def item(engine: StandInEngine, index: int, prompt: str) -> Any:
            import found_types  # type: ignore[import-not-found]  # noqa: PLC0415
            import pydantic  # noqa: PLC0415

            from proxy_engine import OutputValidationError  # noqa: PLC0415

            item = original(engine, index, prompt)
            assert item.result is not None
            try:
                parsed = found_types.Found.model_validate_json(item.result.text)
            except pydantic.ValidationError as error:
                refused = OutputValidationError(str(error), text=item.result.text)
                return stand_in_engine.Item(index, error=refused)
            fields = {name: getattr(item.result, name) for name in ("text", "usage", "token_ids")}
            result = type(item.result)(parsed=parsed, finish_reason="stop", model="m", **fields)
            return item._replace(result=result)

        original = StandInEngine.item
        monkeypatch.setattr(StandInEngine, "item", item)

        def unchecked(engine: Any, requests: Any, *, response_format: Any, **options: Any) -> Any:
            return iter_batch(engine, requests, response_format=SCHEMA, **options)

        iter_batch = StandInEngine.iter_batch
        monkeypatch.setattr(StandInEngine, "iter_batch", unchecked)

    def run(self, name: str, *arguments: object) -> int:
        return main(["extract", "--schema", f"found_types:{name}", "--quiet", *map(str, arguments)])

    def test_values_are_those_of_the_validators(self) -> None:
        Path("in.jsonl").write_text('"a text"\n"a wrong text"\n')
        assert self.run("Found", "in.jsonl", "--output", "out.csv") == 1
        rows = read_csv("out.csv")
        assert rows[0]["text"].endswith("A TEXT")
        assert "no wrong texts" in rows[1]["error"]
        assert self.run("Found", "in.jsonl", "--output", "out.csv", "--resume") == 1

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("found_types:Absent", "the module 'found_types' has no 'Absent'"),
            ("no_such_module:Found", "cannot import 'no_such_module': ModuleNotFoundError"),
            ("failing:Found", "cannot import 'failing': ZeroDivisionError"),
            ("found_types:BROKEN", "at #/type"),
            ("found_types:pydantic", "is not a response format"),
            ("found_types", "cannot read the schema 'found_types'"),
        ],
    )
    def test_wrong_names_are_refused(
        self, name: str, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("failing.py").write_text("1 / 0")
        Path("in").write_text("x")
        assert main(["extract", "--schema", name, "in"]) == 2
        assert message in capsys.readouterr().err

    def test_further_properties_have_a_column(self) -> None:
        Path("in.csv").write_text("id,text\n1,a\n")
        arguments = ["OPEN", "in.csv", "--output", "out.csv", "--additional-properties", "schema"]
        assert self.run(*arguments) == 0
        (row,) = read_csv("out.csv")
        added = ["additional_properties", "cut_short", "cut_short_at", "error"]
        assert list(row) == ["id", "n", *added]
        assert json.loads(row["additional_properties"]).keys() == {"text"}
        assert self.run(*arguments, "--resume") == 0
        assert self.run(*arguments[:2], "--output", "closed.csv") == 0
        assert list(read_csv("closed.csv")[0]) == ["id", "n", *added[1:]]


class TestDirectory:
    def test_files_of_a_directory_have_their_paths(self) -> None:
        Path("texts/more").mkdir(parents=True)
        for name in ("b.txt", "a.txt", "more/c.txt", ".hidden"):
            Path("texts", name).write_text(f"text of {name}")
        Path("texts/empty.txt").write_text("")
        assert extract("texts", "--output", "table.csv") == 1
        rows = read_csv("table.csv")
        assert [row["file"] for row in rows] == [
            "texts/a.txt", "texts/b.txt", "texts/empty.txt", "texts/more/c.txt",
        ]  # fmt: skip
        assert rows[0]["text"].endswith("text of a.txt")
        assert rows[2]["error"] == "RecordError: the text is empty"
        assert extract("texts", "--output", "table.csv", "--resume") == 1

    def test_json_lines_have_the_path_as_well(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("texts").mkdir()
        # A suffix of a table does not make a text of a directory one.
        Path("texts/a.csv").write_text("plain")
        assert extract("texts") == 0
        assert list(json.loads(capsys.readouterr().out)) == ["file", "n", "text"]

    def test_named_files_have_a_column_in_tables_only(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in ("a", "b"):
            Path(name).write_text(name)
        assert extract("a", "b", "--output", "out.parquet") == 0
        assert pyarrow.parquet.read_table("out.parquet").column("file").to_pylist() == ["a", "b"]
        assert extract("a", "b") == 0
        assert list(json.loads(capsys.readouterr().out.splitlines()[0])) == ["n", "text"]


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (
            "id,body\n1,x\n",
            [],
            "no column 'text'; its columns: 'id', 'body'. Name the column with --text",
        ),
        ("image,body\na.png,x\n", ["--text", "bdy"], "no column 'bdy'; its columns: 'image', 'bo"),
        # Lines that are no records fail alone.
        ('{"id": 1}\nx\n{"body": ""}', ["--jsonl"], ""),
        ('{"id": 1}\n{"body": ""}', ["--jsonl"], "no field 'text'; their fields: 'id', 'body'"),
        ('{"image": ""}\n', ["--jsonl", "--text", "body"], "no field 'body'; their fields: 'ima"),
        ("n,text\n1,x\n", ["--output", "out.csv"], "two columns of the name 'n'"),
        ("n,text\n1,x\n", [], "--prefix"),
        ("id,id,text\n1,2,x\n", [], "several columns of one name"),
        ("text\nx\n", ["--format", "parquet"], "cannot read 'in.csv'"),
        ("text\nx\n", ["--output", "in.csv", "--overwrite"], "'in.csv' is the input"),
        ("text\nx\n", ["in.csv", "--format", "csv"], "is that of a single file"),
    ],
)
def test_wrong_tables_are_refused_before_the_model_is_loaded(
    content: str,
    arguments: list[str],
    message: str,
    engines: list[StandInEngine],
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("in.csv").write_text(content)
    assert extract("in.csv", *arguments) == (2 if message else 1)
    assert message in capsys.readouterr().err
    assert bool(engines) == (not message)
    assert Path("in.csv").read_text() == content


def test_json_line_with_the_name_of_a_column_is_refused(
    engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.jsonl").write_text('{"text": "x", "n": 3}\n')
    assert extract("in.jsonl") == 2
    assert "two columns of the name 'n'" in capsys.readouterr().err
    assert engines == []
    # A later one fails alone.
    Path("in.jsonl").write_text('"x"\n{"text": "x", "n": 3}\n')
    assert extract("in.jsonl") == 1
    assert "the field 'n' has the name of a column" in capsys.readouterr().err


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start the command as a process in which each result takes 2 ms."""
    root = str(Path(proxy_engine.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, stand_in_engine.__file__, "extract", "--schema", "schema.json", "--quiet",
         *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root, "STAND_IN_SECONDS": "0.002"},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_killed_run_resumes_without_loss_or_repetition(name: str) -> None:
    texts = ["refuse" if n % 17 == 0 else f'text "{n}",\nü' for n in range(200)]
    with open("in.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "body"), *enumerate(texts)])
    arguments = ("in.csv", "--text", "body")
    assert extract(*arguments, "--output", f"whole{Path(name).suffix}") == 1
    rows = Path(name + ".partial.jsonl" if name.endswith("parquet") else name)
    chance = random.Random(7)
    process = start(*arguments, "--output", name, "--resume")
    while not rows.exists() or rows.stat().st_size < 2_000:
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # As after a crash of the computer: the last row is cut off.
    for _ in range(5):
        with rows.open("rb+") as file:
            file.truncate(rows.stat().st_size - chance.randint(1, 60))
        assert extract(*arguments, "--output", name, "--resume") == 1
        if name.endswith("parquet"):
            break
    assert not rows.name.endswith("partial.jsonl") or not rows.exists()
    assert Path(name).read_bytes() == Path(f"whole{Path(name).suffix}").read_bytes()
    # Nothing is left to do, and nothing changes.
    written = Path(name).read_bytes()
    assert extract(*arguments, "--output", name, "--resume") == 1
    assert Path(name).read_bytes() == written
