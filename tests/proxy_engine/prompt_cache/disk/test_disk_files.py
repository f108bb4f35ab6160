"""A shared directory of files is a bounded map from names to contents."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy_engine.prompt_cache.disk import files as disk_files
from proxy_engine.prompt_cache.disk.disk_cache import ReadCost
from proxy_engine.prompt_cache.disk.files import DiskFiles

MODEL, OTHER = "a" * 32, "b" * 32
MAX_BYTES = 1000


def name(number: int, length: int = 128) -> str:
    return f"b{length}-{hashlib.sha256(bytes([number])).hexdigest()}"


def content(number: int, size: int) -> bytes:
    return bytes([number]) * size


def size_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.glob("*/*"))


class SharedDirectory(RuleBasedStateMachine):
    """Three stores of two models on one directory, as in three processes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name) / "caches"
        self.stores = [DiskFiles(self.root, one, MAX_BYTES) for one in (MODEL, MODEL, OTHER)]
        self.written: dict[tuple[str, str], bytes] = {}

    def teardown(self) -> None:
        self.folder.cleanup()

    stores_by_index = st.integers(0, 2)
    numbers = st.integers(0, 5)

    @rule(index=stores_by_index, number=numbers)
    def write(self, index: int, number: int) -> None:
        store, size = self.stores[index], 60 * (number + 1)
        before = store.exists(name(number))
        assert store.write(name(number), [content(number, size)])
        assert store.exists(name(number))
        key = (store.directory.name, name(number))
        assert not before or key in self.written
        self.written[key] = content(number, size)

    @rule(index=stores_by_index, number=numbers)
    def read(self, index: int, number: int) -> None:
        store = self.stores[index]
        found = store.read(name(number))
        assert (found is None) == (name(number) not in store.names())
        if found is not None:
            assert found == self.written[store.directory.name, name(number)]

    @rule(index=stores_by_index, number=numbers)
    def touch(self, index: int, number: int) -> None:
        self.stores[index].touch([name(number)])

    @rule(index=stores_by_index, number=numbers)
    def remove(self, index: int, number: int) -> None:
        self.stores[index].remove(name(number))
        assert self.stores[index].read(name(number)) is None

    @rule(index=stores_by_index)
    def clear(self, index: int) -> None:
        self.stores[index].clear()
        assert self.stores[index].names() == frozenset()

    @rule(index=stores_by_index)
    def write_too_much(self, index: int) -> None:
        store = self.stores[index]
        assert not store.write(name(9), [bytes(MAX_BYTES + 1)])
        assert not store.exists(name(9))

    @rule(text=st.sampled_from(["", "x", "-1000000000"]))
    def damage_the_total(self, text: str) -> None:
        if self.root.exists():
            (self.root / ".size").write_text(text)

    @invariant()
    def bound_is_kept(self) -> None:
        assert size_of(self.root) <= MAX_BYTES


TestSharedDirectory = SharedDirectory.TestCase
TestSharedDirectory.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)


@pytest.fixture
def store(tmp_path: Path) -> DiskFiles:
    return DiskFiles(tmp_path, MODEL, MAX_BYTES)


def test_least_recently_used_files_of_all_models_are_evicted(tmp_path: Path) -> None:
    stores = [DiskFiles(tmp_path, one, MAX_BYTES) for one in (MODEL, OTHER)]
    for number in range(6):
        store = stores[number % 2]
        assert store.write(name(number), [bytes(150)])
        os.utime(store.path(name(number)), (number, number))
    stores[0].touch([name(0)])
    assert stores[0].write(name(6), [bytes(150)])
    kept = [number for number in range(7) if stores[number % 2].exists(name(number))]
    assert kept == [0, 2, 3, 4, 5, 6]


def test_longer_prefixes_are_evicted_first(store: DiskFiles) -> None:
    names = [name(number, 128 * (number + 1)) for number in range(6)]
    for one in names:
        assert store.write(one, [bytes(160)])
    store.touch(names)
    assert store.write(name(7), [bytes(160)])
    assert [store.exists(one) for one in names] == [True] * 5 + [False]


def test_foreign_files_are_left_alone(store: DiskFiles, tmp_path: Path) -> None:
    foreign = [
        tmp_path / "notes.txt",
        tmp_path / MODEL / "model.safetensors",
        tmp_path / MODEL / f"{name(0)}.bak",
        tmp_path / "other" / f"{name(0)}.safetensors",
    ]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(900))
    for number in range(20):
        assert store.write(name(number), [bytes(300)])
    store.clear()
    assert all(path.stat().st_size == 900 for path in foreign)
    assert store.names() == {"model"}


def test_abandoned_temporary_files_are_removed(store: DiskFiles) -> None:
    assert store.write(name(0), [bytes(10)])
    abandoned = store.directory / f".{name(1)}.safetensors.partial-x"
    running = store.directory / f".{name(2)}.safetensors.partial-y"
    for path in (abandoned, running):
        path.write_bytes(bytes(300))
    os.utime(abandoned, (0, 0))
    for number in range(3, 11):
        assert store.write(name(number), [bytes(150)])
    assert not abandoned.exists()
    assert running.exists()


def test_lock_of_another_process_delays_writing_only(
    store: DiskFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.write(name(0), [b"x"])
    monkeypatch.setattr(disk_files, "_LOCK_SECONDS", 0.05)
    impatient = DiskFiles(tmp_path, MODEL, MAX_BYTES)
    with FileLock(tmp_path / ".lock"):
        assert not impatient.write(name(1), [b"x"])
        assert impatient.read(name(0)) == b"x"
    assert impatient.write(name(1), [b"x"])


def test_cleared_files_are_not_written_by_a_running_write(store: DiskFiles) -> None:
    class Clearing(bytes):
        """Clears the files while it is written."""

        def __len__(self) -> int:
            store.clear()
            return super().__len__()

    assert not store.write(name(0), [Clearing(b"x")])
    assert store.names() == frozenset()
    assert list(store.directory.iterdir()) == []


def test_concurrent_writers_of_one_name_leave_one_complete_file(tmp_path: Path) -> None:
    stores = [DiskFiles(tmp_path, MODEL, MAX_BYTES) for _ in range(4)]
    threads = [
        threading.Thread(target=store.write, args=(name(0), [content(0, 100)])) for store in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].read(name(0)) == content(0, 100)
    assert size_of(tmp_path) == 100
    assert (tmp_path / ".size").read_text() == "100"


# Caches are read if that is faster than processing.


def test_unknown_costs_permit_reading() -> None:
    cost = ReadCost()
    assert cost.is_worthwhile(10**9, 1)
    cost.observe_read(1000, 1.0)
    assert cost.is_worthwhile(10**9, 1)


def test_cheaper_way_is_chosen() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 1.0)
    cost.observe_prefill(100, 1.0)
    assert cost.is_worthwhile(1000, 100)
    assert not cost.is_worthwhile(1000, 90)


def test_slow_read_is_tried_again() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 10.0)
    cost.observe_prefill(100, 1.0)
    tries = [cost.is_worthwhile(1000, 100) for _ in range(50)]
    assert not tries[0]
    assert tries[-1]


def test_short_passes_are_not_measured() -> None:
    cost = ReadCost()
    cost.observe_read(1000, 10.0)
    cost.observe_prefill(1, 0.001)
    assert cost.is_worthwhile(10**6, 1)
