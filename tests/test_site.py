"""The sources of the documentation site: navigation, links, search, reference. Builds nothing."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import CHROMIUM, DRIVER, browsing

import proxy_engine
import samplers
import state_machines

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}"))
TEXTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    ROOT / "benchmarks" / "README.md",
    *PAGES,
]
# Pages that a hook adds.
INCLUDED = {"changelog.md", "contributing.md"}
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


@cache
def markdown(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    return text


@cache
def anchors(path: Path) -> set[str]:
    """The fragments of a page: GitHub's, which are the site's as well, and the reference's."""
    text = markdown(path)
    names = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    fences = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", fences.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        names.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return names


def in_repository(path: Path) -> str:
    return str(path.relative_to(ROOT))


def site_configuration() -> dict[str, Any]:
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    return dict(yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader))


def pages_of(navigation: Any) -> list[str]:
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    return [page for part in parts for page in pages_of(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    listed = pages_of(site_configuration()["nav"])
    assert sorted(listed) == sorted({str(path.relative_to(DOCS)) for path in PAGES} | INCLUDED)


@pytest.mark.parametrize("path", TEXTS, ids=in_repository)
def test_links_have_targets(path: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(CODE.sub("``", markdown(path))):
        if ":" in target:
            continue
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (
            anchor and file.suffix in (".md", ".ipynb") and anchor not in anchors(file)
        ):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_reference_has_every_public_name() -> None:
    described = {
        name
        for path in (DOCS / "reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", markdown(path), re.MULTILINE)
    }
    packages = {package.__name__: package for package in (proxy_engine, samplers, state_machines)}
    public = {
        f"{name}.{public}": getattr(package, public)
        for name, package in packages.items()
        for public in package.__all__
    }
    # What a package passes on is described once. Some names of submodules are described, too.
    objects = [public[name] for name in described if name in public]
    assert [name for name, value in public.items() if not any(value is o for o in objects)] == []


def names_in(source: Path) -> set[str]:
    """Return the names that a module defines or imports."""
    names = set()
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.With):
            # Imports of packages that may be missing.
            imports = (one for one in ast.walk(node) if isinstance(one, ast.ImportFrom))
            names |= {alias.name for one in imports for alias in one.names}
    return names


def test_described_names_exist() -> None:
    for path in (DOCS / "reference").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", markdown(path), re.MULTILINE):
            module, _, attribute = name.rpartition(".")
            place = ROOT / module.replace(".", "/")
            sources = [place.with_suffix(".py")]
            if place.parent.name == "integrations":
                sources.append(place / "__init__.pyi")
            source = next(filter(Path.exists, sources), None)
            if source is not None:
                # A module of an integration: importing it takes its extra, and seconds.
                assert attribute in names_in(source), name
            else:
                assert hasattr(__import__(module, fromlist=[attribute]), attribute), name


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no Chromium here")
def test_search_runs_in_pages_from_files(tmp_path: Path) -> None:
    script = (DOCS / "javascripts" / "iframe-worker.js").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(f"<body></body><script>{script}</script>")
    (tmp_path / "words.js").write_text("words = {mask: 3}")
    (tmp_path / "worker.js").write_text(
        "importScripts('words.js').then(() =>"
        " addEventListener('message', (event) => postMessage(words[event.data])));"
    )
    with browsing() as browser:
        browser.open(f"{tmp_path.as_uri()}/page.html")
        browser.run(
            "const worker = new Worker('worker.js');"
            "worker.addEventListener('message', (event) => { window.found = event.data; });"
            "window.search = () => worker.postMessage('mask');"
        )
        assert browser.wait_for("search(); return window.found") == 3
