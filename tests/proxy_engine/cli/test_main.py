"""The command line as a whole."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from adapters import write_adapter

from proxy_engine import InferenceEngine
from proxy_engine.cli.main import main


def test_version_is_that_of_the_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"proxy-engine {importlib.metadata.version('proxy-engine')}\n"


# Flags of loading a model.


SCHEMA = {"type": "string", "pattern": "^[a-z]*$", "maxLength": 40}
TEMPLATE = "{{ messages[-1]['content'][-20:] }}"


def test_extract_loads_the_model_as_its_flags_say(
    schema: Path,
    text: Path,
    tmp_path: Path,
    tiny_model_directory: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    adapter = write_adapter(tmp_path / "adapter", tiny_model_directory)
    template = tmp_path / "template.jinja"
    template.write_text(TEMPLATE, encoding="utf-8")
    command = ["extract", "--schema", schema, "--model", tiny_model_directory, "--quiet"]
    flags = ["--chat-template", template, "--instruction", "x"]
    outputs = []
    for more in (flags, [*flags, "--adapter-path", adapter]):
        assert main([str(word) for word in (*command, *more, text)]) == 0
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 2


@pytest.mark.parametrize(
    ("flags", "message", "status"),
    [
        (["--adapter-path", "./none"], "there is no such directory", 1),
        (["--chat-template", "./none"], "--chat-template should be a template in Jinja", 2),
        (["--revision", "main"], "revision requires a Hugging Face repo id", 2),
    ],
)
def test_invalid_flag_is_reported_in_one_line(
    schema: Path,
    text: Path,
    tiny_model_directory: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
    status: int,
) -> None:
    command = ["extract", "--schema", str(schema), "--model", str(tiny_model_directory)]
    assert main([*command, *flags, str(text)]) == status
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


@pytest.mark.parametrize(
    ("command", "flags", "expected"),
    [
        (
            ["extract", "--schema", "SCHEMA", "TEXT"],
            ["--trust-remote-code", "--revision", "r"],
            {"trust_remote_code": True, "revision": "r"},
        ),
        (["extract", "--schema", "SCHEMA", "TEXT"], [], {}),
        (["transcribe", "TEXT"], ["--revision", "r"], {"revision": "r"}),
    ],
)
def test_flags_are_arguments_of_the_engine(
    schema: Path,
    text: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    flags: list[str],
    expected: dict[str, Any],
) -> None:
    class Made(Exception):
        pass

    def make(model: Any, **arguments: Any) -> InferenceEngine:
        raise Made(arguments)

    monkeypatch.setattr("proxy_engine.engine.inference_engine.InferenceEngine", make)
    paths = {"SCHEMA": str(schema), "TEXT": str(text)}
    with pytest.raises(Made) as caught:
        main([*(paths.get(word, word) for word in command), *flags])
    (arguments,) = caught.value.args
    names = {"adapter_path", "chat_template", "distributed", "revision", "trust_remote_code"}
    assert {name: arguments[name] for name in names & arguments.keys()} == expected


# ``extract --prompt-cache-directory``.


def test_later_run_finds_the_prompts_of_earlier_ones(
    tmp_path: Path, tiny_model_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, text, caches = (tmp_path / name for name in ("s.json", "text.txt", "caches"))
    schema.write_text(json.dumps({"type": "boolean"}), encoding="utf-8")
    text.write_text("abc " * 50, encoding="utf-8")
    command = ["extract", "--schema", schema, "--model", tiny_model_directory, "--quiet", text]
    outputs = []
    for flags in ([], *2 * [["--prompt-cache-directory", caches]]):
        assert main([str(word) for word in (*command, *flags)]) == 0
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1
    assert list(caches.rglob("*.safetensors"))


def test_invalid_directory_is_refused_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = tmp_path / "s.json"
    schema.write_text("true", encoding="utf-8")
    command = ["extract", "--schema", str(schema), "--model", "./none"]
    assert main([*command, "--prompt-cache-directory", ""]) == 2
    assert "directory should be the name of a directory" in capsys.readouterr().err


# Help and completion.


def test_help_shows_ten_options_and_help_all_all(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as caught:
            main(["extract", flag])
        assert caught.value.code == 0
        shown[flag] = set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", capsys.readouterr().out, re.M))
    assert len(shown["--help"]) == 10
    assert shown["--help"] < shown["--help-all"]
    assert len(shown["--help-all"]) >= 40


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("proxy-engine ex", {"extract"}),
        ("proxy-engine extract --max-", {"--max-tokens", "--max-retries"}),
        ("proxy-engine extract --speculation ", {"auto", "off"}),
    ],
)
def test_shells_complete_commands_and_options(
    line: str, expected: set[str], tmp_path: Path
) -> None:
    found = tmp_path / "found"
    completion = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(found),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    subprocess.run(
        [sys.executable, "-m", "proxy_engine"], env={**os.environ, **completion}, check=False
    )
    assert {word.strip() for word in found.read_text().split("\n")} == expected
