"""Garbage collection in the engine's own processes: when it runs, and what it leaves out."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy_engine import garbage

PROGRAM = """
import gc, weakref
from proxy_engine import garbage

class Cycle:
    pass

def cycle():
    made = Cycle()
    made.own = made
    return made

before = gc.get_threshold()
garbage.freeze(), garbage.collect()
print("untouched", gc.get_threshold() == before, gc.get_freeze_count())
garbage.take_over()
made = cycle()
seen = weakref.ref(made)
garbage.freeze()
print("frozen", gc.get_freeze_count() > 1000)
del made
gc.collect()
print("kept", seen() is not None)
garbage.collect()
print("dropped", seen() is None, gc.get_freeze_count())
"""


def test_only_a_command_changes_the_collector_and_replaced_models_are_freed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert result.stdout.splitlines() == [
        "untouched True 0",
        "frozen True",
        "kept True",
        "dropped True 0",
    ]


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Full collections so far, of those that are due."""
    found: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "stop" and facts["generation"] == 2:
            found.append(facts["collected"])

    monkeypatch.setattr(garbage, "_SECONDS_BETWEEN_LOOKS", 0.001)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_full_collections_wait_until_no_request_runs(collections: list[int]) -> None:
    running = ["a request"]

    async def work() -> None:
        task = asyncio.create_task(garbage.collect_when_idle(lambda: not running))
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


def test_nothing_is_collected_where_nothing_was_made(collections: list[int]) -> None:
    gc.collect()
    del collections[:]
    assert not garbage.collect_if_due()
    assert not collections
    gc.collect(1)
    assert garbage.collect_if_due()
    assert len(collections) == 1
