"""The command lines of the README run as they stand, with the installed command, outside of the clone."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy_engine import InferenceEngine
from state_machines.compiled_library import cache_directory

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("proxy-engine")
LINES = re.findall(r"^\$ (proxy-engine .*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.model
@pytest.mark.skipif(not COMMAND.is_file(), reason="the command is not installed")
def test_commands_of_the_readme_run_outside_of_the_clone(
    tmp_path: Path, embedded_engine: InferenceEngine
) -> None:
    """``HOME`` is empty; the embedded model is where it was downloaded."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PROXY_ENGINE_", "XDG_", "LD_PRELOAD"))
    }
    environment |= {"HOME": str(home), "PROXY_ENGINE_CACHE": str(cache_directory())}
    assert LINES
    for line in LINES:
        run = subprocess.run(
            [str(COMMAND), *shlex.split(line)[1:]],
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, f"{line}\n{run.stderr}"
        for unwanted in ("PyTorch", "slow reference BLAS", "RuntimeWarning", "Traceback"):
            assert unwanted not in run.stderr
        if "--output" not in line:
            assert {*json.loads(run.stdout)} == {"name", "age", "city"}
    with (work / "people.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    records = (work / "examples" / "people.jsonl").read_text("utf-8").splitlines()
    assert len(rows) == len(records)
    assert not [row["error"] for row in rows if row["error"]]
