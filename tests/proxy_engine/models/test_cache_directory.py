"""The path of the cache directory, and building its entries atomically."""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import pytest

from proxy_engine.models.cache_directory import build_once, cache_directory


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
        context.Process(target=_build_slowly, args=(str(tmp_path / "target"),)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "builds").read_text() == "x"
