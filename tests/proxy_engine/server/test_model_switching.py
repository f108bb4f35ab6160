"""A server with several models."""

from __future__ import annotations

import gc
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from live_server import make_settings, serving
from tiny_whisper import write_tiny_whisper

from proxy_engine import ModelError, ModelFormatError, SpeculationOptions
from proxy_engine.server.app import create_app, load_engine, registry_of
from proxy_engine.server.load_checks import for_client, used_bytes
from proxy_engine.server.models import KnownModel


def test_answers_name_the_model_as_the_request_does(models: Path) -> None:
    settings = make_settings(model=str(models / "one"), aliases="gpt-4o")
    with serving(create_app(settings)) as live, live.http() as http:
        for name, shown in (
            ("gpt-4o", "gpt-4o"),
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
        body = {"model": "gpt-4o", "prompt": "Hello", "max_tokens": 2, "stream": True}
        events = http.post("/v1/completions", json=body).text.splitlines()
        chunks = [json.loads(event[len("data: ") :]) for event in events if "{" in event]
        assert {chunk["model"] for chunk in chunks} == {"gpt-4o"}
        assert http.get("/health").json()["model"] == "one"


def truncated(directory: Path) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def other_shapes(directory: Path) -> None:
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config["intermediate_size"] *= 2
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")


def incomplete(directory: Path) -> None:
    (directory / "model.safetensors").rename(directory / "model-00002-of-00002.safetensors")


def damaged_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").write_text('{"version": "1.0"}', encoding="utf-8")


def without_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.json").unlink()


def config_of(text: str) -> Callable[[Path], None]:
    return lambda directory: (directory / "config.json").write_text(text) and None


def too_large(directory: Path) -> None:
    with (directory / "model-huge.safetensors").open("wb") as file:
        size = 1 << 43
        tensors = {"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
        header = json.dumps(tensors).encode()
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)


def with_code(directory: Path) -> None:
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((directory / name).read_text(encoding="utf-8"))
        content["auto_map"] = {"AutoConfig": "own.Config", "AutoTokenizer": ["own.Tokens", None]}
        content["tokenizer_class"] = "Tokens"
        (directory / name).write_text(json.dumps(content), encoding="utf-8")


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
    "code-of-its-tokenizer": (with_code, 503, True),
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
            assert f"'{name}" in caught.value.message
            assert "/" not in caught.value.message.replace("https://hf.co/", "").replace("../", "")
        assert not {model.id for model in client.models.list().data} & BROKEN.keys()
        received += stream
        assert received[-1].choices[0].finish_reason == "stop"
        assert chat(first, max_tokens=3).model == first
        loads = [line for line in http.get("/metrics").text.splitlines() if "model_loads" in line]
        assert 'proxy_engine:model_loads_total{result="ok"} 1.0' in loads
        assert not any("failed" in line for line in loads)
        before = used_bytes()
        assert chat("good", max_tokens=3).model == "good"
        # Of two models one is left.
        assert used_bytes() < before * 1.3
        assert client.models.list().data[0].id == "good"


def test_errors_of_loading_have_no_path_of_the_server() -> None:
    adapter = Path("/srv/jane doe/lora")
    draft = KnownModel("small", "models/small", Path("models/small"))
    directory = Path("/srv/jane doe")
    model = KnownModel("org/large", str(directory), directory, draft=draft, adapter=adapter)
    for message, expected in {
        "'/srv/jane doe/config.json' cannot be read": "'org/large/config.json' cannot be read",
        "no file models/small/a.json": "no file small/a.json",
        "/srv/jane doe/lora is empty": "lora is empty",
        "dlopen(/opt/my python/a.so, 2)\ntry https://hf.co/a/b": "dlopen(…\ntry https://hf.co/a/b",
        "open file:///etc/a": "open file://…",
        "expected 3/4 of ../llama in and/or": "expected 3/4 of ../llama in and/or",
    }.items():
        error = for_client(ModelFormatError(message, model="org/large"), model)
        assert (error.message, error.status, error.param) == (expected, 503, "model")
    of_draft = ModelFormatError("'models/small' is empty", model="models/small")
    assert for_client(of_draft, model).param == "draft_model"
    assert "secret" not in for_client(OSError("secret"), model).message


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
            ("own", 400, "draft_model_mismatch"),
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
    for draft, reason in (("./none", r"no directory '\./none'"), ("own", "has no heads")):
        settings = make_settings(model=str(models / "one"), draft_model=draft)
        with pytest.raises(ModelError, match=reason):
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


def test_unsuitable_model_is_refused_before_it_is_loaded(models: Path) -> None:
    write_tiny_whisper(models / "speech", weights_file="weights.npz")
    settings = make_settings(model=str(models / "one"), model_directories=str(models))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with serving(create_app(settings)) as live, live.http() as http:

        def chat(model: str, content: Any) -> tuple[int, Any]:
            messages = [{"role": "user", "content": content}]
            body = {"model": model, "messages": messages, "max_tokens": 3}
            reply = http.post("/v1/chat/completions", json=body)
            return reply.status_code, reply.json()

        assert chat("one", "Hello")[0] == 200
        current = live.services.host.current
        # The file is not read: a model of text has no use for it.
        status, reply = chat("two", [image])
        error = reply["error"]
        assert (status, error["code"]) == (400, "invalid_media")
        assert error["param"] == "messages[0].content[0]"
        assert "does not read image" in error["message"]
        assert chat("one", [image]) == (status, reply)
        status, reply = chat("speech", "Hello")
        assert (status, reply["error"]["code"]) == (400, "unsuitable_model")
        reply = http.post(
            "/v1/audio/transcriptions", files={"file": b"RIFF"}, data={"model": "two"}
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "unsuitable_model")
        assert live.services.host.current is current
        assert live.services.metrics.value("model_loads_total") == 1


def test_listed_models_have_the_members_of_openais_models(models: Path) -> None:
    write_tiny_whisper(models / "speech", weights_file="weights.npz")
    settings = make_settings(model=str(models / "one"), model_directories=str(models))
    with serving(create_app(settings)) as live, live.http() as http:
        listed = {model["id"]: model for model in http.get("/v1/models").json()["data"]}
        assert listed.keys() >= {"one", "two", "speech"}
        assert "broken" not in listed
        speech = listed["speech"]
        assert speech["input_modalities"] == ["audio"]
        assert speech["weights_bytes"] == (models / "speech" / "weights.npz").stat().st_size
        assert http.get("/v1/models/speech").json() == speech
        assert http.get("/v1/models/default_model").json() == listed["one"]
        assert http.get("/v1/models/broken").status_code == 404


def test_idle_server_has_no_model_in_memory(models: Path) -> None:
    settings = make_settings(model=str(models / "one"), idle_seconds=0.01)
    with serving(create_app(settings)) as live, live.http() as http:
        body = {"prompt": "Hello", "max_tokens": 2}
        for count in (1, 2):
            assert http.post("/v1/completions", json=body).json()["model"] == "one"
            while http.get("/health").json()["status"] != "no_model":
                time.sleep(0.005)
            metrics = live.services.metrics
            assert metrics.value("model_loads_total", result="ok") == count
            assert "proxy_engine:model_loaded 0.0" in http.get("/metrics").text
        assert not http.get("/v1/models").json()["data"][0]["loaded"]
