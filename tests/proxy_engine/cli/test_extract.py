"""``extract`` with a tiny random model."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import stand_in_engine
from object_schemas import closed_object
from stand_in_engine import StandInEngine
from terminal import Terminal, plain

from proxy_engine import InferenceEngine
from proxy_engine.cli.main import main

ROOT = Path(__file__).parents[3]
SCHEMA = closed_object(
    name={"type": "string", "maxLength": 5, "pattern": "^[a-zä]*$"}, age={"enum": [1, 2]}
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tiny_model: Any, tiny_tokenizer: Any) -> None:
    """Load the tiny model instead of the named one."""
    monkeypatch.setattr(
        "proxy_engine.engine.inference_engine.InferenceEngine",
        lambda model, **_: InferenceEngine(tiny_model, tiny_tokenizer),
    )


def extract(schema: Path, *arguments: object) -> int:
    return main(["extract", "--schema", str(schema), *map(str, arguments)])


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_json_goes_to_stdout_and_speed_to_stderr(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str], stream: str
) -> None:
    assert extract(schema, text, stream, "--temperature", 1, "--seed", 4) == 0
    out, err = capsys.readouterr()
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    jsonschema.validate(json.loads(out), SCHEMA)
    assert "tokens/s" in err


@pytest.mark.usefixtures("tiny")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("flags", [["--no-stream"], ["--stream"], ["--jsonl"]], ids=str)
def test_full_stdout_is_reported_in_one_line(
    schema: Path,
    text: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flags: list[str],
) -> None:
    text.write_text('"a"\n"b"\n')
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert extract(schema, text, "--quiet", *flags) == 1
        # The interpreter's flush at exit raises nothing.
        full.flush()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cannot write standard output: No space left on device" in said


@pytest.mark.usefixtures("tiny")
def test_input_defaults_to_stdin(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for arguments in ((text,), (), ("-",)):
        give_input(monkeypatch, text.read_bytes())
        assert extract(schema, *arguments, "--quiet") == 0
        out, err = capsys.readouterr()
        assert err == ""
        outputs.append(out)
    assert len(set(outputs)) == 1


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_value_that_cannot_be_written_is_the_error_of_its_record(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (directory / "unwritten.py").write_text(
        "import pydantic\n"
        "class Unwritten(pydantic.BaseModel):\n"
        "    is_old: bool\n"
        "    @pydantic.field_serializer('is_old')\n"
        "    def write(self, value):\n"
        "        raise KeyError('is_old')\n"
    )
    monkeypatch.syspath_prepend(directory)
    (directory / name).write_text('"a"\n')
    assert extract(Path("unwritten:Unwritten"), name, "--no-stream") == 1
    out, err = capsys.readouterr()
    assert "KeyError" in err
    assert (name, out) == ("a.txt", "") or json.loads(out)["error"]["line"] == 1


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("flags", [["--no-stream"], ["--jsonl"], ["--columns", "tokens"]])
def test_too_small_max_tokens_fails_once_before_any_row(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str], flags: list[str], tmp_path: Path
) -> None:
    text.write_text('"x"\n' * 5)
    for output in ([], ["--output", tmp_path / "out.jsonl"]):
        assert extract(schema, text, "--max-tokens", 3, *flags, *output) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("the shortest output takes 17 tokens") == err.count("\n") == 1
        assert "Give --max-tokens 17 or more" in err
        assert not (tmp_path / "out.jsonl").exists() or not (tmp_path / "out.jsonl").read_bytes()


@pytest.mark.usefixtures("tiny")
def test_answer_that_max_tokens_cuts_short_is_tried_once_more(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"type": "string", "maxLength": 30}
    schema.write_text(json.dumps({"type": "object", "properties": {"a": words}, "required": ["a"]}))
    cut = "proxy-engine: max_tokens cut the answer short at /a\n"
    found = []
    for limit, flags in ((400, []), (30, []), (30, ["--no-retry-cut-short"]), (30, ["--stream"])):
        given = [*flags, "--temperature", 0, "--max-tokens", limit, "--quiet"]
        assert extract(schema, text, *given) == 0
        out, err = capsys.readouterr()
        # What is streamed cannot be replaced.
        assert err == ("" if not flags else cut)
        found.append(json.loads(out)["a"])
    assert found[0] == found[1] != found[2] == found[3]
    assert len(found[0]) == 30


@pytest.mark.usefixtures("tiny")
def test_result_is_written_to_the_output_file(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "out.json"
    assert extract(schema, text, "--output", output) == 0
    assert capsys.readouterr().out == ""
    jsonschema.validate(json.loads(output.read_text(encoding="utf-8")), SCHEMA)
    written = output.read_bytes()
    assert extract(schema, text, "--output", output) == 2
    assert output.read_bytes() == written
    assert extract(schema, text, "--output", output, "--overwrite") == 0
    assert output.read_bytes() == written


@pytest.mark.usefixtures("tiny")
def test_batch_gives_the_results_of_single_lines(
    schema: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = [json.dumps("x" * (7 * number % 11)) for number in range(13)]
    (tmp_path / "lines").write_text("\n".join(lines))
    together = extract(schema, "--jsonl", tmp_path / "lines"), capsys.readouterr().out
    (tmp_path / "line").write_text("")
    one_by_one = ""
    for number, line in enumerate(lines):
        (tmp_path / "line").write_text("\n" * number + line)
        extract(schema, "--jsonl", tmp_path / "line")
        one_by_one += capsys.readouterr().out
    # Lines 1 and 12 have no text.
    assert together == (1, one_by_one)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("arguments", [["--stream"], ["--no-stream"], ["--no-stream", "--quiet"]])
def test_progress_on_a_terminal_is_erased(
    schema: Path,
    text: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    terminal = Terminal()
    with open(terminal.end, "w", closefd=False, encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert extract(schema, text, *arguments) == 0
        monkeypatch.undo()
    shown = terminal.read()
    jsonschema.validate(json.loads(capsys.readouterr().out), SCHEMA)
    if "--quiet" in arguments:
        assert shown == ""
    else:
        assert "waiting" in shown
        # Its line is erased before the last message.
        *_, last = re.split("\r +\r", shown)
        assert plain(last).startswith("prompt: ")


def readme_commands() -> list[list[str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    # Ray is not installed for these tests, which start no cluster.
    lines = re.findall(r"^\$ proxy-engine (extract (?!--ray).*)$", text, re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.usefixtures("tiny")
def test_readme_commands_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    commands = readme_commands()
    assert len(commands) >= 2
    for arguments in commands:
        assert main(arguments) == 0
        out = capsys.readouterr().out
        if "--output" in arguments:
            assert out == ""
            out = Path(arguments[arguments.index("--output") + 1]).read_text(encoding="utf-8")
        header = 1 if "people.csv" in arguments else 0
        assert len(out.splitlines()) == header + (3 if "--jsonl" in arguments else 1)


class TestWrongCommandLine:
    """A wrong command line has exit status 2 and a message, and loads no model."""

    @pytest.fixture(autouse=True)
    def _no_model(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def forbidden(*_: Any, **__: Any) -> Any:
            raise AssertionError("a model was loaded")

        monkeypatch.setattr("proxy_engine.engine.inference_engine.InferenceEngine", forbidden)

    def test_missing_file_is_refused(
        self, schema: Path, text: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert extract(schema.with_name("none.json"), text) == 2
        assert "none.json" in capsys.readouterr().err
        assert extract(schema, text.with_name("none.txt")) == 2
        assert "none.txt': No such file" in capsys.readouterr().err
        (text.parent / "empty").mkdir()
        assert extract(schema, text.parent / "empty") == 2
        assert "has no files" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "is not JSON"),
            pytest.param("[" * 100_000, "is not JSON", id="nested"),
            ('{"type": "nothing"}', "at #/type"),
            ("false", "no JSON value"),
            ("3", "neither an object nor a boolean"),
        ],
    )
    def test_invalid_schema_is_refused(
        self,
        schema: Path,
        text: Path,
        capsys: pytest.CaptureFixture[str],
        content: str,
        message: str,
    ) -> None:
        schema.write_text(content)
        assert extract(schema, text) == 2
        assert message in capsys.readouterr().err

    def test_unreadable_input_is_refused(
        self,
        schema: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        assert extract(schema, "a\0b") == 2
        assert "cannot read" in capsys.readouterr().err
        monkeypatch.setattr(sys, "stdin", None)
        assert extract(schema) == 2
        assert "standard input is closed" in capsys.readouterr().err

    def test_wrong_arguments_are_refused(
        self, text: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for arguments in ([], ["extract", "--nothing"], ["nothing"]):
            with pytest.raises(SystemExit) as caught:
                main(arguments)
            assert caught.value.code == 2
            shown = capsys.readouterr().err
            assert shown.count("\n") == 1
            assert "--help shows the options" in shown
        assert main(["extract", str(text)]) == 2
        assert capsys.readouterr().err == (
            "proxy-engine: --schema is missing. Name a file with a JSON Schema, or a type: "
            "--schema invoice.py:Invoice.\n"
        )

    def test_type_in_a_file_is_named(
        self,
        text: Path,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sys, "path", list(sys.path))
        path = tmp_path / "more" / "invoices_of_a_test.py"
        path.parent.mkdir()
        path.write_text("import pydantic\nclass Invoice(pydantic.BaseModel):\n    total: int\n")
        assert extract(path, text) == 2
        assert f"Name the type: --schema {path}:Invoice." in capsys.readouterr().err
        with pytest.raises(AssertionError, match="a model was loaded"):
            extract(Path(f"{path}:Invoice"), text)
        assert extract(Path(f"{path}:Bill"), text) == 2
        assert "has no 'Bill'" in capsys.readouterr().err

    def test_former_flag_is_refused_with_the_new_one(
        self, schema: Path, text: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            extract(schema, text, "--draft-first")
        assert caught.value.code == 2
        assert "--draft-first is named --freeform-first now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--temperature", -1], "temperature"),
        (["--num-draft-tokens", 3], "--num-draft-tokens requires --draft-model"),
        (["--num-draft-tokens", 0, "--draft-model", "d"], "--num-draft-tokens should be greater"),
        (["--num-draft-tokens", -1, "--draft-model", "d"], "--num-draft-tokens should be greater"),
        (["--num-draft-tokens", 65, "--draft-model", "d"], "--num-draft-tokens should be less"),
    ],
)
def test_option_out_of_range_is_refused(
    schema: Path,
    text: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[object],
    message: str,
) -> None:
    assert extract(schema, text, *flags) == 2
    assert message in capsys.readouterr().err


def test_draft_model_is_loaded_with_the_model(
    schema: Path, text: Path, tiny_model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ("--model", tiny_model_directory, "--draft-model")
    assert extract(schema, text, *models, "./none") == 1
    assert "no directory './none'" in capsys.readouterr().err
    flags = ("--num-draft-tokens", 2, "--speculation", "off")
    assert extract(schema, text, *models, tiny_model_directory, *flags) == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), SCHEMA)


def test_missing_model_is_a_failure(
    schema: Path, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extract(schema, text, "--model", "./none") == 1
    assert "no directory './none'" in capsys.readouterr().err


@pytest.fixture
def stand_in_schema(tmp_path: Path) -> Path:
    path = tmp_path / "stand-in.json"
    path.write_text(json.dumps(stand_in_engine.SCHEMA), encoding="utf-8")
    return path


def test_closed_stdout_ends_the_command(stand_in_schema: Path) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, stand_in_engine.__file__),
            *("extract", "--schema", str(stand_in_schema), "--jsonl"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(b'"x"\n' * 5000)
    process.stdin.close()
    assert process.stdout.readline().startswith(b"{")
    process.stdout.close()
    assert process.wait(timeout=120) == 141
    assert process.stderr
    assert b"Traceback" not in process.stderr.read()


@pytest.mark.usefixtures("engines")
def test_interrupt_ends_the_command(
    stand_in_schema: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(StandInEngine, "item", interrupt)
    text.write_text('"x"\n')
    assert extract(stand_in_schema, "--jsonl", text) == 130
    assert capsys.readouterr().err.endswith("proxy-engine: interrupted\n")
