"""Middleware and operations: request ids, keys, limits, metrics, health, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from typing import Any

import httpx
import openai
import pytest
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st
from live_server import Live, make_settings, serving, serving_engine
from starlette.types import Message, Receive, Scope, Send

from proxy_engine import DistributedError, EngineClosedError, InferenceEngine
from proxy_engine.results.parts import Usage
from proxy_engine.server.app import create_app
from proxy_engine.server.errors import api_error
from proxy_engine.server.metrics import Metrics
from proxy_engine.server.middleware import HostMiddleware, is_key
from proxy_engine.server.schemas import MAX_MESSAGES

HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
CHAT = "/v1/chat/completions"


def test_health_reports_the_model(live: Live) -> None:
    with live.http() as http:
        health = http.get("/health").json()
    assert health["status"] == "ok"
    assert health["model"]


def test_models_are_listed_with_their_state(live: Live, client: openai.OpenAI) -> None:
    models = client.models.list().data
    assert models[0].loaded  # type: ignore[attr-defined]
    assert models[0].context_length == 4096  # type: ignore[attr-defined]
    assert sum(model.loaded for model in models) == 1  # type: ignore[attr-defined]
    assert client.models.retrieve(models[0].id).id == models[0].id
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no/such")


def test_every_response_has_a_request_id(live: Live) -> None:
    with live.http() as http:
        for reply in (
            http.get("/health"),
            http.get("/nothing"),
            http.post(CHAT, json=HELLO),
            http.post(CHAT, json={**HELLO, "stream": True}),
            http.post(CHAT, content=b"{"),
            http.put(CHAT),
        ):
            assert re.fullmatch(r"req_[0-9a-f]{24}", reply.headers["x-request-id"])
        own = http.get("/health", headers={"X-Request-ID": "mine-1"})
        assert own.headers["x-request-id"] == "mine-1"
        strange = http.get("/health", headers={"X-Request-ID": "a b"})
        assert strange.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("GET", "/nothing", b"", 404, "not_found"),
        ("GET", CHAT, b"", 405, "method_not_allowed"),
        ("POST", CHAT, b"{", 400, "invalid_json"),
        ("POST", CHAT, b"", 400, "missing_required_parameter"),
        ("POST", CHAT, b"[]", 400, "invalid_type"),
        ("POST", CHAT, b'{"messages": NaN}', 400, "invalid_json"),
        ("POST", CHAT, b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "invalid_json"),
        ("POST", CHAT, b"\xff", 400, "invalid_json"),
        ("POST", CHAT, b"[" * 100_000, 400, "invalid_json"),
        ("POST", CHAT, b'{"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"const": 1e999}}}]}', 400, None),
        ("POST", CHAT, b'{"messages": [{"role": "user", "content": "a"}], "response_format": {"const": 1e999}}', 400, None),
    ],
)  # fmt: skip
def test_errors_have_openais_envelope(
    live: Live, method: str, path: str, content: bytes, status: int, code: str | None
) -> None:
    with live.http() as http:
        reply = http.request(
            method, path, content=content, headers={"Content-Type": "application/json"}
        )
    assert reply.status_code == status
    error = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert code is None or error["code"] == code


@pytest.mark.parametrize(
    ("path", "body", "param", "words"),
    [
        ("completions", {"prompt": 5}, "prompt", "prompt should be a valid string, or should be a valid list, not 5"),
        ("chat/completions", {}, "messages", "messages is missing"),
        ("chat/completions", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "valid list"),
        ("chat/completions", {"messages": [{"content": "a"}]}, "messages[0].role", "is missing"),
        ("chat/completions", {**HELLO, "stop": ["a"] * 65}, "stop", "at most 64"),
        ("chat/completions", {**HELLO, "stop": ["a" * 1001]}, "stop[0]", "at most 1000"),
        ("responses", {"input": "a", "text": {"format": 5}}, "text.format", "valid dictionary"),
        ("responses", [], None, "the body should"),
    ],
)  # fmt: skip
def test_invalid_field_is_named_by_its_path(
    live: Live, path: str, body: Any, param: str | None, words: str
) -> None:
    with live.http() as http:
        reply = http.post(f"/v1/{path}", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize("more", [{"a" * 100_000: 1}, {"model": "a" * 100_000}])
def test_long_names_are_shortened(live: Live, more: dict[str, Any]) -> None:
    with live.http() as http:
        reply = http.post(CHAT, json={**HELLO, **more})
    assert reply.status_code in (200, 404)
    assert len(reply.content) + sum(map(len, reply.headers.values())) < 2000


def test_internal_error_hides_details(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(live.services.metrics, "render", fail)
    with live.http() as http, caplog.at_level(logging.ERROR):
        reply = http.get("/metrics")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal"
    assert "secret" not in reply.text
    assert "secret" in caplog.text
    assert reply.headers["x-request-id"] in str([r.__dict__ for r in caplog.records])


def test_requests_and_answers_are_counted(live: Live) -> None:
    def numbers() -> dict[str, float]:
        text = http.get("/metrics").text
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    with live.http() as http:
        before = numbers()
        # An answer of one token has no time after the first token.
        usage = http.post(CHAT, json={**HELLO, "seed": 1}).json()["usage"]
        assert usage["completion_tokens"] > 1
        http.post(CHAT, json={**HELLO, "n": 0})
        after = numbers()

    def grown(name: str) -> float:
        return after[f"proxy_engine:{name}"] - before.get(f"proxy_engine:{name}", 0)

    assert grown("answers_started_total") == 1
    assert grown("prompt_tokens_total") == usage["prompt_tokens"]
    assert grown("generation_tokens_total") == usage["completion_tokens"]
    assert grown('requests_total{path="/v1/chat/completions",status="200"}') == 1
    assert grown('requests_total{path="/v1/chat/completions",status="400"}') == 1
    assert grown('engine_seconds_total{phase="forward"}') > 0
    assert (
        grown("e2e_request_latency_seconds_count")
        == grown("time_to_first_token_seconds_count")
        == 1
    )
    assert grown('e2e_request_latency_seconds_bucket{le="+Inf"}') == 1
    assert after["proxy_engine:num_requests_running"] == 0


def test_tokens_of_all_kinds_and_forward_passes_are_counted() -> None:
    metrics = Metrics()
    drafts = {"drafted_tokens": 4, "accepted_tokens": 3, "forward_passes": 5}
    metrics.count_usage(Usage(9, 8, 0.1, 0.2, **drafts, image_tokens=4, audio_tokens=3))
    metrics.count_usage(Usage(9, 8, 0.1, 0.2, **{**drafts, "accepted_tokens": 0}, image_tokens=2))
    names = ("spec_decode_num_draft", "spec_decode_num_accepted", "image", "audio")
    assert [metrics.value(f"{name}_tokens_total") for name in names] == [8, 3, 6, 3]
    assert metrics.value("forward_passes_total") == 10


def test_metrics_are_in_prometheus_text_format(live: Live) -> None:
    with live.http() as http:
        reply = http.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    sample = r'proxy_engine:[a-z0-9_]+(\{([a-z_]+="[^"]*",?)+\})? [-+0-9.e]+'
    for line in reply.text.splitlines():
        assert re.fullmatch(rf"# (HELP|TYPE) proxy_engine:[a-z0-9_]+ .+|{sample}", line), line


def test_api_key_is_required(roomy_engine: InferenceEngine) -> None:
    with serving_engine(roomy_engine, api_key="sésame") as live, live.http() as http:
        for headers in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic sesame"}):
            for path in ("/v1/models", "/metrics"):
                reply = http.get(path, headers=headers)
                assert reply.status_code == 401
                assert reply.json()["error"]["code"] == "invalid_api_key"
                assert reply.headers["www-authenticate"] == "Bearer"
                assert "x-request-id" in reply.headers
        # The key is checked before the body is read.
        assert http.post(CHAT, content=b"{").status_code == 401
        for path in ("/health", "/", "/docs", "/openapi.json"):
            assert http.get(path).status_code == 200
        for encoding in ("latin-1", "utf-8"):
            key = "Bearer sésame".encode(encoding)
            assert http.get("/v1/models", headers={b"Authorization": key}).status_code == 200


def test_api_keys_are_compared_whole() -> None:
    assert is_key("abc", "abc")
    assert not any(is_key(given, "abc") for given in ("", "ab", "abcd", "abd", "ABC"))


def test_bodies_and_prompts_are_limited(roomy_engine: InferenceEngine) -> None:
    bounds = {"max_body_bytes": 2000, "max_prompt_characters": 200, "body_seconds": 0.3}
    with serving_engine(roomy_engine, **bounds) as live, live.http() as http:
        reply = http.post(CHAT, content=b" " * 3000)
        assert reply.status_code == 413
        reply = http.post(CHAT, content=(b" " * 500 for _ in range(9)))
        assert reply.status_code == 413
        assert reply.json()["error"]["code"] == "body_too_large"
        long = [{"role": "user", "content": "a" * 300}]
        reply = http.post(CHAT, json={"messages": long})
        assert reply.status_code == 413
        assert reply.json()["error"]["param"] == "messages"
        reply = http.post("/v1/completions", json={"prompt": "a" * 300})
        assert (reply.status_code, reply.json()["error"]["param"]) == (413, "prompt")
        reply = http.post("/v1/responses", json={"input": "a" * 300})
        assert (reply.status_code, reply.json()["error"]["param"]) == (413, "input")
        assert http.post(CHAT, json=HELLO).status_code == 200


@pytest.mark.parametrize(("path", "field"), [(CHAT, "messages"), ("/v1/responses", "input")])
def test_number_of_messages_is_limited(live: Live, path: str, field: str) -> None:
    message = {"role": "user", "content": "x"}
    with live.http() as http:
        reply = http.post(path, json={field: [message] * (MAX_MESSAGES + 1)})
    assert reply.status_code == 400
    assert f"at most {MAX_MESSAGES} items" in reply.json()["error"]["message"]


def test_number_of_json_values_is_limited(roomy_engine: InferenceEngine) -> None:
    text = json.dumps('a,"[{\\' * 100_000)
    cases = {
        '{"messages": [' + "[]," * 300_000 + "[]]}": 413,
        '{"messages": [' + '"",' * 600_000 + '""]}': 413,
        '{"messages": [{"role": "user", "content": ' + text + "}]}": 400,
    }
    with serving_engine(roomy_engine) as live, live.http() as http:
        for body, status in cases.items():
            reply = http.post(CHAT, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code == status
            assert (reply.json()["error"]["code"] == "body_too_large") == (status == 413)


def test_endless_body_times_out(roomy_engine: InferenceEngine) -> None:
    with serving_engine(roomy_engine, body_seconds=0.2) as live:
        host, port = httpx.URL(live.url).host, httpx.URL(live.url).port or 0
        with socket.create_connection((host, port), timeout=10) as connection:
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
            received = b""
            while b"timeout" not in received:
                data = connection.recv(4096)
                assert data, received
                received += data
        assert received.startswith(b"HTTP/1.1 408 ")
        with live.http() as http:
            assert http.get("/health").json()["running"] == 0


def test_other_origins_are_refused_unless_configured(
    live: Live, roomy_engine: InferenceEngine
) -> None:
    preflight = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    with live.http() as http:
        reply = http.options(CHAT, headers=preflight)
        assert "access-control-allow-origin" not in reply.headers
    origins = "https://a.example, https://b.example"
    with serving_engine(roomy_engine, cors_origins=origins, api_key="k") as own, own.http() as http:
        reply = http.options(CHAT, headers=preflight)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://a.example"
        refused = http.get("/v1/models", headers={"Origin": "https://a.example"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://a.example"
        reply = http.options(CHAT, headers={**preflight, "Origin": "https://c.example"})
        assert "access-control-allow-origin" not in reply.headers


def test_log_has_prompts_only_if_configured(
    roomy_engine: InferenceEngine, caplog: pytest.LogCaptureFixture
) -> None:
    def logged() -> dict[str, Any]:
        deadline = time.monotonic() + 5
        while True:
            found = [r for r in caplog.records if getattr(r, "fields", {}).get("path") == CHAT]
            if found:
                fields: dict[str, Any] = found[-1].fields  # type: ignore[attr-defined]
                return fields
            assert time.monotonic() < deadline
            time.sleep(0.01)

    body = {"messages": [{"role": "user", "content": "Open sesame"}], "max_tokens": 4}
    for shown in (False, True):
        caplog.clear()
        with (
            caplog.at_level(logging.INFO, logger="proxy_engine.server"),
            serving_engine(roomy_engine, log_prompts=shown) as live,
            live.http() as http,
        ):
            reply = http.post(CHAT, json=body)
            facts = logged()
        assert facts["request_id"] == reply.headers["x-request-id"]
        assert facts["status"] == 200
        assert facts["completion_tokens"] == reply.json()["usage"]["completion_tokens"]
        assert ("Open sesame" in json.dumps(facts, default=str)) == shown


def test_documentation_and_page_are_served(live: Live) -> None:
    with live.http() as http:
        assert "swagger" in http.get("/docs").text.lower()
        paths = http.get("/openapi.json").json()["paths"]
        assert "<html" in http.get("/").text
    assert {CHAT, "/v1/completions", "/v1/responses", "/v1/models", "/health"} <= set(paths)


def test_unknown_host_names_are_refused(live: Live, roomy_engine: InferenceEngine) -> None:
    with live.http() as http:
        for name in ("localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:8000"):
            assert http.get("/health", headers={"Host": name}).status_code == 200
        for name in (
            *("a.example", "localhost.a.example", "127.0.0.1.a.example:8000", "[::2]", ""),
            *("[::1]evil.com", "[::1", "127.0.0.1:80@evil.com", "localhost:http"),
        ):
            reply = http.get("/health", headers={"Host": name})
            assert reply.status_code == 403
            assert reply.json()["error"]["code"] == "unknown_host"
    for names, other in (("a.example", 403), ("*", 200)):
        with serving_engine(roomy_engine, allowed_hosts=names) as own, own.http() as http:
            assert http.get("/health", headers={"Host": "a.example:8"}).status_code == 200
            assert http.get("/health", headers={"Host": "b.example"}).status_code == other


HOSTS = ["localhost", "127.0.0.1", "[::1]", "a.example"]
ODD = st.text(st.sampled_from("@:[]./\\ #?,%0189lx"), max_size=3)


@given(st.lists(st.one_of(st.sampled_from([*HOSTS, ":80", ":", "evil.com"]), ODD), max_size=4))
@example(["[::1]evil.com"])
@example(["[::1"])
@example(["127.0.0.1:80@evil.com"])
@example(["localhost", ":"])
@example([])
def test_only_known_hosts_with_an_optional_port_are_let_in(pieces: list[str]) -> None:
    host = "".join(pieces)
    let_in = []
    sent: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        let_in.append(scope)

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the body is not read")

    headers = [(b"host", b"LOCALHOST:1"), (b"host", host.encode())]
    scope = {"type": "http", "path": "/", "headers": headers}
    asyncio.run(HostMiddleware(app, ["A.example"])(scope, receive, send))  # type: ignore[arg-type]
    name, _, port = host.rpartition(":")
    is_known = host in HOSTS or (name in HOSTS and not port.strip("0123456789"))
    assert bool(let_in) == is_known
    assert [message.get("status") for message in sent][:1] == ([] if is_known else [403])


def test_api_key_is_required_in_a_mounted_application(roomy_engine: InferenceEngine) -> None:
    outer = FastAPI()
    outer.mount("/inner", create_app(make_settings(api_key="k"), engine=roomy_engine))
    with serving(outer) as live, live.http() as http:
        assert http.get("/inner/health").status_code == 200
        assert http.get("/inner/v1/models").status_code == 401
        key = {"Authorization": "Bearer k"}
        assert http.get("/inner/v1/models", headers=key).status_code == 200


def test_compile_time_is_limited(tiny_model: Any, tiny_tokenizer: Any) -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"pattern": f"a{n}"} for n in range(400)}}
    body = {**HELLO, "guided_json": schema}
    with (
        InferenceEngine(tiny_model, tiny_tokenizer, max_compile_seconds=0.001) as engine,
        serving_engine(engine) as live,
        live.http() as http,
    ):
        reply = http.post(CHAT, json=body)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert (error["code"], error["param"]) == ("constraint_too_complex", "guided_json")
        assert error["seconds"] == 0.001
        assert http.post(CHAT, json=HELLO).status_code == 200


def test_body_without_a_content_type_is_json_unless_a_page_sends_it(live: Live) -> None:
    body = json.dumps(HELLO).encode()
    with live.http() as http:
        assert http.post(CHAT, content=body).status_code == 200
        assert (
            http.post(CHAT, content=body, headers={"Origin": "https://a.example"}).status_code
            == 400
        )


def test_key_may_be_anthropics_header_and_metrics_may_be_open(
    roomy_engine: InferenceEngine,
) -> None:
    with serving_engine(roomy_engine, api_key="k", open_metrics=True) as own, own.http() as http:
        assert http.get("/v1/models", headers={"x-api-key": "k"}).status_code == 200
        refused = http.get("/v1/models", headers={"x-api-key": "other"})
        assert refused.json()["error"]["type"] == "invalid_request_error"
        assert refused.json()["error"]["code"] == "invalid_api_key"
        assert http.get("/metrics").status_code == 200
        error = http.post("/v1/messages", json={}).json()["error"]
        assert error["type"] == "authentication_error"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineClosedError("the engine was closed"), "shutting_down"),
        (DistributedError("rank 1 has failed", rank=1), "rank_failed"),
    ],
)
def test_failed_rank_is_not_a_server_that_shuts_down(error: EngineClosedError, code: str) -> None:
    assert api_error(error).code == code
