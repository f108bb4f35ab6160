"""Each page of the documentation begins with a line that installs what its examples import."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"^```py(?:thon)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLATION = re.compile(r"^(?:\$ )?pip install '\.\[(.+?)\]'(.*?)(?: +#.*)?$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# The distributions of packages with another name, and those that bring a package with them.
DISTRIBUTIONS = {
    "httpx": "openai",
    "langchain_core": "langchain-openai",
    "llama_cpp": "llama-cpp-python",
    "mlx": "mlx-lm",
    "mlx_vlm": "mlx-vlm",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry": "opentelemetry-api",
    "proxy_engine.notebook": "ipython",
    "proxy_engine.server": "uvicorn",
    "pydantic_ai": "pydantic-ai-slim",
    "transformers": "mlx-lm",
}
TO_FRAME = re.compile(r"\.to_(frame|pandas|polars|arrow)\(")


def requirements(extras: set[str]) -> set[str]:
    """The distributions that the project requires, with extras and theirs."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    found = [Requirement(line) for line in lines]
    inner = {name for one in found if one.name == "proxy-engine" for name in one.extras}
    names = {one.name for one in found}
    return names | (requirements(inner) if inner else set())


def imported(code: str) -> set[str]:
    """The modules that an example imports. Examples of notebooks may await at the top level."""
    tree = compile(code, "", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.AST)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def distribution(module: str) -> str | None:
    """The distribution of a module; ``None`` if it is the standard library's or the project's."""
    for prefix, name in DISTRIBUTIONS.items():
        if f"{module}.".startswith(f"{prefix}."):
            return name
    package = module.partition(".")[0]
    if package in {*sys.stdlib_module_names, "proxy_engine", "samplers", "state_machines"}:
        return None
    return package.replace("_", "-")


WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page", WITH_EXAMPLES, ids=[str(page.relative_to(ROOT)) for page in WITH_EXAMPLES]
)
def test_installation_line_of_a_page_covers_its_examples(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    line = INSTALLATION.search(text)
    first = EXAMPLE.search(text)
    assert line is not None
    assert first is not None
    assert line.start() < first.start()
    installed = requirements(set(line[1].split(","))) | set(line[2].split())
    examples = [example[1] for example in EXAMPLE.finditer(text)]
    needed = {distribution(module) for code in examples for module in imported(code)} - {None}
    if any(map(TO_FRAME.search, examples)):
        needed.add("pandas")
    assert needed <= installed
