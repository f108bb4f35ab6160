"""Interpreter settings of the commands' processes, and their idle collections."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy_engine.runtime import process_runtime

PROGRAM = """
import gc, sys, weakref
from proxy_engine.runtime import process_runtime

class Cycle:
    pass

def cycle():
    made = Cycle()
    made.own = made
    return made

def settings():
    return gc.get_threshold(), sys.getswitchinterval()

before = settings()
process_runtime.freeze(), process_runtime.collect()
print("untouched", settings() == before, gc.get_freeze_count())
process_runtime.take_over()
print("changed", [now != then for now, then in zip(settings(), before)])
made = cycle()
seen = weakref.ref(made)
process_runtime.freeze()
print("frozen", gc.get_freeze_count() > 1000)
del made
gc.collect()
print("kept", seen() is not None)
process_runtime.collect()
print("dropped", seen() is None, gc.get_freeze_count())
"""


def test_process_settings_change_only_on_take_over_and_frozen_objects_are_freed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert result.stdout.splitlines() == [
        "untouched True 0",
        "changed [True, True]",
        "frozen True",
        "kept True",
        "dropped True 0",
    ]


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Return the list of full collections so far."""
    found: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "stop" and facts["generation"] == 2:
            found.append(facts["collected"])

    monkeypatch.setattr(process_runtime, "_POLL_SECONDS", 0.001)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_full_collections_wait_until_no_request_runs(collections: list[int]) -> None:
    running = ["a request"]

    async def work() -> None:
        task = asyncio.create_task(process_runtime.collect_when_idle(lambda: not running))
        gc.collect()
        gc.collect(1)
        del collections[:]
        await asyncio.sleep(0.02)
        assert not collections
        running.clear()
        while not collections:
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(work())


def test_collection_is_skipped_without_aged_objects(collections: list[int]) -> None:
    gc.collect()
    del collections[:]
    assert not process_runtime.collect_if_due()
    assert not collections
    gc.collect(1)
    assert process_runtime.collect_if_due()
    assert len(collections) == 1
