"""Benchmark of questions about images: figures of a small model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from vision import main

pytestmark = [pytest.mark.model, pytest.mark.soak]


def test_figures_are_written(tmp_path: Path) -> None:
    flags = ("--text-model", "1x64", "--vision-tower", "1x64", "--pixels", "56")
    sizes = ("--repeats", "1", "--tokens", "3", "--peers", "mlx-vlm")
    figures = ("--figures", "questions", "masks", "batch")
    assert main([*flags, *sizes, *figures, "--json", str(tmp_path / "figures.json")]) == 0
    report = json.loads((tmp_path / "figures.json").read_text())
    assert report["image_tokens"] == 4
    figures_written = {(figure["figure"], figure["against"]) for figure in report["figures"]}
    assert {
        ("second question, first token", "first question"),
        ("second question, first token", "mlx-vlm"),
        ("first question, further tokens", "mlx-vlm"),
        ("masks, schema", "no image"),
        ("batch of 4 images", "one by one"),
    } <= figures_written
    assert all(figure["value"] > 0 for figure in report["figures"])
