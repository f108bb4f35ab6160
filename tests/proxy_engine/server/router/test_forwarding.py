"""Requests through a router to stand-in workers."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from live_router import Routed, routing

CHAT = "/v1/chat/completions"


def chat(text: str = "Hello", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


def events(reply: httpx.Response) -> list[dict[str, Any]]:
    frames = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    return [json.loads(frame) for frame in frames if frame != "[DONE]"]


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("the condition does not become true")


def repeats(client: httpx.Client) -> float:
    found = re.search(
        r"^proxy_engine_requests_repeated_total (.*)$", client.get("/metrics").text, re.M
    )
    assert found is not None
    return float(found[1])


@pytest.fixture(scope="module")
def routed() -> Iterator[Routed]:
    with routing(max_body_bytes=100_000, body_seconds=0.3, write_seconds=0.5) as routed:
        yield routed


@pytest.fixture(scope="module")
def client(routed: Routed) -> Iterator[httpx.Client]:
    with routed.http() as client:
        yield client


def test_request_and_response_are_forwarded_unchanged(routed: Routed, client: httpx.Client) -> None:
    headers = {"X-Request-ID": "mine", "X-Other": "kept", "Connection": "keep-alive"}
    body = chat("What?", stream=False)
    reply = client.post("/v1/some%2Fpath?a=b%20c", json=body, headers=headers)
    worker = routed.apps[events(reply)[0]["worker"]]
    assert [event["text"] for event in events(reply)] == ["first", "last"]
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-request-id"] == "mine"
    assert len(reply.headers.get_list("date")) == 1
    assert worker.targets[-1] == "POST /v1/some%2Fpath"
    assert worker.seen[-1] == body
    assert worker.headers[-1]["x-request-id"] == "mine"
    assert worker.headers[-1]["x-other"] == "kept"
    assert worker.headers[-1]["connection"] == "close"


def test_conversation_stays_with_its_worker(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": f"A long question {'x' * 100}"}]
    first = events(client.post(CHAT, json={"messages": messages}))[0]["worker"]
    for turn in range(5):
        client.post(CHAT, json=chat(f"Something else {turn}"))
        messages += [{"role": "assistant", "content": "y" * 5000}]
        messages += [{"role": "user", "content": f"Turn {turn}"}]
        reply = client.post(CHAT, json={"messages": messages})
        assert events(reply)[0]["worker"] == first


def test_request_moves_on_if_its_worker_dies_before_the_first_byte(
    routed: Routed, client: httpx.Client
) -> None:
    seen = [len(app.seen) for app in routed.apps]
    repeated = repeats(client)
    reply = client.post(CHAT, json=chat("die"))
    assert repeats(client) == repeated + 1
    # On both workers: a request that kills workers is run twice at most.
    assert [len(app.seen) for app in routed.apps] == [count + 1 for count in seen]
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "worker_lost"
    assert reply.headers["retry-after"] == "1"
    assert routed.workers.queues == [0, 0]


@pytest.mark.parametrize("path", [CHAT, "/v1/responses"])
def test_stream_whose_worker_dies_ends_with_an_error_event(client: httpx.Client, path: str) -> None:
    reply = client.post(path, json=chat("die later"))
    lines = [line for line in reply.text.splitlines() if line]
    if path == CHAT:
        assert json.loads(lines[1].removeprefix("data: "))["error"]["code"] == "worker_lost"
        assert lines[2:] == ["data: [DONE]"]
    else:
        assert lines[1] == "event: error"
        event = json.loads(lines[2].removeprefix("data: "))
        assert (event["type"], event["code"]) == ("error", "worker_lost")
        assert event["sequence_number"] == 8


def test_response_whose_worker_dies_is_cut_off(client: httpx.Client) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(CHAT, json=chat("die later", stream=False))


def test_client_that_disconnects_cancels_its_request(routed: Routed, client: httpx.Client) -> None:
    cancelled = sum(app.cancelled for app in routed.apps)
    with client.stream("POST", CHAT, json=chat("wait")) as reply:
        next(reply.iter_lines())
    wait_until(lambda: sum(app.cancelled for app in routed.apps) == cancelled + 1)
    wait_until(lambda: routed.workers.queues == [0, 0])


def test_slow_reader_blocks_nobody_and_is_cut_off(routed: Routed, client: httpx.Client) -> None:
    address = httpx.URL(routed.url)
    body = json.dumps(chat(events=1000, size=100_000)).encode()
    with socket.create_connection((address.host, address.port or 0)) as connection:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert connection.recv(100)
        wait_until(lambda: sum(routed.workers.queues) == 1)
        for _ in range(10):
            assert client.post(CHAT, json=chat()).status_code == 200
        wait_until(lambda: routed.workers.queues == [0, 0])


def test_uploads_are_streamed_to_the_worker(routed: Routed, client: httpx.Client) -> None:
    pieces = [b"\0" * 2_000] * 40
    for content, length in ((iter(pieces), None), (b"".join(pieces), "80000")):
        reply = client.post("/v1/audio/transcriptions", content=content)
        worker = routed.apps[events(reply)[0]["worker"]]
        assert worker.seen[-1] == 80_000
        assert worker.headers[-1].get("content-length") == length


@pytest.mark.parametrize(
    ("length", "status", "code"), [(100_000, 413, "body_too_large"), (1, 200, None)]
)
def test_large_bodies_reach_no_worker(
    routed: Routed,
    client: httpx.Client,
    length: int,
    status: int,
    code: str | None,
) -> None:
    seen = sum(len(app.seen) for app in routed.apps)
    content = json.dumps(chat("x" * length)).encode()
    for sent in (content, iter([content])):
        reply = client.post(CHAT, content=sent)
        assert reply.status_code == status
        assert code is None or reply.json()["error"]["code"] == code
    assert sum(len(app.seen) for app in routed.apps) == seen + 2 * (status == 200)


def test_slow_bodies_time_out(routed: Routed) -> None:
    address = httpx.URL(routed.url)
    for path in (CHAT, "/v1/audio/transcriptions"):
        with socket.create_connection((address.host, address.port or 0), timeout=10) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
            connection.sendall(head.encode() + b"x")
            assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
    wait_until(lambda: routed.workers.queues == [0, 0])


def test_body_is_parsed_by_the_worker_alone(routed: Routed, client: httpx.Client) -> None:
    for content in (b"", b"no JSON", b"[1]", b'{"messages": 1}'):
        assert client.post(CHAT, content=content).status_code == 200


def test_keys_and_host_names_are_checked_before_a_worker_is_asked() -> None:
    with routing(1, api_key="key", allowed_hosts=("name",)) as routed, routed.http() as client:
        assert client.post(CHAT, json=chat()).status_code == 401
        assert client.get("/metrics").status_code == 401
        headers = {"Authorization": "Bearer key"}
        assert client.post(CHAT, json=chat(), headers=headers).status_code == 200
        reply = client.get("/", headers={"Host": "evil.example"})
        assert reply.json()["error"]["code"] == "unknown_host"
        assert len(routed.apps[0].seen) == 1


def test_without_a_worker_requests_are_refused(client: httpx.Client, routed: Routed) -> None:
    ready = routed.workers.ready
    routed.workers.ready = set()
    try:
        for reply in (client.post(CHAT, json=chat()), client.get("/v1/models")):
            assert reply.status_code == 503
            assert reply.json()["error"]["code"] == "workers_starting"
            assert reply.headers["retry-after"] == "5"
        assert client.get("/health").status_code == 503
        routed.workers.is_closed = True
        assert client.post(CHAT, json=chat()).json()["error"]["code"] == "shutting_down"
        assert client.get("/health").json()["status"] == "shutting_down"
    finally:
        routed.workers.ready, routed.workers.is_closed = ready, False


def test_log_names_the_workers_of_failed_requests(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[dict[str, Any]]:
        fields = [record.__dict__.get("fields", {}) for record in caplog.records]
        return [line for line in fields if line.get("path") == CHAT and line.get("workers")]

    with caplog.at_level("INFO", "proxy_engine.server"):
        client.post(CHAT, json=chat())
        client.post(CHAT, json=chat("die"))
        wait_until(lambda: len(lines()) == 1)
    assert (lines()[0]["status"], lines()[0]["workers"]) == (503, [0, 1])


def test_many_requests_at_once_are_shared_out(routed: Routed, client: httpx.Client) -> None:
    seen = [len(app.seen) for app in routed.apps]

    def ask(number: int) -> int:
        return client.post(CHAT, json=chat(f"Question {number}")).status_code

    with ThreadPoolExecutor(20) as threads:
        assert set(threads.map(ask, range(20))) == {200}
    added = [len(app.seen) - before for app, before in zip(routed.apps, seen, strict=True)]
    assert sum(added) == 20
    assert min(added) >= 5
