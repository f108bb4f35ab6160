"""The command lines of the first pages, with the installed command, outside of the clone."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from state_machines.compiled_library import cache_directory

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("proxy-engine")
PAGES = ("README.md", "docs/quickstart.md", "docs/installation.md")
COMMANDS = re.compile(r"^```\n([^`]*?proxy-engine extract[^`]*?)^```$", re.MULTILINE)
SCHEMA = re.compile(
    r"^Save a JSON Schema as `(.+?)`:\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
OTHER_MODEL = re.compile(r" --model \S+")


@pytest.mark.model
@pytest.mark.skipif(not COMMAND.is_file(), reason="the command is not installed")
@pytest.mark.usefixtures("embedded_engine")
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_extract_people_outside_of_the_clone(page: str, tmp_path: Path) -> None:
    """``HOME`` is empty; the embedded model is where it was downloaded."""
    text = (ROOT / page).read_text(encoding="utf-8")
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples")
    for name, schema in SCHEMA.findall(text):
        (work / name).write_text(schema, encoding="utf-8")
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PROXY_ENGINE_", "XDG_", "LD_PRELOAD"))
    }
    environment |= {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]),
        "PROXY_ENGINE_CACHE": str(cache_directory()),
    }
    script = "\n".join(COMMANDS.findall(text))
    assert script
    # The embedded model takes the place of one that would be downloaded.
    script = OTHER_MODEL.sub("", re.sub(r"^\$ ", "", script, flags=re.MULTILINE))
    run = subprocess.run(
        ["sh", "-e", "-c", script], cwd=work, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    for unwanted in ("PyTorch", "slow reference BLAS", "RuntimeWarning", "Traceback"):
        assert unwanted not in run.stderr
    person = json.loads(run.stdout.splitlines()[0])
    assert (person["name"], person["age"]) == ("Ada Lovelace", 36)
    if "people.csv" in script:
        with (work / "people.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["name"] for row in rows] == ["Ada Lovelace", "Grace", "Emmy"]
        assert not [row["error"] for row in rows if row["error"]]
