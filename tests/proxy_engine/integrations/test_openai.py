"""OpenAI's own clients on an engine in the same process."""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import function_tool
from pydantic import BaseModel, Field
from scripted_answers import ScriptedModel
from tiny_models import make_tiny_model, make_tiny_tokenizer

from proxy_engine import GenerationOptions, InferenceEngine
from proxy_engine.integrations import application
from proxy_engine.integrations.openai import EngineTransport

HELLO: Any = [{"role": "user", "content": "Hello"}]
LONG: Any = {
    "model": "",
    "messages": HELLO,
    "max_tokens": 3000,
    "extra_body": {"min_tokens": 3000},
}
TOOL: Any = function_tool(
    "weather", {"properties": {"city": {"enum": ["Oslo", "Lima"]}}, "required": ["city"]}
)


class Person(BaseModel):
    name: str = Field(max_length=4)
    age: int = Field(ge=0, le=130)


@pytest.fixture(scope="module")
def engine() -> Iterator[InferenceEngine]:
    with InferenceEngine(make_tiny_model(context=4096), make_tiny_tokenizer()) as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: InferenceEngine) -> openai.OpenAI:
    return engine.openai()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def runs_nothing(engine: InferenceEngine) -> Callable[[], bool]:
    return lambda: engine.running_requests + engine.queued_requests == 0


# What clients call


def test_options_that_a_request_does_not_give_are_those_of_the_engine(
    tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_ENGINE_API_KEY", "secret")
    monkeypatch.setenv("PROXY_ENGINE_MAX_TOKENS", "3")
    options = GenerationOptions(max_tokens=5, min_tokens=5, temperature=0.5)
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, options=options) as engine:
        response = engine.openai().responses.create(input="Hello")
        assert response.usage is not None
        assert (response.usage.output_tokens, response.temperature) == (5, 0.5)


def test_structured_output_tools_and_grammars_are_exact(client: openai.OpenAI) -> None:
    request: Any = {"model": "", "messages": HELLO, "max_tokens": 100}
    parsed = client.chat.completions.parse(response_format=Person, **request)
    assert isinstance(parsed.choices[0].message.parsed, Person)
    called = client.chat.completions.create(tools=[TOOL], tool_choice="required", **request)
    for call in called.choices[0].message.tool_calls or ():
        assert json.loads(call.function.arguments)["city"] in {"Oslo", "Lima"}  # type: ignore[union-attr]
    number = client.chat.completions.create(extra_body={"regex": "[0-9]{3}"}, **request)
    assert (number.choices[0].message.content or "").isdigit()


def test_answer_in_a_format_that_a_limit_cut_short_is_refused_by_parse(
    client: openai.OpenAI,
) -> None:
    asked: Any = {
        "model": "", "messages": HELLO, "max_tokens": 30, "response_format": Person,
        "extra_body": {"min_tokens": 9, "parts": {"structured": {"max_tokens": 1}}},
    }  # fmt: skip
    with pytest.raises(openai.LengthFinishReasonError) as caught:
        client.chat.completions.parse(**asked)
    (choice,) = caught.value.completion.choices
    Person.model_validate_json(choice.message.content or "")
    assert choice.finish_reason == "length"
    assert choice.model_extra["proxy_engine"]["cut_short"]["reason"] == "max_tokens"  # type: ignore[index]
    with (
        pytest.raises(openai.LengthFinishReasonError),
        client.chat.completions.stream(**asked) as events,
    ):
        assert [event.type for event in events]


def test_helpers_for_streams_return_parsed_answers(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="", messages=HELLO, max_tokens=100, response_format=Person
    ) as events:
        assert "content.delta" in {event.type for event in events}
        assert isinstance(events.get_final_completion().choices[0].message.parsed, Person)


def test_other_endpoints_answer_too(engine: InferenceEngine, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [engine.model_name]
    assert client.completions.create(model="", prompt="Once", max_tokens=3).choices[0].text
    first = client.responses.create(input="Hello", max_output_tokens=3)
    # Clients of an engine share what is stored.
    again = engine.openai().responses.create(
        input="Go on", max_output_tokens=3, previous_response_id=first.id
    )
    assert again.previous_response_id == first.id
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="", input="x")


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "string", "enum": []}}}}, openai.BadRequestError, "no JSON value"),
        ({"extra_body": {"draft_model": "b"}}, openai.NotFoundError, "'b' not found"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, openai.BadRequestError, "tokens"),
    ],
)  # fmt: skip
def test_errors_are_the_exceptions_of_the_client(
    client: openai.OpenAI, request_: Any, error: type[Exception], text: str
) -> None:
    request: Any = {"model": "", "messages": HELLO, **request_}
    for stream in (False, True):
        with pytest.raises(error, match=text):
            client.chat.completions.create(stream=stream, **request)


# Streams and cancellation


def test_streams_have_each_token_as_it_is_generated(
    engine: InferenceEngine, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(stream=True, **LONG)
    chunks = [next(stream) for _ in range(5)]
    assert engine.running_requests == 1
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks)
    stream.close()
    wait_until(runs_nothing(engine))


def test_transport_is_the_value_of_its_context(engine: InferenceEngine) -> None:
    async def enter() -> object:
        async with EngineTransport(engine) as transport:
            return transport

    with EngineTransport(engine) as transport:
        assert isinstance(transport, EngineTransport)
    assert isinstance(asyncio.run(enter()), EngineTransport)


@pytest.mark.parametrize("library", ["openai", "httpx"])
@pytest.mark.parametrize("end", ["close", "drop"])
def test_ended_stream_cancels_its_request(engine: InferenceEngine, library: str, end: str) -> None:
    # `openai` 3 is built on `httpx2`.
    transport: Any = EngineTransport(engine)
    options = {"http_client": httpx.Client(transport=transport)} if library == "httpx" else {}
    stream = engine.openai(**options).chat.completions.create(stream=True, **LONG)
    next(iter(stream))
    assert engine.running_requests == 1
    if end == "close":
        stream.close()
    del stream
    gc.collect()
    wait_until(runs_nothing(engine))


@pytest.mark.parametrize("library", ["openai", "httpx"])
@pytest.mark.parametrize("end", ["close", "drop", "cancel a stream", "cancel an answer"])
def test_event_loops_cancel_their_requests(engine: InferenceEngine, library: str, end: str) -> None:
    transport: Any = EngineTransport(engine)
    options = {"http_client": httpx.AsyncClient(transport=transport)} if library == "httpx" else {}

    async def main() -> None:
        client = engine.async_openai(**options)

        async def read() -> None:
            created = await client.chat.completions.create(stream=end != "cancel an answer", **LONG)
            async for _ in created:
                if end == "close":
                    await created.close()
                if end in ("close", "drop"):
                    break

        task = asyncio.create_task(read())
        while not engine.running_requests:
            await asyncio.sleep(0.002)
        if end.startswith("cancel"):
            task.cancel()
        await asyncio.wait({task})
        del task
        gc.collect()
        while engine.running_requests:
            await asyncio.sleep(0.002)

    asyncio.run(asyncio.wait_for(main(), 20))


# Threads, event loops and processes


def test_concurrent_requests_share_forward_passes(tiny_tokenizer: TokenizerWrapper) -> None:
    script = ScriptedModel(tiny_tokenizer, {1: "words " * 25})
    with InferenceEngine(script, tiny_tokenizer) as engine:

        def ask(_: int) -> str | None:
            client = engine.openai()
            answer = client.chat.completions.create(
                model="", messages=HELLO, max_tokens=300, extra_body={"speculation": "off"}
            )
            return answer.choices[0].message.content

        with ThreadPoolExecutor(6) as threads:
            assert [*threads.map(ask, range(6))] == ["words " * 25] * 6
        assert script.largest_batch > 1


def test_client_for_threads_works_within_an_event_loop(client: openai.OpenAI) -> None:
    async def main() -> Any:
        return client.chat.completions.create(model="", messages=HELLO, max_tokens=3)

    assert asyncio.run(main()).choices


def test_async_client_works_in_one_loop_after_the_other(engine: InferenceEngine) -> None:
    client = engine.async_openai()

    async def main() -> None:
        asked = (client.responses.create(input="Hello", max_output_tokens=3) for _ in range(9))
        assert len(await asyncio.gather(*asked)) == 9

    for _ in range(2):
        asyncio.run(main())


def test_closing_a_client_leaves_the_engine_open(engine: InferenceEngine) -> None:
    with engine.openai() as client:
        client.models.list()
    assert engine.openai().models.list()


def test_clients_do_not_keep_a_dropped_engine_alive() -> None:
    engine = InferenceEngine(make_tiny_model(), make_tiny_tokenizer())
    engine.openai().chat.completions.create(model="", messages=HELLO, max_tokens=2)
    reference = weakref.ref(engine)
    del engine

    def is_collected() -> bool:
        gc.collect()
        return reference() is None

    wait_until(is_collected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_process_raises(engine: InferenceEngine, client: openai.OpenAI) -> None:
    client.models.list()

    def ask() -> None:
        try:
            client.models.list()
        except openai.APIConnectionError as error:
            os._exit("fork" in repr(error.__cause__).lower())

    child = multiprocessing.get_context("fork").Process(target=ask)
    child.start()
    child.join(20)
    assert child.exitcode == 1


def test_requests_of_threads_have_one_loop(engine: InferenceEngine) -> None:
    for _ in range(2):
        engine.openai().models.list()
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("proxy-engine-requests") == 1


def test_threads_that_ask_at_the_same_time_get_one_application(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(application.Application):
        def __init__(self, engine: InferenceEngine) -> None:
            time.sleep(0.05)
            super().__init__(engine)

    monkeypatch.setattr(application, "Application", Slow)
    monkeypatch.setattr(engine, "_application", None)
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(lambda: engine.application) for _ in range(4)]
    assert len({id(one.result()) for one in found}) == 1
