"""``extract --jsonl``: order, failures, resuming, and progress."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stand_in_engine
from stand_in_engine import StandInEngine
from terminal import Terminal, plain

import proxy_engine
from proxy_engine.cli.extract_records import resume_command
from proxy_engine.cli.main import main

BAD = {3: b"not JSON", 4: b'{"no": "text"}', 9: b'"\xff"', 10: b'"\\ud800"', 21: b'" "'}


def make_input(count: int) -> bytes:
    """Return the given number of lines, some of them invalid, and blank lines in between."""
    lines = []
    for number in range(1, count + 1):
        text = "refuse" if number % 17 == 0 else f"texte numéro {number}"
        lines.append(BAD.get(number, json.dumps({"text": text}, ensure_ascii=False).encode()))
        if number % 5 == 0:
            lines.append(b" ")
    return b"\n".join(lines) + b"\n"


def extract(*arguments: object) -> int:
    return main(["extract", "--schema", "schema.json", "--jsonl", *map(str, arguments)])


def reference(content: bytes) -> bytes:
    """The output of an uninterrupted run."""
    Path("reference.in").write_bytes(content)
    path = Path("reference.jsonl")
    assert extract("reference.in", "--output", path, "--overwrite", "--quiet") in (0, 1)
    return path.read_bytes()


def numbers(output: bytes) -> list[int | None]:
    """Return the line number in each failure, ``None`` for results."""
    return [json.loads(line).get("error", {}).get("line") for line in output.splitlines()]


@pytest.mark.usefixtures("directory")
class TestOneRun:
    def test_results_are_in_order_and_invalid_lines_affect_no_others(
        self, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in").write_bytes(make_input(40))
        assert extract("in") == 1
        out, err = capsys.readouterr()
        results = [json.loads(line) for line in out.splitlines()]
        # Blank lines count as lines of the input, and have no result.
        bad = {3: 3, 4: 4, 9: 10, 10: 11, 17: 20, 21: 25, 34: 40}
        assert numbers(out.encode()) == [bad.get(n) for n in range(1, 41)]
        good = [n for n in range(1, 41) if n not in bad]
        assert [r["text"][-2:] for r in results if "text" in r] == [f"{n:2}" for n in good]
        assert "7 of 40 lines failed" in err
        assert "proxy-engine: line 25: the text is empty" in err
        assert engines[0].is_closed

    @pytest.mark.usefixtures("engines")
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (b"{bad", "the line is not JSON: expecting property name .* at column 2"),
            (b"9" * 5_000, "the line has an integer of more than 4,300 digits"),
            (b'"\xff"', "the line is not UTF-8. Convert the file, .*"),
            (b"[1]", r"a line should be an object or a string, not \[1\]"),
            (b'{"x": 1}', "the record has no field 'body'; its fields: 'x'. .* with --text."),
            (b'{"x": 1, "image": 2}', "an image should be .*, not 2"),
        ],
    )
    def test_errors_of_lines_name_flags_and_no_arguments_of_python(
        self, line: bytes, message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in").write_bytes(b'{"body": "x"}\n' + line)
        assert extract("in", "--text", "body") == 1
        error = json.loads(capsys.readouterr().out.splitlines()[1])["error"]["message"]
        assert re.fullmatch(message, error)

    def test_answers_that_a_limit_cut_short_are_tried_again_and_counted(
        self, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in").write_text('"cut"\n"cut twice"\n"plain"\n')
        assert extract("in") == 0
        out, err = capsys.readouterr()
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row.get("cut_short") for row in rows] == [None, "max_tokens", None]
        assert rows[1]["cut_short_at"] == "/text"
        assert len(engines[0].prompts) == 5
        last = "proxy-engine: 0 of 3 lines failed, 1 cut short; raise --max-tokens, "
        assert err.splitlines()[-1].startswith(last)
        arguments = ("in", "--output", "out.csv", "--no-retry-cut-short", "--html", "out.html")
        assert extract(*arguments) == 0
        assert len(engines[1].prompts) == 3
        assert "0 of 3 lines failed, 2 cut short" in capsys.readouterr().err
        assert Path("out.csv").read_text().count(",max_tokens,/text,") == 2
        page = Path("out.html").read_text()
        assert "3 records, 0 failed, 2 cut short" in page
        # A page of the rows that are there.
        assert extract(*arguments, "--resume") == 0
        assert Path("out.html").read_text() == page

    def test_input_of_invalid_lines_only(
        self, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in").write_bytes(b"bad\n" * 2_500)
        assert extract("in") == 1
        assert numbers(capsys.readouterr().out.encode()) == list(range(1, 2_501))

    @pytest.mark.usefixtures("engines")
    def test_empty_input_gives_no_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("in").write_bytes(b"\n \n")
        assert extract("in") == 0
        assert capsys.readouterr().out == ""

    @pytest.mark.usefixtures("engines")
    @pytest.mark.parametrize("text", ["crash", "close"])
    def test_error_of_the_engine_ends_the_run(
        self, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("in").write_bytes(make_input(5) + json.dumps(text).encode() + b"\n" + make_input(3))
        whole = reference(make_input(5))
        if text == "crash":
            with pytest.raises(RuntimeError):
                extract("in", "--output", "out")
        else:
            assert extract("in", "--output", "out") == 1
        assert Path("out").read_bytes() == whole
        hint = capsys.readouterr().err.partition("'out' has 5 rows; to continue: ")[2]
        assert "extract --resume --schema schema.json --jsonl in --output out\n" in hint

    @pytest.mark.usefixtures("engines")
    def test_lone_surrogate_in_an_error_is_escaped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any) -> Any:
            return stand_in_engine.Item(0, error=ValueError("half: \ud800"))

        monkeypatch.setattr(StandInEngine, "item", refuse)
        Path("in").write_bytes(b'"x"\n')
        assert extract("in", "--output", "out") == 1
        assert json.loads(Path("out").read_bytes())["error"]["message"] == "half: \ud800"


@pytest.mark.usefixtures("directory", "engines")
class TestResuming:
    @pytest.fixture
    def content(self) -> bytes:
        return make_input(30)

    @pytest.fixture
    def whole(self, content: bytes) -> bytes:
        Path("in").write_bytes(content)
        return reference(content)

    def test_run_resumes_from_any_size(self, engines: list[StandInEngine]) -> None:
        Path("in").write_bytes(make_input(5))
        whole = reference(make_input(5))
        manifest = Path("reference.jsonl.manifest").read_bytes()
        ends = [end for end in range(len(whole) + 1) if whole[:end].endswith(b"\n")]
        sizes = {end + more for end in (0, *ends) for more in (-2, -1, 0, 1, 2)}
        for size in sorted({*range(0, len(whole), 9), *sizes} & {*range(len(whole) + 1)}):
            rows = whole[:size].count(b"\n")
            # A row and its entry can reach the disk in any order.
            lines = manifest.splitlines(keepends=True)
            for count in {1, rows, 6}:
                Path("out").write_bytes(whole[:size])
                kept = b"".join(lines[:count]) + lines[5][: 3 * (count < 6)]
                Path("out.manifest").write_bytes(kept)
                assert extract("in", "--output", "out", "--resume", "--quiet") == 1
                assert Path("out").read_bytes() == whole
                assert Path("out.manifest").read_bytes() == manifest
            # Nothing is left to do, and no model is loaded for that.
            made = len(engines)
            assert extract("in", "--output", "out", "--resume") == 1
            assert len(engines) == made

    def stop_after(self, whole: bytes, rows: int, rest: bytes = b"") -> None:
        """Make the files of a run that was killed."""
        lines = whole.splitlines(keepends=True)
        Path("out").write_bytes(b"".join(lines[:rows]) + rest)
        manifest = Path("reference.jsonl.manifest").read_bytes().splitlines(keepends=True)
        Path("out.manifest").write_bytes(b"".join(manifest[: (rows or 20) + 1]))

    def test_resumed_run_skips_finished_lines(
        self, whole: bytes, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        engines.clear()
        self.stop_after(whole, 27, b'{"n":')
        assert extract("in", "--output", "out", "--resume") == 1
        (engine,) = engines
        assert [prompt[-2:] for prompt in engine.prompts] == ["28", "29", "30"]
        err = capsys.readouterr().err
        assert "'out' has 27 rows; continuing after them" in err
        # Failures of the earlier run count.
        assert "6 of 30 lines failed" in err

    @pytest.mark.parametrize(
        ("rows", "rest", "changed", "message"),
        [
            (30, b"", make_input(29), "the input has only 29 records"),
            (30, b"", b'"other"\n' + make_input(30), "row 1 is not that of line 1"),
            (30, b"", make_input(30).replace(b" 8", b" 9"), "row 8 is not that of line 9"),
            (0, b"Notes of mine" * 100, b"", "its rows have been changed"),
        ],
    )
    def test_foreign_output_is_refused_and_unchanged(
        self,
        whole: bytes,
        rows: int,
        rest: bytes,
        changed: bytes,
        message: str,
        engines: list[StandInEngine],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.stop_after(whole, rows, rest)
        files = [Path("out"), Path("out.manifest")]
        before = [file.read_bytes() for file in files]
        Path("in").write_bytes(changed or make_input(30))
        engines.clear()
        assert extract("in", "--output", "out", "--resume") == 2
        assert message in capsys.readouterr().err
        Path("in").write_bytes(make_input(30))
        assert extract("in", "--output", "out", "--resume", "--prefix", "r_") == 2
        assert "another schema, other columns" in capsys.readouterr().err
        assert [file.read_bytes() for file in files] == before
        Path("out.manifest").unlink()
        assert extract("in", "--output", "out", "--resume") == 2
        assert "it has no manifest 'out.manifest'" in capsys.readouterr().err
        assert engines == []

    def test_existing_output_is_refused_without_resume(
        self, whole: bytes, engines: list[StandInEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        engines.clear()
        Path("out").write_bytes(b"mine")
        assert extract("in", "--output", "out") == 2
        assert "--resume continues it" in capsys.readouterr().err
        assert Path("out").read_bytes() == b"mine"
        assert engines == []
        assert extract("in", "--output", "out", "--overwrite") == 1
        assert Path("out").read_bytes() == whole


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "in"], "resume requires an output file"),
        (["--batch-size", "0", "in"], "--batch-size should be greater than or equal to 1"),
        (["--seed", "-1", "in"], "seed"),
        (["--columns", "token", "in"], "no columns 'token'. Choose among 'tokens', "),
        (["--chunk-tokens", "9", "in"], "other properties than one list. Give"),
        (["--chunk-overlap", "9", "in"], "--chunk-overlap requires --chunk-tokens"),
        (["in", "--output", "out.xlsx"], "the suffix of 'out.xlsx' names no format of an output"),
        (["in", "in", "--output", "out.json"], "the suffix of 'out.json' names no format"),
        (["in", "--output", "http://x.org/out.csv"], "HTTP is read-only"),
        (["foo://bucket/in.csv"], "cannot use 'foo://bucket/in.csv': Protocol not known: foo"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in").write_text('"x"')
    assert main(["extract", "--schema", "schema.json", *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert {path.name for path in Path().iterdir()} == {"in", "schema.json"}


def start(*arguments: object, seconds: float = 0.0, **options: Any) -> subprocess.Popen[bytes]:
    """Start the command as a process in which each result takes ``seconds``."""
    return subprocess.Popen(
        [
            *(sys.executable, stand_in_engine.__file__),
            *("extract", "--schema", "schema.json", "--jsonl", *map(str, arguments)),
        ],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(proxy_engine.__file__).parents[1]),
            "STAND_IN_SECONDS": str(seconds),
        },
        stderr=options.pop("stderr", subprocess.PIPE),
        # A shell's background jobs ignore the signal, and their subprocesses inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


def wait_for_lines(process: subprocess.Popen[bytes], path: Path, count: int) -> None:
    has_ended = False
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert not has_ended
        has_ended = process.poll() is not None
        time.sleep(0.002)


def fed(content: bytes, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """``start`` with ``content`` from a pipe."""
    process = start(*arguments, stdin=subprocess.PIPE, **options)
    sink = process.stdin
    assert sink

    def feed() -> None:
        try:
            sink.write(content)
            sink.close()
        except BrokenPipeError:
            pass

    threading.Thread(target=feed, daemon=True).start()
    # What feeds it closes it.
    process.stdin = None
    return process


@pytest.mark.usefixtures("directory", "engines")
def test_interrupted_run_names_the_command_that_continues() -> None:
    content = make_input(60)
    whole = reference(content)
    process = fed(content, "--output", "out", "--resume", seconds=0.005)
    wait_for_lines(process, Path("out"), 20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    so_far = Path("out").read_bytes()
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert whole.startswith(so_far)
    rows = so_far.count(b"\n")
    head, _, command = (
        err.splitlines()[-1]
        .decode()
        .partition(f"interrupted; 'out' has {rows} rows; to continue: ")
    )
    assert head == "proxy-engine: "
    given = ["--schema", "schema.json", "--jsonl", "--output", "out", "--resume"]
    assert shlex.split(command)[1:] == ["extract", *given]
    assert extract("reference.in", "--output", "out", "--resume", "--quiet") == 1
    assert Path("out").read_bytes() == whole


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["in.csv", "--output", "a b"], "--resume in.csv --output 'a b'"),
        (["in.csv", "--overwrite", "--output", "o"], "--resume in.csv --output o"),
        (["--ov", "--output", "o", "--", "--ov"], "--resume --output o -- --ov"),
        (["--res", "--output", "o"], "--res --output o"),
    ],
)
def test_command_that_continues_is_quoted(arguments: list[str], expected: str) -> None:
    command = resume_command(["extract", *arguments])
    assert command.partition(" extract ")[2] == expected
    same = resume_command(["extract", *arguments], is_begun=False)
    assert shlex.split(same)[-len(arguments) :] == arguments


@pytest.mark.usefixtures("directory")
def test_pipe_gets_each_result_before_the_next_line() -> None:
    process = start(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    for text in (b'"a"', b"bad", b'"refuse"', b'"b"'):
        process.stdin.write(text + b"\n")
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 60)[0]
        assert process.stdout.readline().endswith(b"}\n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"2 of 4 lines failed" in err


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    return Terminal()


@pytest.mark.usefixtures("directory", "engines")
class TestProgress:
    def run_here(
        self, terminal: Terminal, patch: pytest.MonkeyPatch, stdin: bytes, *arguments: object
    ) -> str:
        """Run the command in this process, with ``stdin`` from a pipe."""
        reading, writing = os.pipe()
        with open(writing, "wb") as sink:
            sink.write(stdin)
        patch.setenv("STAND_IN_SECONDS", "0.02")
        patch.setenv("TERM", "xterm")
        with open(reading) as source, open(terminal.end, "w", closefd=False) as stderr:
            patch.setattr(sys, "stdin", source)
            patch.setattr(sys, "stderr", stderr)
            extract(*arguments)
        patch.undo()
        return terminal.read()

    def test_bar_is_shown_on_a_terminal(
        self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("in").write_bytes(make_input(30))
        with monkeypatch.context() as patch:
            shown = plain(self.run_here(terminal, patch, b"", "in", "--output", "out"))
        assert "30/30" in shown
        assert "lines/s" in shown
        assert "2 failed, 0 cut short" in shown
        assert "6 failed, 0 cut short" in shown
        assert "proxy-engine: line 20: refused" in shown

    def test_bar_without_a_total_leaves_results_on_stdout_intact(
        self,
        terminal: Terminal,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        whole = reference(make_input(30)).decode()
        with monkeypatch.context() as patch:
            shown = plain(self.run_here(terminal, patch, make_input(30)))
        assert capsys.readouterr().out == whole
        assert "30lines [" in shown

    def test_results_are_shown_above_the_bar(self, terminal: Terminal) -> None:
        whole = reference(make_input(30))
        process = start(
            "reference.in",
            seconds=0.02,
            stdin=subprocess.DEVNULL,
            stdout=terminal.end,
            stderr=terminal.end,
        )
        process.wait(60)
        shown = plain(terminal.read())
        assert "30/30" in shown
        shown_lines = [line.strip("\r") for line in shown.split("\n")]
        for line in whole.decode().splitlines():
            assert line in "\n".join(shown_lines)

    def test_quiet_shows_no_bar(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            assert self.run_here(terminal, patch, b'"x"\n' * 20, "--output", "out", "--quiet") == ""
        assert Path("out").read_bytes().count(b"\n") == 20

    def test_bar_needs_a_terminal(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("in").write_bytes(b'"x"\n' * 20)
        # With these, Rich takes anything for a terminal.
        for name in ("FORCE_COLOR", "TTY_INTERACTIVE"):
            monkeypatch.setenv(name, "1")
        assert extract("in", "--output", "out") == 0
        assert re.fullmatch(
            r"20 lines in [\d.]+ s: 200 prompt tokens, 100 completion tokens \([\d.]+ tokens/s\)\n",
            capsys.readouterr().err,
        )
