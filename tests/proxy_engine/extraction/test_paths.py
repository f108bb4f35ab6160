"""Inputs and outputs by URL."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import fsspec
import pyarrow
import pyarrow.parquet
import pydantic
import pytest

from proxy_engine import (
    InferenceEngine,
    InvalidOptionError,
    OutputFileError,
    OutputFileRefusedError,
)
from proxy_engine.extraction import paths


class Pet(pydantic.BaseModel):
    kind: Literal["cat", "dog"]


OPTIONS: dict[str, Any] = {"max_tokens": 60, "temperature": 0.0, "progress": False}
RECORDS = [{"id": number, "text": f"text {number}"} for number in range(6)]


@pytest.fixture
def memory() -> Iterator[Any]:
    """An object store in memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def names(memory: Any) -> set[str]:
    return {name.removeprefix("/b/") for name in memory.find("/b")}


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_rows_of_an_interrupted_run_are_parts_until_the_last_one(
    tiny_engine: InferenceEngine,
    memory: Any,
    tmp_path: Path,
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = tmp_path / f"out.{suffix}"
    tiny_engine.extract(RECORDS, Pet, output=local, **OPTIONS)
    # A part is due with each row.
    monkeypatch.setattr(paths, "_SECONDS_BETWEEN_PARTS", 0)
    url = f"memory://b/out.{suffix}"
    for done in (2, 4):
        with tiny_engine.iter_extract(
            RECORDS, Pet, output=url, resume=done > 2, **OPTIONS
        ) as stream:
            records = [next(stream) for _ in range(done)]
        assert [record.usage is None for record in records] == [
            done > 2 and number < 2 for number in range(done)
        ]
        assert names(memory)
        assert all(name.startswith(f"out.{suffix}.parts/") for name in names(memory))
        with pytest.raises(OutputFileRefusedError, match="already exists"):
            tiny_engine.extract(RECORDS, Pet, output=url, **OPTIONS)
    resumed = tiny_engine.extract(RECORDS, Pet, output=url, resume=True, **OPTIONS)
    assert [record.usage is None for record in resumed] == [True] * 4 + [False] * 2
    assert names(memory) == {f"out.{suffix}", f"out.{suffix}.manifest"}
    assert memory.cat_file(f"/b/out.{suffix}") == local.read_bytes()
    again = tiny_engine.extract(RECORDS, Pet, output=url, resume=True, **OPTIONS)
    assert again.values == resumed.values
    replaced = tiny_engine.extract(RECORDS[:3], Pet, output=url, overwrite=True, **OPTIONS)
    assert len(replaced) == 3
    assert memory.cat_file(f"/b/out.{suffix}") != local.read_bytes()
    assert names(memory) == {f"out.{suffix}", f"out.{suffix}.manifest"}


def test_parts_of_a_killed_run_are_put_together(
    tiny_engine: InferenceEngine, memory: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The last part of the rows has no manifest, as if the process was killed between them."""
    monkeypatch.setattr(paths, "_SECONDS_BETWEEN_PARTS", 0)
    with tiny_engine.iter_extract(RECORDS, Pet, output="memory://b/o.csv", **OPTIONS) as stream:
        for _ in range(4):
            next(stream)
    manifests = sorted(name for name in memory.find("/b") if "manifest-" in name)
    for name in manifests[-2:]:
        memory.rm_file(name)
    # A part behind a gap does not count.
    memory.pipe_file("/b/o.csv.parts/rows-0000000000009999", b"x")
    tiny_engine.extract(RECORDS, Pet, output="memory://b/o.csv", resume=True, **OPTIONS)
    tiny_engine.extract(RECORDS, Pet, output=tmp_path / "o.csv", **OPTIONS)
    assert memory.cat_file("/b/o.csv") == (tmp_path / "o.csv").read_bytes()


def test_storage_that_fails_ends_the_run_with_its_rows(
    tiny_engine: InferenceEngine, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_SECONDS_BETWEEN_PARTS", 0)
    write, count = type(memory).pipe_file, 0

    def failing(*arguments: Any, **options: Any) -> None:
        nonlocal count
        count += 1
        if count in (4, 5, 6):
            raise PermissionError("denied")
        write(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "pipe_file", failing)
        with pytest.raises(OutputFileError, match=r"cannot write 'memory://b/o\.jsonl': denied"):
            tiny_engine.extract(RECORDS, Pet, output="memory://b/o.jsonl", **OPTIONS)
    results = tiny_engine.extract(RECORDS, Pet, output="memory://b/o.jsonl", resume=True, **OPTIONS)
    assert 0 < sum(record.usage is None for record in results) < len(RECORDS)
    rows = memory.cat_file("/b/o.jsonl").splitlines()
    assert [json.loads(row)["id"] for row in rows] == [0, 1, 2, 3, 4, 5]


def test_file_urls_are_local(tiny_engine: InferenceEngine, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/o.jsonl"
    with tiny_engine.iter_extract(RECORDS, Pet, output=url, **OPTIONS) as stream:
        next(stream)
    results = tiny_engine.extract(RECORDS, Pet, output=url, resume=True, **OPTIONS)
    assert results[0].usage is None
    assert {path.name for path in tmp_path.iterdir()} == {"o.jsonl", "o.jsonl.manifest"}


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet"])
@pytest.mark.parametrize("scheme", ["memory", "http", "path"])
def test_tables_are_read_from_urls_and_paths(
    tiny_engine: InferenceEngine, memory: Any, tmp_path: Path, name: str, scheme: str
) -> None:
    table = pyarrow.Table.from_pylist(RECORDS)
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    lines = "".join(json.dumps(record) + "\n" for record in RECORDS)
    (tmp_path / "in.jsonl").write_text(lines)
    table.to_pandas().to_csv(tmp_path / "in.csv", index=False)
    if scheme == "path":
        results = tiny_engine.extract(tmp_path / name, Pet, **OPTIONS)
    elif scheme == "memory":
        memory.pipe_file(f"/b/{name}", (tmp_path / name).read_bytes())
        results = tiny_engine.extract(f"memory://b/{name}", Pet, **OPTIONS)
    else:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            root = f"http://127.0.0.1:{server.server_port}"
            results = tiny_engine.extract(f"{root}/{name}?version=2", Pet, **OPTIONS)
            with pytest.raises(InvalidOptionError, match="no such file"):
                tiny_engine.extract(f"{root}/absent.csv", Pet, **OPTIONS)
            server.shutdown()
    assert results.errors == {}
    assert [str(value) for value in results.to_pandas()["id"]] == list("012345")


def test_files_of_a_remote_directory_are_records(tiny_engine: InferenceEngine, memory: Any) -> None:
    for name in ("b.txt", "a.txt", "more/c.txt", ".hidden"):
        memory.pipe_file(f"/b/texts/{name}", b"a text")
    results = tiny_engine.extract("memory://b/texts", Pet, **OPTIONS)
    assert list(results.to_pandas()["file"]) == [
        f"memory://b/texts/{name}" for name in ("a.txt", "b.txt", "more/c.txt")
    ]


def test_text_that_is_no_url_is_no_file(tiny_engine: InferenceEngine) -> None:
    with pytest.raises(InvalidOptionError, match=r"for a file, and .* for a text"):
        tiny_engine.extract("one text", Pet, **OPTIONS)
    with pytest.raises(InvalidOptionError, match=r"cannot read '/nowhere/x\.csv'"):
        tiny_engine.extract(Path("/nowhere/x.csv"), Pet, **OPTIONS)
