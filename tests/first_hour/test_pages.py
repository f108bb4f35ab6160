"""The first hour with the README: its recipes print what they show, and it can be read in minutes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import proxy_engine
from proxy_engine import InferenceEngine

ROOT = Path(__file__).parents[2]
RECIPE = re.compile(
    r"^```python\n(.*?)^```$\n(?:\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def is_on_cpu() -> bool:
    return bool(mx.default_device().type == mx.DeviceType.cpu)


@pytest.mark.model
@pytest.mark.skipif(not is_on_cpu(), reason="the outputs are those of a CPU")
@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_recipes_print_what_they_show(
    path: str,
    embedded_engine: InferenceEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_engine, "InferenceEngine", lambda: embedded_engine)
    recipes = RECIPE.findall((ROOT / path).read_text(encoding="utf-8"))
    assert recipes
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for code, shown in recipes:
        assert shown, code
        exec(compile(code, path, "exec", dont_inherit=True), namespace)
        printed = capsys.readouterr().out
        assert printed.strip() == shown.strip()


def test_readme_is_short_and_the_recipes_of_users_come_first() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 600
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    first = [heading.partition(":")[0] for heading in headings[:4]]
    assert first == ["Installation", "Agent frameworks", "Extraction", "Notebooks"]


def test_install_lines_need_no_index_that_has_the_package() -> None:
    """The package is on no index; the requirement by name adds extras to an installation."""
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        if path.name == "installation.md":
            continue
        commands = r"^(\$ )?(pip install|uv add|uv tool install) '?proxy-engine"
        assert not re.search(commands, path.read_text("utf-8"), re.MULTILINE), path
