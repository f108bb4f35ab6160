"""The ordinary server's applications behind a router."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import uvicorn
from live_router import running
from live_server import Live, make_settings, serving

from proxy_engine import InferenceEngine
from proxy_engine.runtime import process_runtime
from proxy_engine.server.app import create_app
from proxy_engine.server.listening import uvicorn_config
from proxy_engine.server.router.supervisor import choice_for, create_router
from proxy_engine.server.router.workers import Workers, worker_settings


async def _nothing() -> None:
    pass


@pytest.fixture(scope="module")
def live(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A router whose two workers share an engine."""
    settings = make_settings(workers=2, api_key="key", aliases=("a",))
    numbers: dict[int, int] = {}

    class Numbered(uvicorn.Server):
        number = 0

        async def startup(self, sockets: object = None) -> None:
            numbers[threading.get_ident()] = self.number
            await super().startup()

    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_runtime, "worker", lambda: numbers.get(threading.get_ident()))
        workers = Workers(settings, Path(directory))
        servers = []
        for number, path in enumerate(workers.sockets):
            app = create_app(worker_settings(settings), engine=roomy_engine)
            app.state.services.host.close = _nothing
            servers.append(Numbered(uvicorn_config(app, worker_settings(settings), path)))
            servers[-1].number = number
        workers.ready = {0, 1}
        router = create_router(settings, workers, choice_for(settings))
        router.state.services = None
        with running(servers), serving(router) as live:  # type: ignore[arg-type]
            yield live


@pytest.fixture(scope="module")
def client(live: Live) -> openai.OpenAI:
    return live.client("key")


def test_openai_client_streams_and_constrains(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="a",
        messages=[{"role": "user", "content": "Pick."}],
        stream=True,
        extra_body={"choice": ["yes", "no"]},
    ) as stream:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text in ("yes", "no")
    with pytest.raises(openai.BadRequestError, match="minimum"):
        client.chat.completions.create(
            model="a",
            messages=[{"role": "user", "content": "Pick."}],
            extra_body={"json_schema": {"type": "integer", "minimum": "one"}},
        )
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("unknown")


def test_stored_objects_are_found_on_their_worker(client: openai.OpenAI) -> None:
    used = set()
    for _ in range(2):
        conversation = client.conversations.create(items=[{"role": "user", "content": "Hello"}])
        used.add(conversation.id[5:7])
        response = client.responses.create(
            model="a", input="Hello", conversation=conversation.id, max_output_tokens=2
        )
        assert response.id[5:7] == conversation.id[5:7]
        further = client.responses.create(
            model="a", input="Again", previous_response_id=response.id, max_output_tokens=2
        )
        assert client.responses.retrieve(further.id).output == further.output
        assert len(client.conversations.items.list(conversation.id).data) == 3
        client.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response.id)
        client.conversations.delete(conversation.id)
    assert used == {"00", "01"}


def test_overview_is_that_of_all_workers(live: Live, client: openai.OpenAI) -> None:
    models = client.models.list().data
    assert len({model.id for model in models}) == len(models)
    assert models[0].model_dump()["loaded"]
    for _ in range(2):
        client.completions.create(model="a", prompt="Hello", max_tokens=1)
    with live.http() as http:
        health = http.get("/health").json()
        assert (health["status"], health["running"]) == ("ok", 0)
        assert [one["worker"] for one in health["workers"]] == [0, 1]
        assert all(one["model"] == health["model"] for one in health["workers"])
        assert http.get("/").headers["content-type"].startswith("text/html")
        assert http.get("/metrics").status_code == 401
        metrics = http.get("/metrics", headers={"Authorization": "Bearer key"}).text
    lines = metrics.splitlines()
    assert 'proxy_engine_requests_total{path="other",status="401",worker="router"} 1.0' in lines
    for worker in (0, 1):
        assert f'proxy_engine_worker_ready{{worker="{worker}"}} 1.0' in lines
        assert f'proxy_engine_model_loaded{{worker="{worker}"}} 1.0' in lines
        assert any(
            line.startswith(f'proxy_engine_answer_seconds_bucket{{le="0.01",worker="{worker}"')
            for line in lines
        )
    assert len([line for line in lines if line.startswith("# TYPE")]) == len(
        {line for line in lines if line.startswith("# TYPE")}
    )


def test_early_refusal_of_an_upload_reaches_the_client(live: Live) -> None:
    headers = {"Authorization": "Bearer key", "Content-Type": "multipart/form-data; boundary=x"}
    body = b"--x\r\nBad header\r\n\r\n" + b"z" * 5_000_000
    with live.http() as http:
        for _ in range(3):
            reply = http.post("/v1/audio/transcriptions", content=body, headers=headers)
            assert reply.status_code == 400
            assert "multipart" in reply.json()["error"]["message"]


def test_long_prompt_is_refused_by_the_worker(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="a", prompt="word " * 60_000)
    assert caught.value.code == "context_length_exceeded"
