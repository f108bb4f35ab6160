"""A Go program that speaks the protocol of mlx-lm bridges."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "tests" / "compat" / "clients" / "go"
GO = shutil.which("go")


@pytest.mark.skipif(GO is None, reason="there is no Go")
def test_go_program_works_with_the_bridge(tiny_model_directory: Path, tmp_path: Path) -> None:
    program = tmp_path / "client"
    # The compiler must not preload the library that MLX needs.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    build = [str(GO), "build", "-buildvcs=false", "-o", str(program), "."]
    subprocess.run(build, cwd=CLIENT, check=True, timeout=300, env=environment)
    script = ROOT / "examples" / "bridge.py"
    done = subprocess.run(
        [str(program), sys.executable, str(script), str(tiny_model_directory)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    checks = [json.loads(line) for line in done.stdout.splitlines()]
    assert [check for check in checks if not check["works"]] == []
    assert {"load", "info", "generate", "chat", "cancel", "quit"} <= {c["feature"] for c in checks}
    assert done.returncode == 0
