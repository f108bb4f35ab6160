"""Whether models fit into memory, with memory and a clock that the tests control."""

from __future__ import annotations

from types import SimpleNamespace

import mlx.core as mx
import psutil
import pytest

from proxy_engine.server import load_checks
from proxy_engine.server.errors import ApiError
from proxy_engine.server.load_checks import MemoryGate, available_bytes, total_bytes, used_bytes
from proxy_engine.server.models import KnownModel

MODEL = KnownModel("a", "a", weights_bytes=1000)
NEEDED = 1100


class Memory:
    """Memory of which ``room`` grows by ``freed`` when the clock reads ``at``."""

    def __init__(self, room: int, freed: int = 0, at: float = 0.0) -> None:
        self.room, self.freed, self.at = room, freed, at
        self.now = 100.0

    def available(self, limit: int | None) -> int:
        return self.room + (self.freed if self.now >= self.at else 0)

    async def pause(self, seconds: float) -> None:
        self.now += seconds

    def gate(self) -> MemoryGate:
        return MemoryGate(available=self.available, clock=lambda: self.now, pause=self.pause)


async def test_model_that_does_not_fit_is_refused_ten_seconds_after_a_release() -> None:
    state = Memory(100)
    gate = state.gate()
    await gate.release()
    with pytest.raises(ApiError) as caught:
        await gate.wait(MODEL)
    assert 110.0 <= state.now < 111.0
    assert caught.value.status == 507
    assert caught.value.facts == {"needed_bytes": NEEDED, "available_bytes": 100}


async def test_model_that_does_not_fit_is_refused_at_once_without_a_release() -> None:
    state = Memory(100, freed=NEEDED, at=101.0)
    with pytest.raises(ApiError):
        await state.gate().wait(MODEL)
    assert state.now == 100.0
    await state.gate().wait(MODEL, freed=NEEDED - 100)


def test_memory_of_other_programs_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(available=5000, total=9000)
    )
    cached = mx.get_cache_memory()
    monkeypatch.setattr(load_checks, "_device_bytes", lambda: None)
    assert available_bytes() == 5000 + cached
    assert total_bytes() == 9000
    # A device that shares the computer's memory, and one with its own.
    for device, shares, expected in (
        (used_bytes() + 100, True, 100),
        (used_bytes() + 6000, True, 5000 + cached),
        (used_bytes() + 6000, False, 6000),
    ):
        monkeypatch.setattr(load_checks, "_device_bytes", lambda device=device: device)
        monkeypatch.setattr(mx.metal, "is_available", lambda shares=shares: shares)
        assert available_bytes() == expected
        assert total_bytes() == device
    assert available_bytes(used_bytes() + 10) == 10
