"""Engines in forked processes: every call raises, and none waits for a missing thread."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy_engine import EngineForkedError, InferenceEngine
from proxy_engine.runtime.worker import Worker

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")

LONG: Any = {"max_tokens": 300, "min_tokens": 300}
SECONDS = 30


def exit_status(check: Callable[[], object]) -> int:
    """Run ``check`` in a forked child: 0 if it returns, negative if it is killed by the alarm."""
    with warnings.catch_warnings():
        # Newer Pythons warn of forks in processes with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            check()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_refused(call: Callable[[], object]) -> bool:
    """Whether a call raises ``EngineForkedError`` in a forked child, and does not hang."""

    def check() -> None:
        with pytest.raises(EngineForkedError, match="spawn"):
            call()

    return exit_status(check) == 0


@pytest.fixture
def busy(engine: InferenceEngine) -> Iterator[InferenceEngine]:
    """An engine that generates while the process is forked, so that its locks may be held."""
    with engine.stream("busy", max_tokens=500, min_tokens=500) as stream:
        next(stream)
        yield engine


def test_calls_raise_in_a_forked_child(busy: InferenceEngine) -> None:
    async def call() -> None:
        await busy.agenerate("x")

    async def astream() -> None:
        async for _ in await busy.astream("x"):
            pass

    assert is_refused(lambda: busy.generate("x"))
    assert is_refused(lambda: busy.stream("x"))
    assert is_refused(lambda: busy.generate_batch(["x"]))
    assert is_refused(lambda: asyncio.run(call()))
    assert is_refused(lambda: asyncio.run(astream()))
    assert is_refused(lambda: busy.run_tools("x", []))
    assert is_refused(lambda: busy.save_prompt_cache("x.safetensors", "x"))
    assert is_refused(lambda: busy.load_prompt_cache("x.safetensors"))


def test_streams_of_the_parent_raise_in_a_forked_child(engine: InferenceEngine) -> None:
    begun, other = engine.stream("a", **LONG), engine.stream("b", **LONG)
    next(begun)
    batch = engine.iter_batch(["c", "d"], ordered=False, **LONG)
    assert is_refused(lambda: list(begun))
    assert is_refused(lambda: next(other))
    assert is_refused(lambda: next(batch))
    items = engine.iter_batch(["e", "f"], max_tokens=3)
    next(items)
    assert is_refused(lambda: next(items))
    begun.close()


def test_new_engine_raises_in_a_forked_child(tiny_model: Any, tiny_tokenizer: Any) -> None:
    Worker().close()
    assert is_refused(lambda: InferenceEngine(tiny_model, tiny_tokenizer))


def test_engine_is_closed_and_collected_in_a_forked_child(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    engines = [InferenceEngine(tiny_model, tiny_tokenizer)]
    stream = engines[0].stream("busy", **LONG)
    next(stream)

    def close() -> None:
        engines[0].close()
        engines[0].close()

    def collect() -> None:
        finalizer = engines[0]._finalizer
        engines.clear()
        gc.collect()
        # As at the end of the process.
        finalizer()
        assert not finalizer.alive

    # Other garbage may hold arrays, and a lock of MLX may be held for ever in the child.
    gc.collect()
    assert exit_status(close) == 0
    assert exit_status(collect) == 0
    stream.close()
    assert len(engines[0].generate("x", max_tokens=4, min_tokens=4).token_ids) == 4
    engines[0].close()
