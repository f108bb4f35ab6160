"""The programs in ``examples/`` that extract from records run with a small random model."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine.models.loading import LoadedModel

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _small_model(
    roomy_model: Any, tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = LoadedModel.of(roomy_model, tiny_tokenizer, name="tiny")
    monkeypatch.setattr("proxy_engine.engine.core.load_model", lambda *_: loaded)


def test_data_frame_has_values_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "extract_to_dataframe.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "sentiment" in shown
    assert "row 2: the text is missing" in shown


def test_batch_is_continued_after_its_last_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv"
    monkeypatch.setattr(sys, "argv", ["resume_batch.py", str(path)])
    runpy.run_path(str(EXAMPLES / "resume_batch.py"), run_name="__main__")
    whole = path.read_text(encoding="utf-8")
    with path.open(encoding="utf-8", newline="") as file:
        assert [int(row["id"]) for row in csv.DictReader(file)] == list(range(1, 21))
    path.write_text(whole[: len(whole) // 2], encoding="utf-8")
    runpy.run_path(str(EXAMPLES / "resume_batch.py"), run_name="__main__")
    assert path.read_text(encoding="utf-8") == whole
