"""A server with adapters."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from adapters import write_adapter
from live_server import Live, make_settings, serving

from proxy_engine import AdapterError, InferenceEngine, RawPrompt
from proxy_engine.server.app import create_app, load_engine, registry_of
from proxy_engine.server.load_checks import MemoryGate
from proxy_engine.server.models import ModelRegistry
from proxy_engine.server.settings import ServerSettings

PROMPT = [72, 101, 108, 108, 111]
TOKENS = 8


@pytest.fixture
def adapters(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A directory with two adapters, and others that cannot be used."""
    for number, name in enumerate(("one", "two")):
        write_adapter(tmp_path / "adapters" / name, tiny_model_directory, seed=number)
    write_adapter(tmp_path / "elsewhere", tiny_model_directory)
    parent = tmp_path / "adapters"
    (parent / "empty").mkdir()
    (parent / "link").symlink_to(tmp_path / "elsewhere")
    (parent / "inner").symlink_to(parent / "one")
    (parent / "loop").symlink_to(parent / "loop")
    shutil.copytree(parent / "one", parent / "broken")
    (parent / "broken" / "adapters.safetensors").write_bytes(b"x")
    return parent


def settings_of(model: Path, **given: Any) -> ServerSettings:
    # One request at a time: no time is spent on finding out how requests share passes.
    return make_settings(model=str(model), max_running=1, **given)


def text_of(model: Path, adapter: Path | None) -> str:
    with InferenceEngine(model, adapter_path=adapter) as engine:
        return str(engine.generate(RawPrompt(PROMPT), max_tokens=TOKENS).text)


def complete(live: Live, adapter: str | None = None, **more: Any) -> httpx.Response:
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0, **more}
    if adapter is not None:
        body["adapters"] = adapter
    with live.http() as http:
        return http.post("/v1/completions", json=body)


def loads(live: Live) -> int:
    with live.http() as http:
        lines = http.get("/metrics").text.splitlines()
    counter = 'proxy_engine:model_loads_total{result="ok"}'
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(counter))


def test_requests_alternate_between_adapters(adapters: Path, tiny_model_directory: Path) -> None:
    expected = {
        name: text_of(tiny_model_directory, None if name is None else adapters / name)
        for name in (None, "one", "two")
    }
    assert len(set(expected.values())) == 3
    settings = settings_of(tiny_model_directory, adapter_directories=str(adapters))
    with serving(create_app(settings)) as live:
        for name in ("one", "two", None, "", "one"):
            reply = complete(live, name)
            assert reply.json()["choices"][0]["text"] == expected[name or None], name
            assert reply.json()["model"] == tiny_model_directory.name
            with live.http() as http:
                assert http.get("/health").json()["adapter"] == (name or None)
        # Requests without a model's name, and with it, mean the same.
        assert complete(live, model="default_model").json()["choices"][0]["text"] == expected[None]
        before = loads(live)
        for given in ({}, {"model": tiny_model_directory.name}):
            assert complete(live, **given).json()["choices"][0]["text"] == expected[None]
        assert loads(live) == before
        names = [model.id for model in live.client().models.list().data]
        assert not {"one", "two"} & set(names)


def test_default_model_has_its_own_adapter(adapters: Path, tiny_model_directory: Path) -> None:
    one = text_of(tiny_model_directory, adapters / "one")
    settings = settings_of(
        tiny_model_directory,
        model_directories=str(tiny_model_directory.parent),
        adapter_path=str(adapters / "one"),
        adapter_directories=str(adapters),
    )
    default = registry_of(settings).default()
    with serving(create_app(settings, engine=load_engine(default, settings))) as live:
        assert complete(live).json()["choices"][0]["text"] == one
        assert complete(live, "one").json()["choices"][0]["text"] == one
        assert loads(live) == 0
        assert complete(live, "two").json()["choices"][0]["text"] != one
        assert complete(live).json()["choices"][0]["text"] == one


def test_only_names_of_adapters_are_accepted(adapters: Path) -> None:
    registry = ModelRegistry(adapter_directories=(adapters, adapters / "no-such-directory"))
    assert registry.adapters().keys() == {"broken", "inner", "one", "two"}
    assert registry.adapters()["inner"] == (adapters / "one").resolve()


def test_errors_name_the_field(adapters: Path, tiny_model_directory: Path) -> None:
    settings = settings_of(tiny_model_directory, adapter_directories=str(adapters))
    client: openai.OpenAI
    with serving(create_app(settings)) as live:
        client = live.client()
        assert complete(live).status_code == 200
        for name, status, code in (
            ("none", 404, "adapter_not_found"),
            ("../one", 404, "adapter_not_found"),
            (str(adapters / "one"), 404, "adapter_not_found"),
            ("broken", 400, "invalid_adapter"),
        ):
            with pytest.raises(openai.APIStatusError) as caught:
                client.chat.completions.create(
                    model=tiny_model_directory.name,
                    messages=[{"role": "user", "content": "Hi"}],
                    extra_body={"adapters": name},
                )
            error = caught.value
            assert (error.status_code, error.code, error.param) == (status, code, "adapters"), name
            if not name.startswith("/"):
                assert str(adapters) not in error.message
        assert "Known are broken, inner, one, two." in complete(live, "none").text
        with live.http() as http:
            reply = http.post("/v1/responses", json={"input": "a", "adapters": "none"})
            assert (reply.status_code, reply.json()["error"]["param"]) == (404, "adapters")
        # None of these displaced the model.
        assert loads(live) == 1
        assert complete(live, adapters=5).status_code == 400


def test_adapter_that_was_repaired_is_checked_again(
    adapters: Path, tiny_model_directory: Path
) -> None:
    settings = settings_of(tiny_model_directory, adapter_directories=str(adapters))
    with serving(create_app(settings)) as live:
        assert complete(live, "broken").status_code == 400
        shutil.copy(adapters / "two" / "adapters.safetensors", adapters / "broken")
        expected = text_of(tiny_model_directory, adapters / "two")
        assert complete(live, "broken").json()["choices"][0]["text"] == expected


def test_adapter_counts_as_memory_of_its_model(adapters: Path, tiny_model_directory: Path) -> None:
    settings = settings_of(tiny_model_directory, adapter_path=str(adapters / "one"))
    adapter_bytes = (adapters / "one" / "adapters.safetensors").stat().st_size
    model = registry_of(settings).default()
    assert model.total_weights_bytes == model.weights_bytes + adapter_bytes
    limit = int((model.weights_bytes + adapter_bytes / 2) * 1.1)
    gate = MemoryGate(limit, available=lambda limit: limit or 0)
    assert gate.shortage(model) is not None
    assert gate.shortage(replace(model, adapter=None)) is None


def test_server_does_not_start_with_an_adapter_of_another_model(
    adapters: Path, tiny_model_directory: Path
) -> None:
    (adapters / "one" / "adapter_config.json").write_text("{}", encoding="utf-8")
    settings = settings_of(tiny_model_directory, adapter_path=str(adapters / "one"))
    with pytest.raises(AdapterError, match="num_layers is missing"):
        load_engine(registry_of(settings).default(), settings)


def test_trusted_code_and_chat_template_are_settings(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    model = tmp_path / "own-code"
    shutil.copytree(tiny_model_directory, model)
    config = (model / "config.json").read_text(encoding="utf-8")
    (model / "config.json").write_text(config[:-1] + ', "model_file": "own.py"}', encoding="utf-8")
    (model / "own.py").write_text("from mlx_lm.models.llama import Model, ModelArgs\n")
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages[-1]['content'] }}", encoding="utf-8")
    given = {"model": str(model), "chat_template": str(template)}
    with serving(create_app(make_settings(**given))) as live:
        assert complete(live).status_code == 501
    with serving(create_app(make_settings(**given, trust_remote_code=True))) as live:
        with live.http() as http:
            body = {"messages": [{"role": "user", "content": "abcd"}], "max_tokens": 2}
            reply = http.post("/v1/chat/completions", json=body)
        assert reply.json()["usage"]["prompt_tokens"] == 2  # The tokens "abc" and "d".
    for bad in ("no-such-file", "{% if %}"):
        with pytest.raises(ValueError, match="chat_template should be"):
            make_settings(chat_template=bad)
