"""Type checkers infer the types of the public API. ``make lint`` runs mypy on the same assertions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASSERTIONS = Path(__file__).parent / "static_types" / "assertions.py"


def test_pyright_infers_the_asserted_types() -> None:
    pyright = shutil.which("pyright") or shutil.which("basedpyright")
    if pyright is None:
        pytest.skip("pyright is not installed")
    command = [pyright, "--level", "error", "--pythonpath", sys.executable, str(ASSERTIONS)]
    result = subprocess.run(command, cwd=ASSERTIONS.parents[2], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
