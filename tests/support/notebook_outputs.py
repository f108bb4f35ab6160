"""Executes the notebooks of the documentation with a kernel, and saves their outputs.

    python tests/support/notebook_outputs.py [NAME ...]

The saved outputs are the same in every run on one machine: times, progress bars and the output of
standard error are left out. Notebooks whose models are not embedded run with random weights.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

SUPPORT = Path(__file__).parent
NOTEBOOKS = SUPPORT.parents[1] / "docs" / "notebooks"

_RANDOM_MODEL = """
import dataclasses, sys, tempfile
from pathlib import Path

sys.path.insert(0, {support!r})
from proxy_engine.engine import core
from {module} import {function} as write

_directory = {call}
_load_model = core.load_model


def _load(model, *rest):
    return dataclasses.replace(_load_model(_directory, *rest), name="random weights")


core.load_model = _load
"""

RANDOM_MODELS = {
    "vision": (
        "vision_models",
        "vision_checkpoint",
        'write("qwen2_5_vl", Path(tempfile.mkdtemp()))',
    ),
}
"""By notebook: module, function and call that write a checkpoint with random weights."""

_TINY_MODEL = """
import sys

sys.path.insert(0, {support!r})
from proxy_engine.engine import core
from proxy_engine.models.loading import LoadedModel
from tiny_models import make_tiny_model, make_tiny_tokenizer

_loaded = LoadedModel.of(make_tiny_model(context=4096), make_tiny_tokenizer(), name="tiny")
core.load_model = lambda *_: _loaded
"""

# A result's caption has the seconds of the prompt and of the answer, its usage has further times.
_TIMES = re.compile(r" · \d+\.\d\d \+ \d+\.\d\d s(?= · )|(?<=_seconds=)[\d.e-]+")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_WIDGET = "application/vnd.jupyter.widget-view+json"


def executed(path: Path, *, setup: str = "") -> Any:
    """Return a notebook with the outputs of a new kernel.

    Args:
        path: The notebook, which is not changed.
        setup: Code that runs before the first cell.

    Raises:
        CellExecutionError: A cell raises an exception.
        AssertionError: A cell shows a warning.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(setup))
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    errors = "".join(
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stderr"
    )
    assert "Warning" not in errors, errors
    del notebook.cells[0]
    for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), 1):
        cell.execution_count = count
        cell.outputs = stable(cell.outputs, count)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def tiny_model_setup() -> str:
    """Return code that replaces the embedded model by a tiny random one."""
    return _TINY_MODEL.format(support=str(SUPPORT))


def _setup(name: str) -> str:
    if name not in RANDOM_MODELS:
        return ""
    module, function, call = RANDOM_MODELS[name]
    return _RANDOM_MODEL.format(support=str(SUPPORT), module=module, function=function, call=call)


def _is_kept(output: Any) -> bool:
    data = output.get("data", {})
    is_bar = _WIDGET in data or "<progress" in data.get("text/html", "")
    return output.get("name") != "stderr" and not is_bar


def stable(outputs: list[Any], count: int) -> list[Any]:
    """Return outputs without times and addresses. Adjacent pieces of a stream are joined."""
    kept: list[Any] = []
    for output in filter(_is_kept, outputs):
        text = _ADDRESS.sub("", _TIMES.sub("", json.dumps(output, ensure_ascii=False)))
        one = nbformat.from_dict(json.loads(text))
        if "execution_count" in one:
            one.execution_count = count
        if kept and one.output_type == kept[-1].output_type == "stream":
            kept[-1].text += one.text
        else:
            kept.append(one)
    return kept


def main() -> None:
    """Execute the named notebooks, or all, and save them."""
    names = sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    for name in names:
        path = NOTEBOOKS / f"{name}.ipynb"
        notebook = executed(path, setup=_setup(name))
        text = nbformat.writes(notebook)
        path.write_text(f"{text}\n", encoding="utf-8")
        print(f"{path.name}: {len(text):,} bytes")


if __name__ == "__main__":
    main()
