"""Each page of the documentation begins with an install line that makes its examples run."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
# They describe several installations, or none.
EXEMPT = {"docs/installation.md", "docs/architecture.md", "docs/audit.md", "docs/compatibility.md"}
LINE = re.compile(r"^(?:\$ )?pip install '\.\[([a-z0-9,-]+)\]'([^\n#]*)", re.MULTILINE)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUNTIME = {"mlx", "mlx_lm", "numpy", "proxy_engine", "pydantic", "samplers", "state_machines"}
# Modules whose distribution has another name, or which another distribution requires.
DISTRIBUTIONS = {
    "httpx": "openai",
    "IPython": "ipython",
    "langchain_core": "langchain-openai",
    "llama_cpp": "llama-cpp-python",
    "opentelemetry": "opentelemetry-sdk",
    "pydantic_ai": "pydantic-ai-slim",
    "transformers": "torch",
}
# What commands and methods need besides the modules that examples import.
NEEDS = {
    r"\bproxy-engine serve\b": "fastapi",
    r"\bproxy-engine transcribe\b": "mlx-audio",
    r"\.transcribe\(": "mlx-audio",
    r"\b(async_)?openai\(": "openai",
    r"\.to_frame\(|\.parquet\b": "pandas",
    r"^(\$ )?proxy-engine extract .*--ray\b": "ray",
}


def extra_of(module: str) -> set[str]:
    """The distributions that a module of integrations needs: those of its extra."""
    extra = module.split(".")[2].replace("_", "-")
    return {"mlx-vlm"} if extra == "mlx-vlm" else distributions([extra])


def distributions(extras: list[str]) -> set[str]:
    """The distributions that extras install, by name."""
    found: set[str] = set()
    for extra in extras:
        for requirement in PROJECT["optional-dependencies"].get(extra, ()):
            name = re.match(r"[A-Za-z0-9._-]+", requirement)
            assert name
            if name[0] == "proxy-engine":
                found |= distributions(requirement.partition("[")[2].partition("]")[0].split(","))
            found.add(name[0].lower())
    return found


def needed(blocks: list[tuple[str, str]]) -> Iterator[str]:
    """The distributions that the examples of a page need besides the runtime."""
    for language, code in blocks:
        if language == "python":
            for node in ast.walk(ast.parse(code)):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    names = [node.module or ""]
                for name in names:
                    top = name.partition(".")[0]
                    if name.startswith("proxy_engine.integrations."):
                        yield from extra_of(name)
                    elif top not in RUNTIME | sys.stdlib_module_names:
                        yield DISTRIBUTIONS.get(top, top.replace("_", "-"))
        for pattern, distribution in NEEDS.items():
            if re.search(pattern, code, re.MULTILINE):
                yield distribution


def pages() -> Iterator[Path]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = BLOCK.findall(path.read_text("utf-8"))
        has_examples = any(
            language == "python" or re.search(r"^(\$ )?proxy-engine ", code, re.MULTILINE)
            for language, code in blocks
        )
        if has_examples and str(path.relative_to(ROOT)) not in EXEMPT:
            yield path


@pytest.mark.parametrize("path", [*pages()], ids=lambda path: str(path.relative_to(ROOT)))
def test_install_line_comes_first_and_covers_the_examples(path: Path) -> None:
    blocks = BLOCK.findall(path.read_text("utf-8"))
    (position, line), *others = [
        (number, found) for number, (_, code) in enumerate(blocks) for found in LINE.findall(code)
    ] or [(-1, ("", ""))]
    assert not others, "one line"
    assert position >= 0, "no line such as: pip install '.[cpu]'     # in a clone of the repository"
    if path.name != "README.md":
        assert position == 0, "another block comes first"
    extras = line[0].split(",")
    assert "cpu" in extras
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
    installed = distributions(extras) | set(line[1].split())
    assert set(needed(blocks)) <= installed
