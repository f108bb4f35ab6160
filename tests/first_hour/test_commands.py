"""The command lines of the first pages, with the installed entry point and outside of the clone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRY_POINT = Path(sys.executable).with_name("proxy-engine")
PAGES = ("README.md", "docs/quickstart.md", "docs/installation.md")
COMMANDS = re.compile(r"^```\n([^`]*?proxy-engine extract[^`]*?)^```$", re.MULTILINE)
SCHEMA = re.compile(
    r"^Save a JSON Schema as `(.+?)`:\n\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
OTHER_MODEL = re.compile(r" --model \S+")


@pytest.mark.model
@pytest.mark.skipif(not ENTRY_POINT.exists(), reason="the package is not installed")
@pytest.mark.parametrize("page", PAGES)
def test_commands_extract_people(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for name, schema in SCHEMA.findall(text):
        (tmp_path / name).write_text(schema, encoding="utf-8")
    script = "\n".join(COMMANDS.findall(text))
    assert script
    # The embedded model is in the place of one that would be downloaded.
    script = OTHER_MODEL.sub("", re.sub(r"^\$ ", "", script, flags=re.MULTILINE))
    path = os.pathsep.join([str(ENTRY_POINT.parent), os.environ["PATH"]])
    result = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    person = json.loads(result.stdout.splitlines()[0])
    assert person["name"] == "Ada Lovelace"
    assert person["age"] == 36
    if "people.csv" in script:
        people = (tmp_path / "people.csv").read_text(encoding="utf-8").splitlines()
        assert [line.partition(",")[0] for line in people] == [
            "name",
            "Ada Lovelace",
            "Grace",
            "Emmy",
        ]
