"""Many clients, disconnecting clients, the queue, and shutdown."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from live_server import Live, make_settings, serving_engine

from proxy_engine import InferenceEngine
from proxy_engine.server.admission import Admission, EngineHost
from proxy_engine.server.app import create_app
from proxy_engine.server.endpoints import generating
from proxy_engine.server.metrics import Metrics
from proxy_engine.server.running import Services
from proxy_engine.server.streaming import ServerSentEvents

CHAT = "/v1/chat/completions"
# Without end tokens, answers have the full length.
LONG: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 3000,
    "logit_bias": {"263": -100, "264": -100},
}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_idle(live: Live) -> bool:
    services = live.services
    metrics = services.metrics
    return services.admission.running == services.admission.waiting == 0 and metrics.value(
        "answers_started_total"
    ) == metrics.value("request_success_total")


@pytest.fixture
def own(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A server with counters of its own."""
    with serving_engine(roomy_engine, max_queue=200) as live:
        yield live


def test_fifty_concurrent_streams_complete(own: Live) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"]}
    bodies: list[dict[str, Any]] = [
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "s", "schema": schema},
            }
        },
        {"choice": ["yes", "no", "perhaps"]},
        {},
    ]

    async def one(http: httpx.AsyncClient, number: int) -> tuple[int, str]:
        body = {**LONG, "max_tokens": 16, "stream": True, "seed": number, **bodies[number % 3]}
        body["stream_options"] = {"include_usage": True}
        text, tokens, lines = "", 0, []
        async with http.stream("POST", CHAT, json=body) as reply:
            assert reply.status_code == 200
            async for line in reply.aiter_lines():
                if line.startswith("data: "):
                    lines.append(line.removeprefix("data: "))
        assert lines[-1] == "[DONE]"
        for chunk in map(json.loads, lines[:-1]):
            for choice in chunk["choices"]:
                text += choice["delta"].get("content", "")
            tokens += (chunk.get("usage") or {}).get("completion_tokens", 0)
        return tokens, text

    async def all_of_them() -> list[tuple[int, str]]:
        limits = httpx.Limits(max_connections=60)
        async with httpx.AsyncClient(base_url=own.url, timeout=60, limits=limits) as http:
            return await asyncio.gather(*(one(http, number) for number in range(50)))

    answers = asyncio.run(all_of_them())
    assert all(json.loads(text)["a"] in (1, 2) for _, text in answers[0::3])
    assert all(text in ("yes", "no", "perhaps") for _, text in answers[1::3])
    wait_for(lambda: is_idle(own))
    metrics = own.services.metrics
    assert metrics.value("request_success_total") == 50
    assert metrics.value("request_success_total", finished_reason="cancelled") == 0
    assert metrics.value("generation_tokens_total") == sum(tokens for tokens, _ in answers)


@pytest.mark.parametrize("stream", [True, False])
def test_disconnected_client_frees_its_slot(own: Live, stream: bool) -> None:
    async def leave(number: int) -> None:
        async with httpx.AsyncClient(base_url=own.url, timeout=60) as http:
            body = {**LONG, "stream": stream, "n": 1 + number % 2}
            if not stream:
                with pytest.raises(httpx.TimeoutException):
                    await http.post(CHAT, json=body, timeout=0.3)
                return
            async with http.stream("POST", CHAT, json=body) as reply:
                async for _ in reply.aiter_lines():
                    if number:
                        break
                    number += 1

    async def all_of_them() -> None:
        await asyncio.gather(*map(leave, range(6)))

    asyncio.run(all_of_them())
    wait_for(lambda: is_idle(own))
    assert own.services.metrics.value("request_success_total", finished_reason="cancelled") == 9
    with own.http() as http:
        reply = http.post(CHAT, json={**LONG, "max_tokens": 3})
        assert reply.json()["usage"]["completion_tokens"] == 3


def test_full_queue_refuses_with_retry_after(roomy_engine: InferenceEngine) -> None:
    with serving_engine(roomy_engine, max_running=1, max_queue=1) as live, live.http() as http:
        with http.stream("POST", CHAT, json={**LONG, "stream": True, "n": 2}) as reply:
            lines = reply.iter_lines()
            next(lines)
            assert http.get("/health").json()["waiting"] == 1
            refused = http.post(CHAT, json=LONG)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "queue_full"
            assert int(refused.headers["retry-after"]) >= 1
            assert http.post(CHAT, json={**LONG, "n": 3}).status_code == 400
        wait_for(lambda: is_idle(live))
        assert http.post(CHAT, json={**LONG, "max_tokens": 2}).status_code == 200
        assert live.services.metrics.value("queue_refused_total") == 1


def test_shutdown_ends_streams_with_an_error(own: Live) -> None:
    with own.http() as http:
        with http.stream("POST", CHAT, json={**LONG, "stream": True}) as reply:
            lines = reply.iter_lines()
            next(lines)
            own.services.admission.close()
            refused = httpx.post(f"{own.url}{CHAT}", json=LONG)
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "shutting_down"
            assert httpx.get(f"{own.url}/health").status_code == 503
            own.services.admission.cancel_all()
            rest = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert rest[-1] == "[DONE]"
        assert json.loads(rest[-2])["error"]["code"] == "shutting_down"
    wait_for(lambda: is_idle(own))


def test_client_that_stops_reading_is_disconnected() -> None:
    sent: list[Any] = []
    closed: list[bool] = []

    async def frames() -> AsyncIterator[bytes]:
        while True:
            yield b"data: 1\n\n"

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) > 3:
            await asyncio.sleep(60)

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def close() -> None:
        closed.append(True)

    async def main() -> dict[str, Any]:
        log_fields: dict[str, Any] = {}
        stream = ServerSentEvents(frames(), close, keep_alive=10, patience=0.05)
        scope = {"type": "http", "state": {"log_fields": log_fields}}
        await asyncio.wait_for(stream(scope, receive, send), 10)
        return log_fields

    assert asyncio.run(main()) == {"client_gone": True}
    assert len(sent) == 4
    assert closed == [True]


def test_silent_stream_gets_keep_alive_comments(roomy_engine: InferenceEngine) -> None:
    body = {**LONG, "max_tokens": 60, "stream": True}
    with serving_engine(roomy_engine, keep_alive_seconds=0.001) as live, live.http() as http:
        text = http.post(CHAT, json=body).text
    assert ": keep-alive\n\n" in text
    assert text.endswith("data: [DONE]\n\n")


async def test_request_cancelled_as_its_response_is_ready_frees_its_slot(
    roomy_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(make_settings(), host=EngineHost(roomy_engine))
    services: Services = app.state.services
    body = {**LONG, "stream": True}
    requests = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }

    async def receive() -> Any:
        return requests.pop() if requests else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        raise AssertionError("the client has left")

    made = generating.ServerSentEvents

    def ready(*arguments: Any, **more: Any) -> Any:
        assert services.admission.running == 1
        task.cancel()
        return made(*arguments, **more)

    monkeypatch.setattr(generating, "ServerSentEvents", ready)
    task = asyncio.create_task(app(scope, receive, send))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert services.admission.running == 0


def test_answers_that_begin_during_a_shutdown_are_cancelled(roomy_engine: InferenceEngine) -> None:
    host = EngineHost(roomy_engine)
    admission = Admission(host, Metrics(), max_running=1, max_waiting=0)
    cancelled: list[str] = []
    with admission.cancellable(lambda: cancelled.append("before")):
        admission.close()
        admission.cancel_all()
    with admission.cancellable(lambda: cancelled.append("during")):
        assert cancelled == ["before", "during"]
