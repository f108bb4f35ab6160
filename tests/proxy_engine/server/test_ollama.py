"""Ollama's endpoints with its own client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import ollama
import pytest
from live_server import Live
from object_schemas import function_tool

from proxy_engine.server.unknown_fields import HEADER

HELLO: Any = [{"role": "user", "content": "Hello"}]
MODEL = "SmolLM2-135M-Instruct"
SCHEMA = {"type": "object", "properties": {"stars": {"enum": [1, 2]}}, "required": ["stars"]}
TOOL: Any = function_tool(
    "weather",
    {
        "type": "object",
        "properties": {"city": {"enum": ["Lima", "Oslo"]}},
        "required": ["city"],
    },
)
SHORT = {"num_predict": 12, "temperature": 0}


@pytest.fixture(scope="module")
def llama(live: Live) -> ollama.Client:
    return ollama.Client(live.url)


def post(live: Live, path: str, **body: Any) -> httpx.Response:
    with live.http() as http:
        return http.post(f"/api/{path}", json=body)


def test_stream_has_the_text_of_the_whole_answer(llama: ollama.Client) -> None:
    whole = llama.chat(MODEL, HELLO, options=SHORT)
    assert (whole.model, whole.done, whole.message.role) == (MODEL, True, "assistant")
    assert 0 < whole.eval_count <= 12
    lines = [*llama.chat(MODEL, HELLO, options=SHORT, stream=True)]
    assert "".join(line.message.content or "" for line in lines) == whole.message.content
    assert [line.done for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1].eval_count == whole.eval_count


def test_line_separators_of_unicode_divide_no_line(live: Live) -> None:
    text = "a\x85b\u2028c\u2029d"
    with (
        live.http() as http,
        http.stream("POST", "/api/generate", json={"prompt": "a", "choice": [text]}) as lines,
    ):
        # As Ollama's client reads them.
        assert "".join(json.loads(line)["response"] for line in lines.iter_lines()) == text


async def test_async_client_generates(live: Live) -> None:
    client = ollama.AsyncClient(live.url)
    answer = await client.generate(MODEL, "Hello", system="Be brief.", options=SHORT)
    assert answer.response
    pieces = await client.generate(MODEL, "Hello", system="Be brief.", options=SHORT, stream=True)
    assert "".join([piece.response async for piece in pieces]) == answer.response
    raw = await client.generate(MODEL, "Hello", raw=True, options=SHORT)
    assert raw.prompt_eval_count < answer.prompt_eval_count


@pytest.mark.parametrize("form", ["json", SCHEMA])
def test_answer_has_the_format(llama: ollama.Client, form: Any) -> None:
    options = {"num_predict": 60}
    for text in (
        llama.chat(MODEL, HELLO, format=form, options=options).message.content,
        llama.generate(MODEL, "Hello", format=form, options=options).response,
    ):
        value = json.loads(text or "")
        assert isinstance(value, dict)
        assert form == "json" or value["stars"] in (1, 2)


def test_calls_and_their_results_are_read(live: Live, llama: ollama.Client) -> None:
    call = {"function": {"name": "weather", "arguments": {"city": "Lima"}}}
    turns = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call, call]},
        {"role": "tool", "tool_name": "weather", "content": "Sunny."},
        {"role": "tool", "tool_name": "weather", "content": "Sunny."},
    ]
    answer = llama.chat(MODEL, turns, tools=[TOOL], options={"num_predict": 60})
    assert all(call.function.name == "weather" for call in answer.message.tool_calls or ())
    reply = post(live, "chat", messages=turns, options={"num_ctx": 9, "num_predict": 2})
    assert reply.headers["content-type"].startswith("application/x-ndjson")
    assert reply.headers[HEADER] == "options.num_ctx"


@pytest.mark.parametrize("stream", [False, True])
def test_request_without_a_text_loads_the_model(live: Live, stream: bool) -> None:
    for path, body in (("generate", {}), ("generate", {"prompt": ""}), ("chat", {"messages": []})):
        reply = post(live, path, model=MODEL, stream=stream, keep_alive="5m", **body).json()
        assert (reply["done"], reply["done_reason"], reply["model"]) == (True, "load", MODEL)
        assert (reply["message"]["content"] if path == "chat" else reply["response"]) == ""


def test_models_are_listed(llama: ollama.Client) -> None:
    assert MODEL in [model.model for model in llama.list().models]


@pytest.mark.parametrize(
    ("path", "body", "status", "what"),
    [
        ("chat", {"model": "nope", "messages": HELLO}, 404, "'nope' not found"),
        ("generate", {"model": "nope"}, 404, "'nope' not found"),
        ("chat", {"messages": HELLO, "options": {"temperature": -1}}, 400, "options.temperature should be"),
        ("generate", {"prompt": "a", "format": {"type": "text"}}, 400, "text"),
    ],
)  # fmt: skip
def test_errors_are_sentences(
    live: Live, path: str, body: dict[str, Any], status: int, what: str
) -> None:
    reply = post(live, path, **body)
    assert reply.status_code == status
    assert what in reply.json()["error"]
