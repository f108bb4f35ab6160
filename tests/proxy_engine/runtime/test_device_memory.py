"""The wired limit while models run, on a simulated device."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from cached_models import model_of

from proxy_engine import InferenceEngine
from proxy_engine.runtime import device_memory as module
from proxy_engine.runtime.device_memory import clear_cache, model_bytes, wired_memory

RECOMMENDED = 1000


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of the device: limits, and ``"waited"``."""
    made: list[Any] = []
    limit = [7]

    def set_wired_limit(size: int) -> int:
        made.append(size)
        before, limit[0] = limit[0], size
        return before

    device = SimpleNamespace(
        array=mx.array,
        device_info=lambda: {"max_recommended_working_set_size": RECOMMENDED},
        set_wired_limit=set_wired_limit,
        synchronize=lambda: made.append("waited"),
    )
    monkeypatch.setitem(wired_memory.__wrapped__.__globals__, "mx", device)  # type: ignore[attr-defined]
    # Engines may set it for the whole process.
    monkeypatch.setattr(module, "_unwired", threading.Event())
    return made


def test_limit_is_restored_after_the_work_is_done(calls: list[Any]) -> None:
    run = wired_memory(10)
    run.__enter__()
    assert calls == [RECOMMENDED]
    assert not run.__exit__(ValueError, ValueError("the run fails"), None)
    assert calls == [RECOMMENDED, "waited", 7]


def test_last_of_several_runs_restores_the_limit(calls: list[Any]) -> None:
    first, second = wired_memory(10), wired_memory(20)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert calls == [RECOMMENDED, "waited"]
    second.__exit__(None, None, None)
    assert calls == [RECOMMENDED, "waited", "waited", 7]


def test_limit_is_left_alone_in_processes_that_do_not_wire_memory(
    calls: list[Any],
) -> None:
    module.leave_unwired()
    with wired_memory(10):
        pass
    assert calls == []


def test_variable_leaves_memory_unwired() -> None:
    program = """
import importlib, os
from proxy_engine.runtime import device_memory as module
for value in ("0", "False", "1"):
    os.environ["PROXY_ENGINE_WIRED_MEMORY"] = value
    print(importlib.reload(module)._unwired.is_set())
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["True", "True", "False"]


@pytest.mark.parametrize("is_wired", [True, False])
def test_engines_leave_memory_unwired(
    tiny_model: Any, tiny_tokenizer: Any, calls: list[Any], *, is_wired: bool
) -> None:
    with (
        InferenceEngine(tiny_model, tiny_tokenizer, wired_memory=is_wired),
        wired_memory(10),
    ):
        pass
    assert bool(calls) is is_wired


def test_large_model_is_warned_about_once_and_not_on_stdout(
    calls: list[Any], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with wired_memory(950):
                pass
    assert len(caplog.records) == 1
    assert capsys.readouterr().out == ""


def test_device_without_recommendation_is_left_alone(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy_engine.runtime.device_memory.mx.device_info", dict)
    with wired_memory(10):
        pass
    assert calls == []


def test_model_bytes_counts_all_weights() -> None:
    assert model_bytes(model_of("plain")) > 64 * 64 * 4


def test_other_threads_run_while_the_cache_is_cleared() -> None:
    waiting, ticks = threading.Event(), 0

    def tick() -> None:
        nonlocal ticks
        while not waiting.wait(0.001):
            ticks += 1

    matrix = mx.ones((800, 800))
    product = matrix
    for _ in range(8):
        product = product @ matrix
    thread = threading.Thread(target=tick)
    thread.start()
    mx.async_eval(product)
    ticks = 0
    clear_cache()
    during = ticks
    waiting.set()
    thread.join()
    assert during
