"""The model in memory, with engines that do nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable

import pytest
from fake_models import FakeEngine, host_of

from proxy_engine import (
    ModelFormatError,
)
from proxy_engine.server.admission import Lease
from proxy_engine.server.errors import ApiError
from proxy_engine.server.load_checks import MemoryGate
from proxy_engine.server.model_host import ModelHost
from proxy_engine.server.models import KnownModel, ModelChoice
from state_machines.errors import VocabularyError


@pytest.fixture(autouse=True)
def without_collecting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do nothing leave no garbage, whose collection takes most of the time."""
    for module in ("load_checks", "model_host"):
        monkeypatch.setattr(f"proxy_engine.server.{module}.release_unused", lambda: 0)


async def test_part_of_a_name_is_refused_with_similar_names() -> None:
    host = host_of("a/qwen-1", "a/qwen-2")
    with pytest.raises(ApiError, match=r"Did you mean 'a/qwen-1', or 'a/qwen-2'\?$") as error:
        async with host.lease(ModelChoice("qwen")):
            pass
    assert (error.value.status, error.value.code) == (404, "model_not_found")
    with pytest.raises(ApiError, match=r"'llama' not found$"):
        async with host.lease(ModelChoice("llama")):
            pass


async def test_model_in_memory_serves_suitable_requests() -> None:
    host = host_of("text", "speech", reads_audio={"speech"})
    async with host.lease(ModelChoice("speech", transcribes=True)) as lease:
        assert lease.model.name == "speech"
    async with host.lease(ModelChoice(None, transcribes=True)) as lease:
        assert lease.model.name == "speech"
    async with host.lease(ModelChoice(None)) as lease:
        assert lease.model.name == "text"
    async with host.lease(ModelChoice(None, transcribes=True)) as lease:
        assert lease.model.name == "speech"


async def test_draft_model_is_loaded_with_its_model() -> None:
    loaded: list[tuple[str, ...]] = []

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.key)
        return FakeEngine(model)

    host = host_of("a", "b", "small", load=load)

    async def key(name: str | None, draft: str | None = None) -> tuple[str, ...]:
        async with host.lease(ModelChoice(name, draft)) as lease:
            return lease.model.key

    assert await key("a") == ("a",)
    assert await key("a", "small") == ("a", "small")
    # Without a name, the draft model in memory stays.
    for name in ("a", None):
        assert await key(name) == ("a", "small")
    for name in ("a", None):
        assert await key(name, "default_model") == ("a", "small")
    assert await key(None, "b") == ("a", "b")
    assert await key("b") == ("b",)
    assert loaded == [("a",), ("a", "small"), ("a", "b"), ("b",)]
    for name in ("none", "", "/small"):
        with pytest.raises(ApiError) as caught:
            await key("a", name)
        assert (caught.value.status, caught.value.param) == (404, "draft_model")
    assert loaded[-1] == ("b",)


async def test_other_model_waits_for_running_requests() -> None:
    order: list[str] = []
    engines: list[FakeEngine] = []

    def load(model: KnownModel) -> FakeEngine:
        assert all(engine.is_closed for engine in engines)
        engines.append(FakeEngine(model))
        return engines[-1]

    async def use(host: ModelHost, name: str, label: str) -> None:
        async with host.lease(ModelChoice(name)) as lease:
            assert lease.model.name == name
            order.append(label)
            await asyncio.sleep(0.01)
            assert not engines[-1].is_closed

    host = host_of("a", "b", load=load)
    names = "aabba"
    await asyncio.wait_for(
        asyncio.gather(*(use(host, name, f"{name}{i}") for i, name in enumerate(names))), 10
    )
    assert order == [f"{name}{i}" for i, name in enumerate(names)]
    assert [engine.model.name for engine in engines] == ["a", "b", "a"]
    await host.close()
    assert engines[-1].is_closed


async def test_client_that_disconnects_during_loading_releases_its_lease() -> None:
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    def load(model: KnownModel) -> FakeEngine:
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        return FakeEngine(model)

    host = host_of("a", "b", load=load)

    async def use(name: str) -> None:
        async with host.lease(ModelChoice(name)):
            pass

    leaving = asyncio.create_task(use("a"))
    waiting = asyncio.create_task(use("b"))
    while not host.is_loading:
        await asyncio.sleep(0.001)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert leaving.cancelled()
    go_on.set()
    await asyncio.wait_for(waiting, 10)
    await asyncio.wait_for(use("a"), 10)


async def test_client_that_disconnects_while_waiting_loads_nothing() -> None:
    host = host_of("a", "b")

    async def use(name: str) -> None:
        async with host.lease(ModelChoice(name)):
            pass

    async with host.lease(ModelChoice("a")):
        leaving = asyncio.create_task(use("b"))
        await asyncio.sleep(0.01)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        late = asyncio.create_task(use("b"))
        await asyncio.sleep(0.01)
        host.is_draining = True
    with pytest.raises(ApiError, match="shutting down"):
        await asyncio.wait_for(late, 10)
    assert host.current is not None
    assert host.current.model.name == "a"
    await asyncio.wait_for(use("a"), 10)


async def test_engine_that_does_not_close_is_abandoned() -> None:
    ended = threading.Event()
    host = host_of("a")
    async with host.lease(ModelChoice("a")) as lease:
        lease.engine.close = lambda: ended.wait(10)  # type: ignore[assignment, method-assign]
    try:
        await asyncio.wait_for(host.close(patience=0.01), 5)
        assert host.current is None
    finally:
        ended.set()


async def test_failed_load_does_not_block_other_models() -> None:
    def load(model: KnownModel) -> FakeEngine:
        if model.name == "bad":
            raise ModelFormatError("broken", model="bad")
        if model.name == "worse":
            raise RuntimeError("secret")
        if model.name == "odd":
            raise VocabularyError("its tokens have no bytes")
        return FakeEngine(model)

    host = host_of("good", "bad", "worse", "odd", load=load)
    for name in ("bad", "worse", "odd"):
        with pytest.raises(ApiError) as caught:
            async with host.lease(ModelChoice(name)):
                pass
        assert "secret" not in str(caught.value)
        assert caught.value.status == 503
        async with host.lease(ModelChoice("good")) as lease:
            assert lease.model.name == "good"


async def test_previous_model_is_restored_after_a_failed_load() -> None:
    loaded: list[str] = []

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.name)
        if model.name == "bad":
            raise ModelFormatError("broken", model="bad")
        return FakeEngine(model)

    host = host_of("good", "bad", load=load)
    async with host.lease(ModelChoice("good")):
        pass
    with pytest.raises(ApiError):
        async with host.lease(ModelChoice("bad")):
            pass
    assert loaded == ["good", "bad", "good"]
    async with host.lease(ModelChoice("good")) as lease:
        assert not lease.engine.is_closed  # type: ignore[attr-defined]
    assert len(loaded) == 3


async def test_too_large_draft_model_is_refused() -> None:
    host = host_of("a", "small", size=90, available=lambda limit: 150)
    with pytest.raises(ApiError, match="'a' with draft model 'small' needs") as caught:
        async with host.lease(ModelChoice("a", "small")):
            pass
    assert (caught.value.status, caught.value.param) == (507, "draft_model")
    assert caught.value.facts["needed_bytes"] == 198
    async with host.lease(ModelChoice("a")) as lease:
        assert lease.model.key == ("a",)


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        (("a", None), ("a", None), ("a",)),
        # A request without a name, and one without a draft model.
        (("b", None), (None, None), ("b",)),
        (("a", "small"), ("a", None), ("a", "small")),
    ],
)
async def test_requests_wait_for_the_model_that_is_being_loaded(
    first: tuple[str | None, str | None],
    second: tuple[str | None, str | None],
    key: tuple[str, ...],
) -> None:
    loaded: list[tuple[str, ...]] = []
    free = [1000]

    go_on = threading.Event()

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.key)
        free[0] = 10
        go_on.wait(10)
        return FakeEngine(model)

    host = host_of("a", "b", "small", size=300, load=load, available=lambda limit: free[0])

    async def use(name: str | None, draft: str | None) -> tuple[str, ...]:
        async with host.lease(ModelChoice(name, draft)) as lease:
            return lease.model.key

    tasks = [asyncio.create_task(use(*first))]
    await until(lambda: bool(loaded))
    tasks.append(asyncio.create_task(use(*second)))
    await asyncio.sleep(0.01)
    go_on.set()
    assert await asyncio.wait_for(asyncio.gather(*tasks), 10) == [key] * 2
    assert loaded == [key]


async def until(condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(wait(), 10)


async def test_idle_model_is_unloaded_and_loaded_again_by_the_next_request() -> None:
    loaded: list[tuple[str, ...]] = []

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.key)
        return FakeEngine(model)

    host = host_of("a", "b", "small", load=load, idle_seconds=0.001)
    async with host.lease(ModelChoice("b", "small")) as lease:
        engine = lease.engine
    await until(lambda: engine.is_closed)  # type: ignore[attr-defined]
    assert host.current is None
    # A request without a name uses the same models as before.
    async with host.lease(ModelChoice(None)) as lease:
        assert lease.model.key == ("b", "small")
    await until(lambda: host.current is None)
    async with host.lease(ModelChoice("a")) as lease:
        assert lease.model.key == ("a",)
    assert loaded == [("b", "small"), ("b", "small"), ("a",)]


async def test_model_in_use_is_not_unloaded() -> None:
    host = host_of("a", "b", idle_seconds=0.001)
    async with host.lease(ModelChoice("a")), host.lease(ModelChoice("a")):
        await asyncio.sleep(0.01)
        await host.unload()
        assert host.current is not None
    host = host_of("a")
    async with host.lease(ModelChoice("a")):
        pass
    await asyncio.sleep(0.01)
    assert host.current is not None


async def test_model_without_any_request_is_unloaded() -> None:
    model = KnownModel("a", "a")
    host = host_of("a", current=Lease(model, FakeEngine(model)), idle_seconds=0.001)  # type: ignore[arg-type]
    host.start()
    await until(lambda: host.current is None)


async def test_memory_of_a_closed_model_is_waited_for() -> None:
    state = {"free": 100, "pauses": 0}

    async def pause(seconds: float) -> None:
        state["pauses"] += 1
        if state["pauses"] == 3:
            state["free"] = 100

    memory = MemoryGate(available=lambda limit: state["free"], clock=lambda: 0.0, pause=pause)
    host = host_of("a", "b", size=90, memory=memory)
    async with host.lease(ModelChoice("a")):
        state["free"] = 10
    async with host.lease(ModelChoice("b")) as lease:
        assert lease.model.name == "b"
    assert state["pauses"] == 3


async def test_memory_of_the_current_model_counts_as_available() -> None:
    free = [100]

    def load(model: KnownModel) -> FakeEngine:
        free[0] = 10
        return FakeEngine(model)

    host = host_of("a", "b", size=90, load=load, available=lambda limit: free[0])
    async with host.lease(ModelChoice("a")):
        pass
    # Closing the model frees what was used for it.
    current = host.current
    assert current is not None
    current.engine.close = lambda: free.insert(0, 100)  # type: ignore[method-assign]
    async with host.lease(ModelChoice("b")) as lease:
        assert lease.model.name == "b"


@pytest.mark.parametrize("seed", range(2))
async def test_engines_are_open_while_they_are_leased_and_one_at_a_time(seed: int) -> None:
    engines: list[FakeEngine] = []

    def load(model: KnownModel) -> FakeEngine:
        assert all(engine.is_closed for engine in engines)
        if model.name == "bad":
            raise ModelFormatError("broken", model="bad")
        engines.append(FakeEngine(model))
        return engines[-1]

    rng = random.Random(seed)
    host = host_of("a", "b", "bad", load=load, idle_seconds=0.001)

    async def use() -> None:
        await asyncio.sleep(rng.random() * 0.05)
        name = rng.choice(["a", "b", "bad", None])
        with contextlib.suppress(ApiError):
            async with host.lease(ModelChoice(name)) as lease:
                assert name in (None, lease.model.name)
                await asyncio.sleep(rng.random() * 0.004)
                assert not lease.engine.is_closed  # type: ignore[attr-defined]

    tasks = [asyncio.create_task(use()) for _ in range(60)]
    for task in rng.sample(tasks, 15):
        asyncio.get_running_loop().call_later(rng.random() * 0.06, task.cancel)
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    errors = [one for one in results if one is not None]
    assert all(isinstance(error, asyncio.CancelledError) for error in errors)
    await until(lambda: host.current is None and all(engine.is_closed for engine in engines))
    assert not host.is_loading
