"""The example client for Node."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[3] / "examples" / "bridge-client.mjs"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="there is no Node")


def run(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    # Node must not preload the library that MLX needs.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run(
        [str(NODE), str(CLIENT), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHON": python},
    )


def test_node_client_loads_generates_and_cancels(tiny_model_directory: Path) -> None:
    done = run(str(tiny_model_directory))
    assert done.stderr == ""
    assert done.returncode == 0
    loaded, *_ = lines = done.stdout.splitlines()
    assert loaded == "loaded llama, 320 tokens"
    parsed, story, refused, ended = lines[-4:]
    assert re.fullmatch(r'parsed \{"name":".*","age":\d+\} from \d+ tokens', parsed)
    assert story == "the story was cancelled"
    assert refused == "refused: UnsatisfiableSchemaError at #"
    assert ended == "ended with status 0"


def test_node_client_ends_with_the_bridge() -> None:
    done = run(python="false")
    assert done.returncode == 1
    assert "the bridge has ended with status 1" in done.stderr
