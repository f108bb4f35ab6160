"""The model registry, and switching between models."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest
from live_server import make_settings, serving
from tiny_whisper import write_tiny_whisper

from proxy_engine import (
    DraftModelError,
    ModelFormatError,
    ModelNotFoundError,
    SpeculationOptions,
)
from proxy_engine.models.checking import FileProblem
from proxy_engine.server.app import create_app, load_engine, registry_of
from proxy_engine.server.errors import ApiError
from proxy_engine.server.known_models import KnownModel
from proxy_engine.server.memory import MemoryGate, available_bytes, used_bytes
from proxy_engine.server.metrics import Metrics
from proxy_engine.server.model_host import ModelHost
from proxy_engine.server.model_registry import ModelRegistry
from state_machines.errors import VocabularyError


class FakeEngine:
    def __init__(self, model: KnownModel) -> None:
        self.model = model
        self.input_modalities = model.input_modalities
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Registry(ModelRegistry):
    def __init__(self, *names: str, size: int = 0) -> None:
        self._known = [KnownModel(name, name, weights_bytes=size) for name in names]

    def first(self) -> KnownModel:
        return self._known[0]

    def models(self) -> list[KnownModel]:
        return self._known

    def find(self, name: str | None, transcribes: bool = False) -> KnownModel | None:
        known = (m for m in self._known if name in (None, m.name))
        return next((m for m in known if name or m.transcribes is transcribes), None)

    def matches(self, name: str, transcribes: bool = False) -> list[str]:
        return [m.name for m in self._known if name and name in m.name]

    def find_draft(self, name: str) -> KnownModel | None:
        return None if name == "default_model" else self.find(name)


def host_of(
    *names: str,
    load: Callable[[KnownModel], Any] = FakeEngine,
    size: int = 0,
    available: Callable[[int | None], int] = available_bytes,
    **more: Any,
) -> ModelHost:
    memory = MemoryGate(available=available)
    return ModelHost(Registry(*names, size=size), load, Metrics(), memory=memory, **more)


@pytest.fixture
def models(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A directory with two working models and a broken one."""
    for name in ("one", "two", "broken"):
        shutil.copytree(tiny_model_directory, tmp_path / name)
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no weights")
    (tmp_path / "no-model").mkdir()
    return tmp_path


def test_registry_finds_models_by_name(models: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    snapshot = hub / "models--org--three" / "snapshots" / "abc"
    shutil.copytree(models / "one", snapshot)
    (hub / "models--org--empty" / "snapshots").mkdir(parents=True)
    registry = ModelRegistry(str(models / "one"), (models,), ("gpt",), hub)
    names = [model.name for model in registry.models()]
    assert names[0] == "one"
    assert {"one", "two", "org/three"} <= set(names)
    assert "broken" not in names
    assert len(names) == len(set(names))
    for name in (None, "", "one", "gpt", "default_model", str(models / "one")):
        found = registry.find(name)
        assert found is not None
        assert found.name == "one"
    three = registry.find("org/three")
    assert three is not None
    assert three.directory == snapshot
    assert three.context_length == 512
    assert three.weights_bytes == (snapshot / "model.safetensors").stat().st_size > 1000
    for name in ("../one", str(models / "two"), "org/empty", "no-model"):
        assert registry.find(name) is None


def test_short_name_of_one_model_is_a_name(models: Path, tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    for repo in ("org--Qwen3-4B", "org--Qwen3-4B-Base", "org--Llama"):
        shutil.copytree(models / "one", hub / f"models--{repo}" / "snapshots" / "abc")
    write_tiny_whisper(models / "Llama-speech")
    registry = ModelRegistry(str(models / "one"), (models,), hub_cache=hub)

    def found(name: str, *, transcribes: bool = False) -> str | None:
        model = registry.find(name, transcribes)
        return None if model is None else model.name

    assert found("ORG/QWEN3-4b") == "org/Qwen3-4B"
    assert found("qwen3-4b") == "org/Qwen3-4B"
    assert found("4b-base") == "org/Qwen3-4B-Base"
    assert found("qwen") is None
    assert registry.matches("qwen") == ["org/Qwen3-4B", "org/Qwen3-4B-Base"]
    # Only suitable models, and only those that can be loaded.
    assert found("llama") == "org/Llama"
    assert found("lla", transcribes=True) == "Llama-speech"
    assert found("brok") == "broken"
    shutil.copytree(models / "one", models / "broken-not")
    assert found("brok") == "broken-not"
    draft = registry.find_draft("llam")
    assert draft is not None
    assert draft.name == "org/Llama"
    assert registry.find_draft("qwen") is None


def test_wildcard_alias_makes_unknown_names_the_default_model(models: Path) -> None:
    write_tiny_whisper(models / "speech")
    registry = ModelRegistry(str(models / "one"), (models,), ("*",), models)

    def found(name: str, *, transcribes: bool = False) -> str | None:
        model = registry.find(name, transcribes)
        return None if model is None else model.name

    assert found("gpt-4o") == found("wo") == "one"
    assert found("two") == "two"
    assert found("whisper-1", transcribes=True) == "speech"
    assert found("x" * 1001) is None
    assert registry.find_draft("no-model") is None


def test_ambiguous_short_name_is_refused_with_its_matches() -> None:
    async def main() -> None:
        host = host_of("a/qwen-1", "a/qwen-2")
        with pytest.raises(
            ApiError, match=r"ambiguous: it matches 'a/qwen-1', 'a/qwen-2'"
        ) as error:
            async with host.lease("qwen"):
                pass
        assert (error.value.status, error.value.code) == (404, "model_not_found")
        with pytest.raises(ApiError, match=r"'llama' not found$"):
            async with host.lease("llama"):
                pass

    asyncio.run(main())


def test_answers_name_the_model_as_the_request_does(models: Path) -> None:
    settings = make_settings(model=str(models / "one"), aliases="gpt-4o")
    with serving(create_app(settings)) as live, live.http() as http:
        for name, shown in (
            ("gpt-4o", "gpt-4o"),
            ("ONE", "ONE"),
            ("default_model", "default_model"),
            ("one", "one"),
            ("", "one"),
            (None, "one"),
        ):
            body = {} if name is None else {"model": name}
            for path, more in (
                ("chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
                ("completions", {"prompt": "Hello"}),
                ("responses", {"input": "Hello"}),
            ):
                limit = "max_output_tokens" if path == "responses" else "max_tokens"
                reply = http.post(f"/v1/{path}", json={**body, **more, limit: 3}).json()
                assert reply["model"] == shown, path
        assert http.get(f"/v1/responses/{reply['id']}").json()["model"] == "one"
        body = {"model": "gpt-4o", "prompt": "Hello", "max_tokens": 2, "stream": True}
        events = http.post("/v1/completions", json=body).text.splitlines()
        chunks = [json.loads(event[len("data: ") :]) for event in events if "{" in event]
        assert {chunk["model"] for chunk in chunks} == {"gpt-4o"}
        assert http.get("/health").json()["model"] == "one"


def test_registry_finds_a_speech_model(models: Path) -> None:
    write_tiny_whisper(models / "speech")

    def found(default: str, *, transcribes: bool) -> str:
        registry = ModelRegistry(str(models / default), (models,), hub_cache=models)
        model = registry.find(None, transcribes)
        assert model is not None
        return model.name

    assert found("one", transcribes=False) == "one"
    assert found("one", transcribes=True) == "speech"
    assert found("speech", transcribes=True) == "speech"
    assert found("speech", transcribes=False) != "speech"
    # The request to the default model says that it is none.
    shutil.rmtree(models / "speech")
    assert found("two", transcribes=True) == "two"


def test_model_in_memory_serves_suitable_requests() -> None:
    async def main() -> None:
        host = host_of("text", "speech")
        registry = host._registry
        assert isinstance(registry, Registry)
        text, speech = registry._known
        registry._known = [text, replace(speech, input_modalities=frozenset({"audio"}))]
        async with host.lease("speech", transcribes=True) as lease:
            assert lease.model.name == "speech"
        async with host.lease(None, transcribes=True) as lease:
            assert lease.model.name == "speech"
        async with host.lease(None) as lease:
            assert lease.model.name == "text"
        async with host.lease(None, transcribes=True) as lease:
            assert lease.model.name == "speech"

    asyncio.run(main())


def test_registry_finds_draft_models_by_name(models: Path) -> None:
    registry = ModelRegistry(
        str(models / "one"), (models,), hub_cache=models / "hub", draft=str(models / "two")
    )
    assert registry.default().key == ("one", "two")
    assert registry.default().draft_source == str(models / "two")
    found = registry.find("one")
    assert found is not None
    assert found.key == ("one", "two")
    other = registry.find("two")
    assert other is not None
    assert other.key == ("two",)
    for name in ("default_model", "two", str(models / "two")):
        draft = registry.find_draft(name)
        assert draft is not None
        assert draft.key == ("two",)
    # A model can draft for another one without its own draft model.
    one = registry.find_draft("one")
    assert one is not None
    assert one.key == ("one",)
    for name in ("", "../one", str(models / "one"), "no-model"):
        assert registry.find_draft(name) is None
    assert ModelRegistry(str(models / "one"), (models,)).find_draft("default_model") is None


def test_draft_model_is_loaded_with_its_model() -> None:
    loaded: list[tuple[str, ...]] = []

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.key)
        return FakeEngine(model)

    async def main() -> None:
        host = host_of("a", "b", "small", load=load)

        async def key(name: str | None, draft: str | None = None) -> tuple[str, ...]:
            async with host.lease(name, draft) as lease:
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

    asyncio.run(main())


def test_request_without_a_draft_model_does_not_replace_the_one_being_loaded() -> None:
    loaded: list[tuple[str, ...]] = []

    async def main() -> None:
        go_on = threading.Event()

        def load(model: KnownModel) -> FakeEngine:
            loaded.append(model.key)
            go_on.wait(10)
            return FakeEngine(model)

        host = host_of("a", "small", load=load)

        async def use(draft: str | None) -> tuple[str, ...]:
            async with host.lease("a", draft) as lease:
                return lease.model.key

        first = asyncio.create_task(use("small"))
        while not loaded:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(use(None))
        await asyncio.sleep(0.01)
        go_on.set()
        assert await asyncio.gather(first, second) == [("a", "small")] * 2
        assert loaded == [("a", "small")]

    asyncio.run(main())


def test_draft_model_that_fails_to_load_is_named() -> None:
    def load(model: KnownModel) -> FakeEngine:
        if model.draft is not None and model.draft.name == "other":
            raise DraftModelError("another vocabulary", model="other", target="a", token_id=3)
        if model.draft is not None:
            raise ModelFormatError("broken", model=model.draft.name)
        return FakeEngine(model)

    async def main() -> None:
        host = host_of("a", "other", "broken", load=load)
        for name, status, code in (
            ("other", 400, "draft_model_mismatch"),
            ("broken", 503, "model_unavailable"),
        ):
            with pytest.raises(ApiError) as caught:
                async with host.lease("a", name):
                    pass
            error = caught.value
            assert (error.status, error.code, error.param) == (status, code, "draft_model")
            async with host.lease("a") as lease:
                assert lease.model.key == ("a",)

    asyncio.run(main())


def test_size_of_weight_files_is_counted(tiny_model: Any) -> None:
    assert used_bytes() > 0
    assert available_bytes() > 1 << 20
    assert available_bytes(used_bytes() + 1000) <= 1000


def test_other_model_waits_for_running_requests() -> None:
    order: list[str] = []
    engines: list[FakeEngine] = []

    def load(model: KnownModel) -> FakeEngine:
        assert all(engine.is_closed for engine in engines)
        engines.append(FakeEngine(model))
        return engines[-1]

    async def use(host: ModelHost, name: str, label: str) -> None:
        async with host.lease(name) as lease:
            assert lease.model.name == name
            order.append(label)
            await asyncio.sleep(0.01)
            assert not engines[-1].is_closed

    async def main() -> None:
        host = host_of("a", "b", load=load)
        names = "aabba"
        await asyncio.wait_for(
            asyncio.gather(*(use(host, name, f"{name}{i}") for i, name in enumerate(names))), 10
        )
        assert order == [f"{name}{i}" for i, name in enumerate(names)]
        assert [engine.model.name for engine in engines] == ["a", "b", "a"]
        await host.close()
        assert engines[-1].is_closed

    asyncio.run(main())


def test_client_that_disconnects_during_loading_releases_its_lease() -> None:
    async def main() -> None:
        go_on = asyncio.Event()
        loop = asyncio.get_running_loop()

        def load(model: KnownModel) -> FakeEngine:
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
            return FakeEngine(model)

        host = host_of("a", "b", load=load)

        async def use(name: str) -> None:
            async with host.lease(name):
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

    asyncio.run(main())


def test_client_that_disconnects_while_waiting_loads_nothing() -> None:
    async def main() -> None:
        host = host_of("a", "b")

        async def use(name: str) -> None:
            async with host.lease(name):
                pass

        async with host.lease("a"):
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

    asyncio.run(main())


def test_engine_that_does_not_close_is_abandoned() -> None:
    async def main() -> None:
        ended = threading.Event()
        host = host_of("a")
        async with host.lease("a") as lease:
            lease.engine.close = lambda: ended.wait(10)  # type: ignore[assignment, method-assign]
        try:
            await asyncio.wait_for(host.close(patience=0.01), 5)
        finally:
            ended.set()

    asyncio.run(main())


def test_unreadable_directory_is_not_a_model(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_file = Path.is_file

    def refusing(path: Path) -> bool:
        if path.parent.name == "two":
            raise PermissionError
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    names = {model.name for model in ModelRegistry(None, (models,)).models()}
    assert "one" in names
    assert "two" not in names


def test_failed_load_does_not_block_other_models() -> None:
    def load(model: KnownModel) -> FakeEngine:
        if model.name == "bad":
            raise ModelFormatError("broken", model="bad")
        if model.name == "worse":
            raise RuntimeError("secret")
        if model.name == "odd":
            raise VocabularyError("its tokens have no bytes")
        return FakeEngine(model)

    async def main() -> None:
        host = host_of("good", "bad", "worse", "odd", load=load)
        for name, expected in (("bad", ModelFormatError), ("worse", ApiError), ("odd", ApiError)):
            with pytest.raises(expected) as caught:
                async with host.lease(name):
                    pass
            assert "secret" not in str(caught.value)
            assert getattr(caught.value, "status", 503) == 503
            async with host.lease("good") as lease:
                assert lease.model.name == "good"

    asyncio.run(main())


def test_previous_model_is_restored_after_a_failed_load() -> None:
    loaded: list[str] = []

    def load(model: KnownModel) -> FakeEngine:
        loaded.append(model.name)
        if model.name == "bad":
            raise ModelFormatError("broken", model="bad")
        return FakeEngine(model)

    async def main() -> None:
        host = host_of("good", "bad", load=load)
        async with host.lease("good"):
            pass
        with pytest.raises(ModelFormatError):
            async with host.lease("bad"):
                pass
        assert loaded == ["good", "bad", "good"]
        async with host.lease("good") as lease:
            assert not lease.engine.is_closed  # type: ignore[attr-defined]
        assert len(loaded) == 3

    asyncio.run(main())


def test_unloadable_model_is_refused_without_waiting() -> None:
    async def main() -> None:
        host = host_of("good", "bad")
        bad = KnownModel("bad", "bad", problem=FileProblem("the weights are incomplete"))
        host._registry._known[1] = bad  # type: ignore[attr-defined]
        async with host.lease("good") as lease:
            with pytest.raises(ModelFormatError, match="incomplete"):
                await asyncio.wait_for(host.lease("bad").__aenter__(), 10)
            assert host.current is lease
            async with host.lease("good") as other:
                assert other is lease

    asyncio.run(main())


def truncated(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def other_shapes(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config["intermediate_size"] *= 2
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")


def incomplete(directory: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    path = directory / "model.safetensors.index.json"
    path.write_text(json.dumps(index), encoding="utf-8")


def damaged_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").write_text('{"version": "1.0"}', encoding="utf-8")


def without_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()


def config_of(text: str) -> Callable[[Path], None]:
    return lambda directory: (directory / "config.json").write_text(text) and None


def too_large(directory: Path) -> None:
    with (directory / "model-huge.safetensors").open("wb") as file:
        header = b'{"x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}'
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(1 << 43)


BROKEN: dict[str, tuple[Callable[[Path], None], int, bool]] = {
    # What makes a model's directory one that cannot be loaded, the status of requests, and whether
    # it is listed before the first request.
    "no-json": (config_of("{"), 503, False),
    "no-object": (config_of("[]"), 503, False),
    "no-type": (config_of("{}"), 503, False),
    "odd-type": (config_of('{"model_type": "../llama"}'), 501, False),
    "unknown-architecture": (config_of('{"model_type": "no-such"}'), 501, False),
    "no-model": (config_of('{"model_type": "base"}'), 501, False),
    "ends-the-process": (config_of('{"model_type": "olmo"}'), 503, False),
    "code-of-its-own": (config_of('{"model_type": "llama", "model_file": "x.py"}'), 501, False),
    "truncated": (truncated, 503, False),
    "incomplete": (incomplete, 503, False),
    "other-shapes": (other_shapes, 503, True),
    "without-tokenizer": (without_tokenizer, 503, False),
    "damaged-tokenizer": (damaged_tokenizer, 503, True),
    "too-large": (too_large, 507, False),
}


def test_unloadable_model_leaves_the_current_one_in_memory(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    for name, (spoil, _, _) in BROKEN.items():
        shutil.copytree(tiny_model_directory, tmp_path / name)
        spoil(tmp_path / name)
    shutil.copytree(tiny_model_directory, tmp_path / "good")
    settings = make_settings(model=str(tiny_model_directory), model_directories=str(tmp_path))
    with serving(create_app(settings)) as live, live.http() as http:
        client = live.client()

        def chat(model: str, **more: Any) -> Any:
            return client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "Hello"}], **more
            )

        first = tiny_model_directory.name
        chat(first, max_tokens=3)
        listed = {model.id for model in client.models.list().data}
        assert listed >= {first, "good"}
        assert listed & BROKEN.keys() == {name for name, (*_, seen) in BROKEN.items() if seen}
        schema = {"name": "long", "schema": {"type": "string", "minLength": 200, "maxLength": 210}}
        form = {"type": "json_schema", "json_schema": schema}
        stream = chat(first, max_tokens=400, stream=True, response_format=form)
        received = [next(stream)]
        codes = {501: "unsupported_model", 503: "model_unavailable", 507: "insufficient_memory"}
        for name, (_, status, _) in BROKEN.items():
            with pytest.raises(openai.APIStatusError) as caught:
                chat(name, max_tokens=3)
            assert (caught.value.status_code, caught.value.code) == (status, codes[status]), name
        assert not {model.id for model in client.models.list().data} & BROKEN.keys()
        received += stream
        assert received[-1].choices[0].finish_reason == "stop"
        assert chat(first, max_tokens=3).model == first
        loads = [line for line in http.get("/metrics").text.splitlines() if "model_loads" in line]
        assert 'proxy_engine_model_loads_total{result="ok"} 1.0' in loads
        assert not any("failed" in line for line in loads)
        assert chat("good", max_tokens=3).model == "good"


def test_too_large_model_is_refused() -> None:
    async def main() -> None:
        host = host_of("a", size=90, available=lambda limit: 100)
        async with host.lease(None) as lease:
            assert lease.model.name == "a"
        large = host_of("a", size=1000, available=lambda limit: 100)
        with pytest.raises(ApiError) as caught:
            async with large.lease("a"):
                pass
        assert caught.value.status == 507
        assert caught.value.facts["needed_bytes"] == 1100
        with pytest.raises(ApiError) as caught:
            async with large.lease("c"):
                pass
        assert caught.value.status == 404

    asyncio.run(main())


def test_too_large_draft_model_is_refused() -> None:
    async def main() -> None:
        host = host_of("a", "small", size=90, available=lambda limit: 150)
        with pytest.raises(ApiError, match="'a' with draft model 'small' needs") as caught:
            async with host.lease("a", "small"):
                pass
        assert (caught.value.status, caught.value.param) == (507, "draft_model")
        assert caught.value.facts["needed_bytes"] == 198
        async with host.lease("a") as lease:
            assert lease.model.key == ("a",)

    asyncio.run(main())


def test_requests_wait_for_a_model_that_is_being_loaded() -> None:
    free = [1000]

    async def main() -> None:
        go_on = threading.Event()

        def load(model: KnownModel) -> FakeEngine:
            free[0] = 10
            go_on.wait(10)
            return FakeEngine(model)

        host = host_of("a", size=900, load=load, available=lambda limit: free[0])

        async def use() -> str:
            async with host.lease("a") as lease:
                return lease.model.name

        first = asyncio.create_task(use())
        while not host.is_loading or free[0] == 1000:
            await asyncio.sleep(0.001)
        second = asyncio.create_task(use())
        await asyncio.sleep(0.01)
        go_on.set()
        assert await asyncio.wait_for(asyncio.gather(first, second), 10) == ["a", "a"]

    asyncio.run(main())


def test_models_are_served_one_at_a_time(models: Path) -> None:
    settings = make_settings(model=str(models / "one"), model_directories=str(models))
    app = create_app(settings)
    with serving(app) as live:
        client = live.client()
        http = live.http()
        assert http.get("/health").json()["status"] == "no_model"

        def chat(model: str) -> Any:
            return client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=3
            )

        assert chat("one").model == "one"
        before = used_bytes()
        assert chat("two").model == "two"
        # Of two models one would be left.
        assert used_bytes() < before * 1.3
        assert client.models.list().data[0].id == "two"
        with pytest.raises(openai.APIStatusError) as caught:
            chat("broken")
        assert caught.value.status_code == 503
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["code"] == "model_unavailable"
        assert chat("one").model == "one"
        loads = [line for line in http.get("/metrics").text.splitlines() if "model_loads" in line]
        # The one that is broken was not tried.
        assert 'proxy_engine_model_loads_total{result="ok"} 3.0' in loads
        http.close()


def other_tokens(directory: Path) -> None:
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    first, second = [form for form, number in vocabulary.items() if number in (40, 41)]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def test_draft_model_of_a_request_is_checked_before_the_model_is_displaced(
    models: Path, tiny_model_directory: Path
) -> None:
    shutil.copytree(tiny_model_directory, models / "other-tokens")
    other_tokens(models / "other-tokens")
    settings = make_settings(
        model=str(models / "one"),
        model_directories=str(models),
        draft_model=str(models / "two"),
        num_draft_tokens=3,
    )
    with serving(create_app(settings)) as live, live.http() as http:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}

        def post(**more: Any) -> tuple[int, Any]:
            reply = http.post("/v1/chat/completions", json={**body, **more})
            return reply.status_code, reply.json()

        assert post(num_draft_tokens=2)[0] == 200
        current = live.services.host.current
        assert current is not None
        assert current.model.key == ("one", "two")
        assert current.engine.draft_model_name == str(models / "two")
        assert http.get("/health").json()["draft_model"] == "two"
        for draft, status, code in (
            ("other-tokens", 400, "draft_model_mismatch"),
            ("broken", 503, "model_unavailable"),
            ("missing", 404, "model_not_found"),
            (str(models / "one"), 404, "model_not_found"),
        ):
            found, reply = post(draft_model=draft)
            error = reply["error"]
            assert (found, error["code"], error["param"]) == (status, code, "draft_model"), draft
            assert live.services.host.current is current
        for draft in ("two", "default_model"):
            assert post(draft_model=draft)[0] == 200
            assert live.services.host.current is current
        assert post(draft_model="one")[0] == 200
        assert live.services.host.current is not current
        assert http.get("/health").json()["draft_model"] == "one"


def test_draft_model_of_the_server_drafts(models: Path) -> None:
    settings = make_settings(
        model=str(models / "one"), draft_model=str(models / "two"), num_draft_tokens=3
    )
    with serving(create_app(settings)) as live, live.http() as http:

        def answer(**more: Any) -> tuple[str, dict[str, Any]]:
            body = {
                "messages": [{"role": "user", "content": "Hello"}],
                "max_tokens": 40,
                "temperature": 0,
                "include_tokens": True,
                **more,
            }
            reply = http.post("/v1/chat/completions", json=body).json()
            content: str = reply["choices"][0]["message"]["content"]
            return content, reply["proxy_engine"]["timings"]

        text, off = answer(speculation="off")
        alone = {"prompt_lookup": False}
        for asked, drafted in (
            ({"speculation": alone}, 3),
            ({"speculation": {**alone, "num_draft_tokens": 2}}, 2),
            ({"speculation": {**alone, "draft_model": False}}, 0),
            ({"num_draft_tokens": 5}, None),
            ({"num_draft_tokens": 0}, None),
        ):
            same, timings = answer(**asked)
            assert same == text
            if drafted is not None:
                passes = timings["forward_passes"]
                # Both models are the same, so that every token is accepted.
                assert timings["accepted_tokens"] == timings["drafted_tokens"]
                assert timings["drafted_tokens"] <= drafted * passes
                assert passes <= off["forward_passes"] / (drafted + 1) + 2


def test_settings_apply_to_the_engine(models: Path) -> None:
    settings = make_settings(model=str(models / "one"), draft_model="./none")
    with pytest.raises(ModelNotFoundError, match=r"no directory '\./none'"):
        load_engine(registry_of(settings).default(), settings)
    settings = make_settings(model=str(models / "one"), speculation="off", num_draft_tokens=3)
    engine = load_engine(registry_of(settings).default(), settings)
    with engine:
        assert engine.draft_model_name is None
        usage = engine.generate("Hello", max_tokens=60).usage
        assert usage.drafted_tokens == 0
        drafting = SpeculationOptions(is_adaptive=False)
        assert engine.generate("Hello", max_tokens=60, speculation=drafting).usage.drafted_tokens


def test_memory_limit_applies_to_models(models: Path) -> None:
    # Memory that is freed later would make room for the model.
    gc.collect()
    limit = used_bytes() + (models / "one" / "model.safetensors").stat().st_size // 2
    settings = make_settings(model=str(models / "one"), memory_limit_bytes=limit)
    with serving(create_app(settings)) as live, live.http() as http:
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        reply = http.post("/v1/chat/completions", json=body)
        assert reply.status_code == 507
        assert reply.json()["error"]["code"] == "insufficient_memory"
        assert json.loads(reply.text)["error"]["needed_bytes"] > 0
