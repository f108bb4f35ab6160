"""``transcribe`` with a small Whisper model with random weights."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from recordings import speech_file
from terminal import Terminal, plain
from tiny_whisper import write_tiny_whisper

from proxy_engine import InferenceEngine, Transcript
from proxy_engine.cli.main import main
from proxy_engine.cli.transcribe import Form, Recording

PHONE = "[0-9]{3}-[0-9]{4}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_whisper(tmp_path_factory.mktemp("models") / "tiny-whisper")


@pytest.fixture(scope="module")
def expected(model: Path) -> Transcript[Any]:
    """The transcript by the library."""
    with InferenceEngine(str(model), on_progress=None) as engine:
        return engine.transcribe(speech_file(), language="en")


def transcribe(model: Path, *arguments: object) -> int:
    return main(["transcribe", "--model", str(model), "--language", "en", *map(str, arguments)])


def test_text_goes_to_stdout_and_speed_to_stderr(
    model: Path, expected: Transcript[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe(model, speech_file()) == 0
    out, err = capsys.readouterr()
    assert out == expected.text + "\n"
    assert "1.0 s of audio" in err
    assert transcribe(model, "--quiet", "--choice", "yes", speech_file()) == 0
    assert capsys.readouterr() == ("yes\n", "")


@pytest.mark.parametrize("kind", ["text", "srt", "vtt"])
def test_files_end_with_one_line_break(kind: Any, expected: Transcript[Any]) -> None:
    form = Form(kind, has_names=False, has_words=False)
    written = form.encode(Recording("a.wav", b""), expected)
    whole = {"text": expected.text, "srt": expected.to_srt(), "vtt": expected.to_vtt()}[kind]
    assert written == whole.rstrip("\n")


def test_json_has_segments_and_words(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert transcribe(model, "--json", "--words", speech_file()) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["file"] == str(speech_file())
    assert written["language"] == "en"
    assert written["duration"] == 1.018
    segments = written["segments"]
    assert written["text"] == "".join(one["text"] for one in segments)
    assert all(0 <= one["start"] <= one["end"] for one in segments)
    words = [word["text"] for segment in segments for word in segment["words"]]
    assert "".join(words) == written["text"].replace(" ", "")


def test_failed_recording_does_not_affect_others(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.wav"
    damaged.write_bytes(b"RIFF")
    files = [damaged, speech_file(), tmp_path / "large.wav"]
    shutil.copy(speech_file(), files[2])
    phone = ["--pattern", PHONE]
    assert transcribe(model, *phone, *files) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line.rpartition(": ")[0] for line in lines] == [str(files[1]), str(files[2])]
    assert all(re.fullmatch(PHONE, line.rpartition(": ")[2]) for line in lines)
    assert "no known format" in err
    assert "1 of 3 recordings failed" in err
    assert transcribe(model, *phone, "--lead-in", "[a-z]{9}", "--json", *files) == 1
    first, *others = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["error"]["file"] == str(damaged)
    assert first["error"]["type"] == "MediaError"
    assert [one["file"] for one in others] == [str(files[1]), str(files[2])]
    assert all(re.fullmatch(PHONE, one["text"]) for one in others)
    assert all(re.fullmatch("([a-z]{9})?", one.get("lead_in", "")) for one in others)


def test_transcripts_match_files_with_constraints(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, grammar = tmp_path / "schema.json", tmp_path / "grammar.gbnf"
    schema.write_text('{"enum": ["on", "off"]}')
    grammar.write_text('root ::= "go " ("left" | "right")')
    output = tmp_path / "out.txt"
    assert transcribe(model, "--schema", schema, "--output", output, speech_file()) == 0
    assert json.loads(output.read_text()) in ("on", "off")
    assert transcribe(model, "--grammar", grammar, speech_file()) == 0
    assert capsys.readouterr().out.strip() in ("go left", "go right")


def test_standard_input_is_a_recording(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = io.TextIOWrapper(io.BytesIO(speech_file().read_bytes()))
    monkeypatch.setattr(sys, "stdin", content)
    assert transcribe(model, "--choice", "yes", "--choice", "no", "-") == 0
    assert capsys.readouterr().out.strip() in ("yes", "no")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.wav"], "cannot read 'absent.wav'"),
        (["."], "directory"),
        (["-", "{speech}"], "standard input"),
        (["--srt", "{speech}", "{speech}"], "--srt requires a single recording"),
        (["--vtt", "--pattern", "a", "{speech}"], "--vtt requires"),
        (["--words", "{speech}"], "--words requires --json"),
        (["--words", "--json", "--choice", "a", "{speech}"], "--words requires"),
        (["--overwrite", "{speech}"], "--overwrite requires --output"),
        (["--lead-in", "a", "{speech}"], "--lead-in requires a constraint"),
        (["--lead-in", "(", "--pattern", "a", "{speech}"], "lead-in"),
        (["--pattern", "(", "{speech}"], "--pattern: "),
        (["--schema", "{speech}", "{speech}"], "not JSON"),
        (["--grammar", "absent", "{speech}"], "absent"),
        (["--grammar", "{speech}", "{speech}"], "--grammar: "),
        (["--language", "x", "{speech}"], "language"),
        (["--output", "{speech}", "{speech}"], "is the input"),
    ],
)
def test_wrong_command_line_is_refused_before_the_model_is_loaded(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [one.replace("{speech}", str(speech_file())) for one in arguments]
    assert main(["transcribe", "--model", "/absent", *given]) == 2
    assert words in capsys.readouterr().err


def test_existing_output_is_kept(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.txt"
    output.write_text("mine")
    assert transcribe(model, "--output", output, speech_file()) == 2
    assert output.read_text() == "mine"
    arguments = ["--overwrite", "--choice", "yes", "--output", output, speech_file()]
    assert transcribe(model, *arguments) == 0
    assert output.read_text() == "yes\n"


def test_model_of_text_is_refused(
    tiny_model: Any,
    tiny_tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "proxy_engine.engine.inference_engine.InferenceEngine",
        lambda model, **_: InferenceEngine(tiny_model, tiny_tokenizer),
    )
    assert main(["transcribe", str(speech_file())]) == 1
    assert "whisper" in capsys.readouterr().err


def test_progress_is_shown_on_a_terminal(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    with open(terminal.end, "w", closefd=False, encoding="utf-8") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        monkeypatch.setenv("TERM", "xterm")
        assert transcribe(model, "--choice", "yes", speech_file()) == 0
        monkeypatch.undo()
    shown = plain(terminal.read())
    assert capsys.readouterr().out == "yes\n"
    assert "1 of 1 s" in shown
    assert "1.0 s of audio" in shown


def test_closed_reader_ends_the_command(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert transcribe(model, "--choice", "yes", speech_file()) == 141
