"""Three packages, one direction; and names that can be imported without paying for MLX."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("proxy_engine", "samplers", "state_machines")
FORBIDDEN = {
    "state_machines": {"mlx", "mlx_lm", "samplers", "proxy_engine", "transformers"},
    "samplers": {"state_machines", "proxy_engine"},
    "proxy_engine": set(),
}
# Other engines are measured against, never used; `pse` is another project's name.
NEVER = {"llguidance", "xgrammar", "outlines_core", "outlines", "lmformatenforcer", "pse"}

FRONT_ENDS = {"server", "bridge", "cli", "integrations"}


def imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_allowed_packages(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in files
        for name in imported_packages(path)
        if name in FORBIDDEN[package] | NEVER
    }
    assert found == set()


def folders_imported(path: Path) -> Iterator[str]:
    """The folders of the same package, or modules outside of any, that a module imports from."""
    parts = path.relative_to(ROOT / "proxy_engine").parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
            if place[0] and place[0] != parts[0].removesuffix(".py"):
                yield place[0]


def test_folders_of_the_engine_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / "proxy_engine").rglob("*.py")):
        folder = path.relative_to(ROOT / "proxy_engine").parts[0].removesuffix(".py")
        # The first names what there is, and imports nothing of it before it is asked for.
        if folder != "__init__":
            graph.setdefault(folder, set()).update(folders_imported(path))
    assert {"requests", "prompt_cache"} <= graph["engine"]
    assert not graph["errors"]
    # The front ends are optional: nothing but each other imports them.
    core = graph.keys() - FRONT_ENDS
    assert {folder for folder in core if graph[folder] & FRONT_ENDS} == {"__main__"}
    # Raises CycleError, which tells the circle.
    TopologicalSorter(graph).prepare()


def modules_imported(tree: ast.AST) -> Iterator[str]:
    """The modules that a module imports when it runs, also within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from modules_imported(node)


def test_folders_of_the_state_machines_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / "state_machines").rglob("*.py")):
        folder = path.relative_to(ROOT / "state_machines").parts[0].removesuffix(".py")
        if folder != "__init__":
            modules = modules_imported(ast.parse(path.read_text(encoding="utf-8")))
            found = {name.split(".")[1] for name in modules if name.startswith("state_machines.")}
            graph.setdefault(folder, set()).update(found - {folder})
    assert "structural_tags" in graph["root"]
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import proxy_engine", {"mlx", "mlx_lm", "transformers", "pydantic", "numpy"}),
        ("import proxy_engine.__main__", {"mlx", "mlx_lm", "transformers", "ray"}),
        ("import proxy_engine; proxy_engine.Interaction", {"mlx", "mlx_lm", "transformers"}),
        ("import state_machines", {"mlx", "mlx_lm", "transformers", "samplers", "proxy_engine"}),
        ("import state_machines.processors.numpy", {"mlx", "torch", "llama_cpp", "pydantic"}),
        ("import samplers", {"transformers", "state_machines", "proxy_engine"}),
    ],
)
def test_import_is_light(statement: str, absent: set[str]) -> None:
    program = f"{statement}\nimport sys\nprint(*(m for m in sys.modules if '.' not in m))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(result.stdout.split()) & absent == set()
