"""The notebooks of the documentation: their saved outputs, and one run with a kernel."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from notebook_outputs import NOTEBOOKS, RANDOM_MODELS, executed, stable, tiny_model_setup

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def code_cells(path: Path) -> list[Any]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def has_value(cell: Any) -> bool:
    """Whether the last statement of a cell is an expression with a value."""
    last = ast.parse("".join(cell["source"])).body[-1]
    if not isinstance(last, ast.Expr):
        return False
    return not (isinstance(last.value, ast.Call) and ast.unparse(last.value.func) == "print")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_value_has_a_saved_output(path: Path) -> None:
    for cell in code_cells(path):
        kinds = [output["output_type"] for output in cell["outputs"]]
        assert "error" not in kinds
        assert ("execute_result" in kinds) == has_value(cell), cell["source"]
        assert bool(kinds) >= ("print(" in "".join(cell["source"])), cell["source"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_saved_outputs_are_those_of_any_computer(path: Path) -> None:
    outputs = json.dumps([cell["outputs"] for cell in code_cells(path)])
    assert not re.search(r"/home/|/root/|/Users/|/tmp/|0x[0-9a-f]{6}|\.py:\d", outputs)
    assert not re.search(r"_seconds=\d|\d\.\d\d s ·", outputs)
    assert [cell["execution_count"] for cell in code_cells(path)] == list(
        range(1, len(code_cells(path)) + 1)
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_notebook_names_the_model_of_its_outputs(path: Path) -> None:
    first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    named = "Whisper tiny.en" if path.stem == "audio" else "SmolLM2-135M"
    assert ("random weights" if path.stem in RANDOM_MODELS else named) in first


def test_objects_are_shown_as_html_by_a_kernel() -> None:
    notebook = executed(NOTEBOOKS / "grammars.ipynb", setup=tiny_model_setup())
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    shown = [out.data for cell in cells for out in cell.outputs if "data" in out]
    assert len(shown) >= 4
    assert all("text/html" in data for data in shown)
    assert "tokens may come next" in shown[1]["text/html"]
    assert "forced by the grammar" in shown[-1]["text/html"]


def test_stable_outputs_have_no_times() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "a"},
        {"output_type": "stream", "name": "stderr", "text": "50%"},
        {"output_type": "stream", "name": "stdout", "text": "b"},
        {
            "output_type": "execute_result",
            "execution_count": 7,
            "metadata": {},
            "data": {"text/plain": "tiny · 1 + 2 tokens · 0.25 + 1.50 s · stop <X at 0x7f12>"},
        },
    ]
    text, value = stable(outputs, 3)
    assert text.text == "ab"
    assert value.execution_count == 3
    assert value.data["text/plain"] == "tiny · 1 + 2 tokens · stop <X>"
