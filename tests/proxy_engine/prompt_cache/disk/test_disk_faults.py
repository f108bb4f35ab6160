"""Faults of files and of the file system fail no request."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cached_models import VOCABULARY, ask, cold, is_close, model_of

from proxy_engine.prompt_cache import CacheOptions
from proxy_engine.prompt_cache.disk import files as disk_files
from proxy_engine.prompt_cache.disk.disk_cache import BLOCK_TOKENS
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

PROMPT = [
    int(token) for token in np.random.default_rng(0).integers(0, VOCABULARY, 3 * BLOCK_TOKENS + 5)
]
MODEL = model_of("plain")


@pytest.fixture
def open_caches(tmp_path: Path) -> Iterator[Callable[[], PromptCaches]]:
    opened: list[PromptCaches] = []

    def open_one() -> PromptCaches:
        opened.append(PromptCaches(MODEL, CacheOptions(directory=tmp_path / "caches")))
        return opened[-1]

    yield open_one
    for caches in opened:
        disk = caches.open_disk()
        assert disk is not None
        disk.close()


def write(caches: PromptCaches) -> None:
    for _ in range(2):
        ask(caches, MODEL, PROMPT)
    disk = caches.open_disk()
    assert disk is not None
    assert disk.wait(30)


def blocks(tmp_path: Path) -> list[Path]:
    """The files, from the first block to the last."""
    return sorted(
        tmp_path.rglob("*.safetensors"), key=lambda path: int(path.name[1:].partition("-")[0])
    )


def check_answer(caches: PromptCaches, cached_tokens: int) -> None:
    cached, logits, _ = ask(caches, MODEL, PROMPT)
    assert cached == cached_tokens
    assert is_close(logits, cold(MODEL, PROMPT))


def test_damaged_file_is_removed(
    open_caches: Callable[[], PromptCaches], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(open_caches())
    first, second, third = blocks(tmp_path)
    whole = second.read_bytes()
    # Bits of any place are changed in the tests of saved caches, which have the same format.
    for damaged in (whole[:-1], bytes(len(whole)), first.read_bytes()):
        caplog.clear()
        second.write_bytes(damaged)
        with caplog.at_level(logging.WARNING, "proxy_engine"):
            for _ in range(2):
                assert open_caches().fetch(PROMPT).cached_tokens == BLOCK_TOKENS
        (record,) = caplog.records
        assert record.getMessage().startswith(f"removed a damaged prompt cache, {second}: ")
        assert blocks(tmp_path) == [first, third]
    check_answer(open_caches(), BLOCK_TOKENS)
    write(open_caches())
    assert blocks(tmp_path) == [first, second, third]
    check_answer(open_caches(), 3 * BLOCK_TOKENS)


def test_file_may_vanish_while_it_is_read(
    open_caches: Callable[[], PromptCaches], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(open_caches())
    _, second, _ = blocks(tmp_path)
    read = disk_files.DiskFiles.read

    def vanishing(files: Any, name: str) -> bytearray | None:
        second.unlink(missing_ok=True)
        return read(files, name)

    monkeypatch.setattr(disk_files.DiskFiles, "read", vanishing)
    check_answer(open_caches(), BLOCK_TOKENS)


def test_directory_may_vanish(open_caches: Callable[[], PromptCaches], tmp_path: Path) -> None:
    caches = open_caches()
    write(caches)
    for path in sorted((tmp_path / "caches").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (tmp_path / "caches").rmdir()
    check_answer(caches, len(PROMPT) - 1)
    write(open_caches())
    check_answer(open_caches(), 3 * BLOCK_TOKENS)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_failed_write_is_logged_once_and_ends_writing(
    number: int,
    open_caches: Callable[[], PromptCaches],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    caches = open_caches()
    with caplog.at_level(logging.WARNING, "proxy_engine"), monkeypatch.context() as patched:
        patched.setattr(disk_files.os, "replace", full)
        for _ in range(3):
            write(caches)
    assert len(caplog.records) == 1
    assert os.strerror(number) in caplog.records[0].getMessage()
    assert [path for path in (tmp_path / "caches").rglob("*") if path.suffix] == []
    check_answer(caches, len(PROMPT) - 1)
    write(open_caches())
    assert len(blocks(tmp_path)) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_read_only_directory_is_read(
    open_caches: Callable[[], PromptCaches], tmp_path: Path
) -> None:
    write(open_caches())
    directories = [path for path in (tmp_path / "caches").rglob("*") if path.is_dir()]
    for path in (*directories, tmp_path / "caches"):
        path.chmod(0o500)
    check_answer(open_caches(), 3 * BLOCK_TOKENS)


@pytest.mark.parametrize("name", ["caches", "caches/" + "?" * 32])
def test_directory_that_becomes_writable_by_others_is_not_written(
    name: str,
    open_caches: Callable[[], PromptCaches],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caches, other = open_caches(), open_caches()
    write(caches)
    for path in blocks(tmp_path):
        path.unlink()
    next(tmp_path.glob(name)).chmod(0o777)
    with caplog.at_level(logging.WARNING, "proxy_engine"):
        write(other)
    assert "mode is 777" in caplog.text
    assert blocks(tmp_path) == []


def test_file_of_another_user_is_not_read(
    open_caches: Callable[[], PromptCaches], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(open_caches())
    if os.geteuid() == 0:
        for path in blocks(tmp_path):
            os.chown(path, 12_345, -1)
    else:
        monkeypatch.setattr(disk_files.os, "geteuid", lambda: 12_345)
    check_answer(open_caches(), 0)


def test_file_in_place_of_the_directory_ends_writing(
    open_caches: Callable[[], PromptCaches], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "caches").write_text("notes")
    caches = open_caches()
    with caplog.at_level(logging.WARNING, "proxy_engine"):
        write(caches)
        check_answer(caches, len(PROMPT) - 1)
    assert len(caplog.records) == 1
    caches.clear()
    assert (tmp_path / "caches").read_text() == "notes"


def test_writer_that_is_killed_harms_no_other_process(
    open_caches: Callable[[], PromptCaches], tmp_path: Path
) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from proxy_engine.prompt_cache.disk import files as disk_files
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
files = disk_files.DiskFiles(Path(sys.argv[1]), "a" * 32, 10**9)
locks = files._locked()
locks.__enter__()
files.write("b128-" + "c" * 64, [b"x" * 1000])
"""
    ended = subprocess.run([sys.executable, "-c", program, tmp_path / "caches"], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "caches").rglob("*.partial-*"))) == 1
    write(open_caches())
    check_answer(open_caches(), 3 * BLOCK_TOKENS)
