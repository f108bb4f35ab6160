"""Where the compiled form of a source is found, and how it is built."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from state_machines import compiled_library
from state_machines.compiled_library import compile_library, compiled_libraries

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source in a checkout that has not been built, with no installation and an empty cache."""
    checkout = tmp_path / "checkout"
    source = checkout / "package" / "walk.c"
    source.parent.mkdir(parents=True)
    source.write_text("int version = 1;\n")
    monkeypatch.setattr(compiled_library, "ROOT", checkout)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "cache"))
    return source


def install(site: Path, text: str) -> Path:
    """Write an installed distribution with a source and its library."""
    directory = site / "proxy_engine-1.0.dist-info"
    directory.mkdir(parents=True)
    (directory / "METADATA").write_text("Metadata-Version: 2.1\nName: proxy-engine\nVersion: 1.0\n")
    library = site / "package" / "walk.so"
    library.parent.mkdir()
    library.with_suffix(".c").write_text(text)
    library.write_bytes(b"library")
    return library


def test_library_beside_the_source_comes_first(source: Path, tmp_path: Path) -> None:
    installed = install(tmp_path / "site", source.read_text())
    beside = source.with_suffix(".so")
    beside.write_bytes(b"library")
    assert list(compiled_libraries(source))[:2] == [beside, installed]


def test_library_of_an_installation_needs_the_same_source(source: Path, tmp_path: Path) -> None:
    library = install(tmp_path / "site", source.read_text())
    assert next(compiled_libraries(source)) == library
    library.with_suffix(".c").write_text("int version = 2;\n")
    assert library not in list(compiled_libraries(source))


@needs_compiler
def test_library_is_compiled_once_into_the_cache(source: Path, tmp_path: Path) -> None:
    (library,) = compiled_libraries(source)
    assert library.is_relative_to(tmp_path / "cache")
    first = library.stat()
    assert list(compiled_libraries(source)) == [library]
    assert library.stat() == first
    assert list(library.parent.iterdir()) == [library]
    source.write_text("int version = 2;\n")
    (other,) = compiled_libraries(source)
    assert other != library
    assert list(source.parent.iterdir()) == [source]


def test_without_a_compiler_or_a_home_there_is_no_library(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert list(compiled_libraries(source)) == []
    monkeypatch.delenv("CC")
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROXY_ENGINE_CACHE", str(tmp_path / "file" / "cache"))
    assert list(compiled_libraries(source)) == []


def test_failed_compilation_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("this is no C")
    assert not compile_library(broken, tmp_path / "broken.so")
    assert list(tmp_path.iterdir()) == [broken]


def test_cc_is_the_only_compiler_that_is_tried(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel for another platform must not contain a library for this one."""
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not compile_library(source, source.with_suffix(".so"))
