"""Three packages, one direction; and names that can be imported without paying for MLX."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
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


def executed_imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """The imports of a module that are executed, also within functions; not those of types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ImportFrom):
            yield node
        elif not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield from executed_imports(node)


def folders_imported(path: Path) -> Iterator[str]:
    """The folders of the same package, or modules outside of any, that a module imports from."""
    parts = path.relative_to(ROOT / "proxy_engine").parts
    for node in executed_imports(tree_of(path)):
        if node.level:
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


def test_folders_of_the_state_machines_have_no_import_cycle() -> None:
    graph: dict[str, set[str]] = {}
    for path in sorted((ROOT / "state_machines").rglob("*.py")):
        folder = path.relative_to(ROOT / "state_machines").parts[0].removesuffix(".py")
        if folder != "__init__":
            modules = [node.module or "" for node in executed_imports(tree_of(path))]
            found = {name.split(".")[1] for name in modules if name.startswith("state_machines.")}
            graph.setdefault(folder, set()).update(found - {folder})
    assert "structural_tags" in graph["root"]
    TopologicalSorter(graph).prepare()


def test_floors_of_json_schemas_import_downwards_only() -> None:
    """Imports for types count as well."""
    floors = ["algebra", "reader", "emptiness", "grammar"]
    root = ROOT / "state_machines" / "json_schema"
    assert sorted(
        path.name for path in root.iterdir() if (path / "__init__.py").exists()
    ) == sorted(floors)
    for height, floor in enumerate(floors):
        modules = {
            node.module or ""
            for path in (root / floor).rglob("*.py")
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.ImportFrom)
        }
        above = tuple(f"state_machines.json_schema.{name}" for name in floors[height + 1 :])
        above = (*above, "state_machines.json_schema.machine")
        assert [name for name in modules if name.startswith(above)] == []


PICTURE = next((ROOT / "docs" / "images").glob("*.png"))
# Statements that one process executes one after another, and packages that it lacks after each.
IMPORTS: dict[str, list[tuple[str, set[str]]]] = {
    "samplers": [("import samplers", {"transformers", "state_machines", "proxy_engine"})],
    "state_machines": [
        (
            "import state_machines",
            {"mlx", "mlx_lm", "transformers", "samplers", "proxy_engine", "torch", "llama_cpp"},
        ),
        ("import state_machines.processors.numpy", {"mlx", "torch", "llama_cpp", "pydantic"}),
    ],
    "proxy_engine": [
        ("import proxy_engine", {"mlx", "mlx_lm", "transformers", "pydantic", "numpy"}),
        ("proxy_engine.Interaction", {"mlx", "mlx_lm", "transformers"}),
        # Paths are read, and media written as placeholders, without Pillow.
        (
            "from proxy_engine.conversation.messages import template_messages\n"
            f"picture = proxy_engine.ImageContent(path={str(PICTURE)!r})\n"
            "turns = [proxy_engine.Interaction('user', picture)]\n"
            "turns += [proxy_engine.Interaction(role, 'x') for role in ('assistant', 'user')]\n"
            "assert template_messages(turns).messages[0]['content'] == '[1 image]'",
            {"PIL", "mlx_vlm", "mlx_audio", "miniaudio", "mlx"},
        ),
        (
            "import proxy_engine.__main__",
            {"mlx", "mlx_lm", "transformers", "ray", "fastapi", "uvicorn", "pydantic_settings"},
        ),
        ("import proxy_engine.extraction.run", {"pandas", "polars", "pyarrow", "datasets"}),
    ],
}


@pytest.mark.parametrize("package", IMPORTS)
def test_imports_are_light(package: str) -> None:
    statements, absent = zip(*IMPORTS[package], strict=True)
    shown = "print(*(name for name in sys.modules if '.' not in name))"
    program = "\n".join(["import sys", *(f"{each}\n{shown}" for each in statements)])
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for statement, names, lines in zip(statements, absent, result.stdout.splitlines(), strict=True):
        assert set(lines.split()) & names == set(), statement


def test_map_of_the_helpers_is_complete() -> None:
    directory = ROOT / "tests" / "support"
    text = (directory / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)/?`", text)
    helpers = {
        path.stem
        for path in directory.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {name for name in named if named.count(name) > 1} == set()
    assert set(named) == helpers


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_of_tests_are_those_of_the_package(package: str) -> None:
    folders = (path for path in (ROOT / "tests" / package).rglob("*") if path.is_dir())
    missing = [
        path.name
        for path in folders
        if path.name != "__pycache__"
        and not (ROOT / path.relative_to(ROOT / "tests")).is_dir()
        and not (ROOT / path.relative_to(ROOT / "tests")).with_suffix(".py").exists()
    ]
    assert missing == []


def test_few_classes_share_a_name() -> None:
    """Only classes of one meaning, such as the logits processors of several frameworks, do."""
    places: dict[str, set[Path]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.ClassDef):
                    places.setdefault(node.name, set()).add(path)
    shared = {name for name, paths in places.items() if len(paths) > 1}
    assert len(shared) <= 10, sorted(shared)


def test_architecture_names_modules_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*)/?`", text))
    paths = [
        path.relative_to(ROOT).with_suffix("")
        for package in (*PACKAGES, "docs", "tests")
        for path in (ROOT / package).rglob("*")
    ]
    known = {"/".join(path.parts[begin:]) for path in paths for begin in range(len(path.parts))}
    # Functions, options and libraries.
    others = {"apply_filters", "commit", "encode", "has_filters", "load_model", "media_part"}
    others |= {
        "generate",
        "jsonschema",
        "max_tokens",
        "propose",
        "read",
        "response_schema",
        "stream",
    }
    assert sorted(named - known - others) == []
