"""``extract --prompt-cache-directory``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy_engine.cli.main import main


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
