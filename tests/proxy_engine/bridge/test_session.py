"""Sessions in this process: commands and their replies."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest
from bridge_clients import Client, FakeEngine, is_last
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import (
    InferenceEngine,
    Interaction,
    ModelNotFoundError,
    PromptProgress,
    TextDelta,
    TokenGenerated,
    ToolCall,
)
from proxy_engine.bridge.commands import LoadCommand
from proxy_engine.bridge.errors import LineTooLongError

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"enum": [1, 2]}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Lima", "Oslo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
TOKENS = [
    TokenGenerated(part="text", token_id=4, text="a"),
    TokenGenerated(part="structured", token_id=5, text="{", is_forced=True),
]

MakeEngine = Callable[[LoadCommand], Any]


def run(
    scenario: Callable[[Client], Awaitable[None]], make_engine: MakeEngine, **options: Any
) -> Client:
    """Run a scenario with a new client, and close the session."""

    async def main() -> Client:
        client = Client(make_engine, **options)
        try:
            await scenario(client)
        finally:
            assert await client.session.close() or options
        return client

    return asyncio.run(main())


def fake(*events: Any, is_endless: bool = False) -> MakeEngine:
    return lambda command: FakeEngine(*events, is_endless=is_endless)


@pytest.fixture
def tiny(roomy_model: Any, tiny_tokenizer: TokenizerWrapper) -> MakeEngine:
    """Load the tiny model instead of the named one."""
    return lambda command: InferenceEngine(
        roomy_model, tiny_tokenizer, tool_format=command.tool_format
    )


def test_session_loads_a_model_and_generates(tiny: MakeEngine) -> None:
    async def scenario(client: Client) -> None:
        loaded = await client.ask({"cmd": "load", "id": 0, "path": "anything"})
        assert loaded == {
            "id": 0,
            "ok": True,
            "model": "mlx_lm.models.llama",
            "model_type": "llama",
            "vocab_size": 320,
            "context_length": 4096,
            "layers": 2,
            "hidden_size": 32,
            "draft_model": None,
        }
        done = await client.ask(
            {
                "cmd": "generate",
                "id": "g",
                "prompt": "x",
                "response_format": PERSON,
                "temperature": 1.0,
                "seed": 4,
                "stop": None,
            }
        )
        result = done["result"]
        jsonschema.validate(result["parsed"], PERSON)
        assert json.loads(result["text"]) == result["parsed"]
        assert done["tokens_generated"] == len(result["token_ids"])
        again = await client.ask(
            {
                "cmd": "chat",
                "id": "c",
                "messages": [{"role": "user", "content": "x"}],
                "response_format": {"type": "json_schema", "json_schema": {"schema": PERSON}},
                "temperature": 1.0,
                "seed": 4,
            }
        )
        assert again["result"]["token_ids"] == result["token_ids"]

    run(scenario, tiny)


def test_requested_events_arrive_in_order(tiny: MakeEngine) -> None:
    async def scenario(client: Client) -> None:
        client.send({"cmd": "load", "tool_format": "hermes"})
        request = {
            "cmd": "generate",
            "prompt": "x",
            "tools": [TOOL],
            "tool_choice": "required",
            "parallel_tool_calls": False,
            "temperature": 1.0,
        }
        kinds = ["tool_call_started", "tool_call_delta", "tool_call_finished"]
        done = await client.ask({**request, "id": 1, "events": kinds})
        told = [reply["event"] for reply in client.of(1)[:-1]]
        assert [event["type"] for event in (told[0], told[-1])] == [kinds[0], kinds[2]]
        written = "".join(event["arguments"] for event in told[1:-1])
        (call,) = done["result"]["tool_calls"]
        assert json.loads(written) == told[-1]["arguments"] == call["arguments"]
        assert call["name"] == "weather"
        assert done["result"]["finish_reason"] == "tool_calls"
        await client.ask({**request, "id": 2, "events": []})
        assert len(client.of(2)) == 1
        await client.ask({"cmd": "generate", "id": 3, "prompt": "x", "max_tokens": 5,
                          "events": ["text_delta", "prompt_progress"], "temperature": 1.0})  # fmt: skip
        *told_3, done_3 = client.of(3)
        text = [r["event"]["text"] for r in told_3 if r["event"]["type"] == "text_delta"]
        assert "".join(text) == done_3["result"]["text"]
        assert len(text) < len(told_3)

    run(scenario, tiny)


def test_chat_accepts_interactions(tiny: MakeEngine, roomy_engine: InferenceEngine) -> None:
    call = ToolCall("c", "weather", {"city": "Oslo"})
    turns = [
        Interaction("system", "Be brief."),
        Interaction("user", "x"),
        Interaction("assistant", "y", tool_calls=[call], reasoning="z"),
        Interaction.tool_result(call, {"degrees": 12}),
        Interaction("user", "x"),
    ]
    options: Any = {
        "tools": [TOOL],
        "tool_choice": "none",
        "tool_format": "hermes",
        "max_tokens": 3,
    }

    async def scenario(client: Client) -> None:
        client.send({"cmd": "load"})
        messages = [turn.to_dict() for turn in turns]
        reply = await client.ask({"cmd": "chat", "id": 1, "messages": messages, **options})
        result = reply["result"]
        expected = await roomy_engine.agenerate(turns, **options)
        assert result["token_ids"] == list(expected.token_ids)
        assert result["usage"]["prompt_tokens"] == expected.usage.prompt_tokens

    run(scenario, tiny)


def test_answer_with_tool_calls_is_sent_back_as_a_message(tiny: MakeEngine) -> None:
    question = {"role": "user", "content": "x"}
    asked = {
        "cmd": "chat",
        "tools": [TOOL],
        "tool_format": "hermes",
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }

    async def scenario(client: Client) -> None:
        client.send({"cmd": "load"})
        answer = (await client.ask({**asked, "id": 1, "messages": [question]}))["result"]
        turn = {
            "role": "assistant",
            "content": answer["text"],
            "reasoning": answer["reasoning"],
            "tool_calls": answer["tool_calls"],
        }
        (call,) = answer["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "12"}
        last = await client.ask({**asked, "id": 2, "messages": [question, turn, result]})
        assert last["result"]["usage"]["prompt_tokens"] > answer["usage"]["prompt_tokens"]

    run(scenario, tiny)


def test_tokens_are_sent_as_they_are_generated() -> None:
    async def scenario(client: Client) -> None:
        client.send({"cmd": "load", "id": 0}, {"cmd": "generate", "id": "g", "prompt": "x"})
        await client.last("g")
        token = {"id": "g", "logprobs": None}
        *told, done = client.of("g")
        assert told == [
            {**token, "token": "a", "token_id": 4, "part": "text", "is_forced": False},
            {**token, "token": "{", "token_id": 5, "part": "structured", "is_forced": True},
        ]
        assert done["tokens_generated"] == 2
        assert done["result"]["token_ids"] == [4, 5]

    run(scenario, fake(PromptProgress(processed=1, total=1), *TOKENS, TextDelta(text="a{")))


@pytest.mark.parametrize(
    "request_",
    [
        {"temperature": 1.0, "max_tokens": 40},
        {"temperature": 1.0, "max_tokens": 40, "stop": ["c"]},
        {"temperature": 1.0, "response_format": {"enum": ["é", "ü"]}, "logprobs": 2},
        {"temperature": 1.0, "reasoning": {"max_chars": 20}, "max_tokens": 60},
        {"temperature": 1.0, "tools": [TOOL], "tool_choice": "required", "tool_format": "hermes"},
    ],
    ids=["text", "stop", "structured", "reasoning", "tools"],
)
def test_joined_token_texts_are_the_texts_of_the_parts(
    tiny: MakeEngine, request_: dict[str, Any]
) -> None:
    async def scenario(client: Client) -> None:
        client.send({"cmd": "load"})
        for seed in range(3):
            command = {"cmd": "generate", "id": seed, "prompt": "x", "seed": seed}
            result = (await client.ask({**command, **request_}))["result"]
            told = client.of(seed)[:-1]
            assert [reply["token_id"] for reply in told] == result["token_ids"]
            logprobs = result["logprobs"] or [None] * len(told)
            assert [reply["logprobs"] for reply in told] == logprobs
            texts = "".join(reply["token"] for reply in told)
            assert texts == "".join(part["text"] for part in result["parts"])

    run(scenario, tiny)


def test_raw_prompt_bypasses_the_chat_template(
    tiny: MakeEngine, tiny_tokenizer: TokenizerWrapper
) -> None:
    text = "<|start|>user\nx<|end|><|start|>assistant\n"
    prompts: list[dict[str, Any]] = [
        {"prompt": "x"},
        {"prompt": "x", "raw": False},
        {"prompt": text, "raw": True},
        {"prompt": tiny_tokenizer.encode(text)},
        {"prompt": "x", "raw": True},
    ]

    async def scenario(client: Client) -> None:
        client.send({"cmd": "load"})
        told = [
            (await client.ask({"cmd": "generate", "id": id, "max_tokens": 6, **prompt}))["result"]
            for id, prompt in enumerate(prompts)
        ]
        assert [result["token_ids"] for result in told[1:4]] == [told[0]["token_ids"]] * 3
        assert told[4]["usage"]["prompt_tokens"] == 1
        wrong = {"cmd": "generate", "id": "w", "prompt": [1, 4000]}
        assert (await client.ask(wrong))["error"]["type"] == "PromptError"

    run(scenario, tiny)


def test_requests_without_ids_run_in_their_order(tiny: MakeEngine) -> None:
    async def scenario(client: Client) -> None:
        client.send({"cmd": "load", "id": "l"})
        for length in (30, 1, 12):
            client.send(
                {
                    "cmd": "generate",
                    "prompt": "x",
                    "max_tokens": length,
                    "min_tokens": length,
                    "temperature": 1.0,
                }
            )
        await client.session.finish()
        told = ["d" if "done" in reply else "t" for reply in client.of(None)]
        assert "".join(told) == "t" * 30 + "dtd" + "t" * 12 + "d"

    run(scenario, tiny)


def test_only_given_options_are_passed_to_the_engine() -> None:
    engine = FakeEngine()

    async def scenario(client: Client) -> None:
        client.send({"cmd": "load"})
        await client.ask({"cmd": "generate", "id": 1, "prompt": "p", "seed": 3, "top_k": None})
        await client.ask({"cmd": "chat", "id": 2, "messages": [], "tool_choice": "none"})

    run(scenario, lambda command: engine)
    plain = {"response_format": None, "tools": None, "tool_choice": None}
    assert engine.asked == [("p", {**plain, "seed": 3}), ([], {**plain, "tool_choice": "none"})]


class TestErrors:
    """An invalid line gets an error and does not affect later lines."""

    def test_invalid_lines_are_answered_with_errors(self) -> None:
        async def scenario(client: Client) -> None:
            client.send(b"garbage", b"", b" \r", b"[]", b'{"id": "a"}', b'{"id": 7, "cmd": "x"}')
            client.send(LineTooLongError("too long", limit=3))
            client.send(b'{"id": "i", "cmd": "info"}\r')
            assert await client.last("i") == {
                "id": "i",
                "ok": True,
                "protocol": 1,
                "is_loading": False,
                "model": None,
                "running": [],
            }
            kinds = [(reply["id"], reply["error"]["type"]) for reply in client.replies[:-1]]
            assert kinds == [
                (None, "MalformedLineError"),
                (None, "MalformedLineError"),
                ("a", "UnknownCommandError"),
                (7, "UnknownCommandError"),
                (None, "LineTooLongError"),
            ]

        run(scenario, fake())

    def test_errors_of_the_engine_are_replies(self, tiny: MakeEngine) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load"})
            asked: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
                ({"prompt": ""}, "PromptError", {}),
                ({"prompt": "\ud800"}, "PromptError", {}),
                ({"prompt": "x" * 9000}, "PromptTooLongError", {"context_length": 4096}),
                ({"prompt": "x", "top_p": 7}, "InvalidFieldError", {"field": "/top_p"}),
                (
                    {"prompt": "x", "response_format": {"properties": {"a": {"type": "no"}}}},
                    "InvalidSchemaError",
                    {"pointer": "/properties/a/type", "keyword": "type"},
                ),
                (
                    {"prompt": "x", "response_format": PERSON, "max_tokens": 2},
                    "MaxTokensTooSmallError",
                    {"given": 2},
                ),
                ({"prompt": "x", "tools": [{"type": "x"}]}, "InvalidToolError", {"index": 0}),
            ]
            for id, (fields, kind, facts) in enumerate(asked):
                reply = await client.ask({"cmd": "generate", "id": id, **fields})
                assert reply["error"]["type"] == kind
                assert reply["error"]["message"]
                assert facts.items() <= reply["error"]["facts"].items()
            assert (await client.ask({"cmd": "info", "id": "i"}))["running"] == []

        run(scenario, tiny)

    def test_running_id_cannot_be_reused(self) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 0})
            client.send(*[{"cmd": "generate", "id": "g", "prompt": "x"}] * 2)
            error = await client.last("g")
            assert error["error"]["type"] == "DuplicateIdError"
            client.send({"cmd": "cancel", "id": "all"}, {"cmd": "cancel"})
            await client.until(lambda reply: reply["id"] == "g" and "done" in reply)
            # The number is not the text.
            client.send(*({"cmd": "generate", "id": id, "prompt": "x"} for id in (1, "1")))
            info = await client.ask({"cmd": "info", "id": "i"})
            assert info["running"] == [1, "1"]

        run(scenario, fake(is_endless=True))

    def test_number_of_requests_is_limited(self) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": "l"})
            for id in range(4):
                client.send({"cmd": "generate", "id": id, "prompt": "x"})
            error = (await client.last(3))["error"]
            assert (error["type"], error["facts"]) == ("TooManyRequestsError", {"limit": 3})
            await client.ask({"cmd": "cancel", "id": 1})
            await client.until(lambda reply: reply["id"] == 1 and "done" in reply)
            client.send({"cmd": "generate", "id": 4, "prompt": "x"})
            assert (await client.ask({"cmd": "info", "id": "i"}))["running"] == [0, 2, 4]

        run(scenario, fake(is_endless=True), max_requests=3)

    def test_number_of_loads_is_limited(self) -> None:
        async def scenario(client: Client) -> None:
            client.send(*({"cmd": "load", "id": id} for id in range(4)))
            error = (await client.last(3))["error"]
            assert (error["type"], error["facts"]) == ("TooManyRequestsError", {"limit": 3})
            # Each of the others has its turn.
            assert (await client.last(2))["ok"]
            assert (await client.ask({"cmd": "generate", "id": 4, "prompt": "x"}))["done"]

        run(scenario, fake(), max_requests=3)

    def test_unencodable_value_fails_only_its_request(self) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load"})
            command = {"cmd": "generate", "id": 1, "prompt": "x", "events": ["text_delta"]}
            assert (await client.ask(command))["error"]["type"] == "InternalError"
            assert len(client.of(1)) == 1
            assert (await client.ask({**command, "id": 2, "events": []}))["done"]

        run(scenario, fake(TextDelta.model_construct(type="text_delta", text=float("nan"))))


class TestCancel:
    """A cancelled request ends at its next token and gets its last reply."""

    def test_running_request_ends_at_its_next_token(self, tiny: MakeEngine) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load"})
            forever = {"cmd": "generate", "prompt": "x", "max_tokens": 3000, "min_tokens": 3000}
            events = ["text_delta", "prompt_progress"]
            client.send({**forever, "id": "a", "temperature": 1.0, "events": events})
            await client.until(lambda reply: "event" in reply)
            assert await client.ask({"cmd": "cancel", "id": "x", "target": "a"}) == {
                "id": "x",
                "ok": True,
                "cancelled": ["a"],
            }
            done = await client.last("a")
            assert done["result"]["finish_reason"] == "cancelled"
            assert done["tokens_generated"] < 3000
            assert (
                await client.ask({"cmd": "generate", "id": "b", "prompt": "x", "max_tokens": 2})
            )["done"]

        run(scenario, tiny)

    @pytest.mark.parametrize(
        ("cancel", "cancelled"),
        [
            ({"id": "c", "target": 2}, [2]),
            ({"id": 2}, [2]),
            ({}, [1, 2, "2"]),
            ({"id": "c", "target": "1"}, []),
            ({"id": "c"}, []),
        ],
    )
    def test_target_selects_the_requests(
        self, cancel: dict[str, Any], cancelled: list[Any]
    ) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": "l"})
            for id in (1, 2, "2"):
                client.send({"cmd": "generate", "id": id, "prompt": "x"})
            await client.last("l")
            client.send({"cmd": "cancel", **cancel})
            reply = await client.until(lambda reply: "cancelled" in reply)
            assert (reply["id"], reply["cancelled"]) == (cancel.get("id"), cancelled)
            for id in cancelled:
                await client.until(lambda reply, id=id: reply["id"] == id and "done" in reply)
            running = (await client.ask({"cmd": "info", "id": "i"}))["running"]
            assert running == [id for id in (1, 2, "2") if id not in cancelled]

        run(scenario, fake(is_endless=True))

    def test_waiting_request_is_cancelled_before_the_model_is_loaded(self) -> None:
        may_load = threading.Event()

        def make_engine(command: LoadCommand) -> Any:
            may_load.wait(10)
            return FakeEngine(*TOKENS, is_endless=True)

        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 0}, {"cmd": "generate", "id": 1, "prompt": "x"})
            client.send({"cmd": "cancel", "target": 1, "id": 2})
            assert (await client.ask({"cmd": "info", "id": 3}))["is_loading"]
            may_load.set()
            assert (await client.last(1))["result"]["finish_reason"] == "cancelled"

        run(scenario, make_engine)


class TestSeveral:
    """Concurrent requests."""

    def test_concurrent_requests_have_their_own_replies(self, tiny: MakeEngine) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load"})
            for id in range(12):
                client.send(
                    {
                        "cmd": "generate",
                        "id": id,
                        "prompt": "x" * (id + 1),
                        "max_tokens": 4 + id,
                        "min_tokens": 4 + id,
                        "temperature": 1.0,
                        "events": ["token", "text_delta"],
                    }
                )
            for id in range(12):
                done = await client.last(id)
                *told, last = client.of(id)
                assert last is done
                assert done["tokens_generated"] == 4 + id
                text = "".join(reply["event"]["text"] for reply in told if "event" in reply)
                assert text == done["result"]["text"]

        run(scenario, tiny)


class TestLoad:
    """Replacing the model."""

    def test_missing_model_is_an_error(self) -> None:
        def make_engine(command: LoadCommand) -> Any:
            if command.path == "none":
                raise ModelNotFoundError("no such model", model="none")
            return FakeEngine()

        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 1, "path": "none"})
            client.send({"cmd": "generate", "id": 2, "prompt": "x"})
            error = (await client.last(1))["error"]
            assert error["type"] == "ModelNotFoundError"
            assert error["facts"] == {"model": "none"}
            assert (await client.last(2))["error"]["type"] == "NoModelError"
            info = await client.ask({"cmd": "info", "id": 3})
            assert (info["model"], info["is_loading"]) == (None, False)
            assert (await client.ask({"cmd": "load", "id": 4, "path": "some"}))["ok"]
            assert (await client.ask({"cmd": "generate", "id": 5, "prompt": "x"}))["done"]

        run(scenario, make_engine)

    def test_load_waits_for_earlier_requests_and_releases_the_old_model(self) -> None:
        engines: list[weakref.ref[FakeEngine]] = []
        alive_at_load: list[int] = []

        def make_engine(command: LoadCommand) -> Any:
            gc.collect()
            alive_at_load.append(sum(engine() is not None for engine in engines))
            engine = FakeEngine(*TOKENS, is_endless=command.path == "endless")
            engines.append(weakref.ref(engine))
            return engine

        async def scenario(client: Client) -> None:
            client.send(
                {"cmd": "load", "id": 1, "path": "endless"},
                {"cmd": "generate", "id": 2, "prompt": "x"},
                {"cmd": "load", "id": 3},
                {"cmd": "generate", "id": 4, "prompt": "x"},
            )
            await client.last(1)
            await asyncio.sleep(0.05)
            assert not any(reply["id"] in (3, 4) for reply in client.replies)
            assert (await client.ask({"cmd": "info", "id": 5}))["is_loading"]
            client.send({"cmd": "cancel", "id": 2})
            await client.last(4)
            order = [
                reply["id"] for reply in client.replies if "done" in reply or "model_type" in reply
            ]
            assert order == [1, 2, 3, 4]

        run(scenario, make_engine)
        assert alive_at_load == [0, 0]

    def test_load_closes_the_old_engine(self) -> None:
        engines: list[FakeEngine] = []

        def make_engine(command: LoadCommand) -> Any:
            assert all(engine.is_closed for engine in engines)
            engines.append(FakeEngine())
            return engines[-1]

        async def scenario(client: Client) -> None:
            for id in range(3):
                assert (await client.ask({"cmd": "load", "id": id}))["ok"]
            assert [engine.is_closed for engine in engines] == [True, True, False]

        run(scenario, make_engine)
        assert engines[-1].is_closed


class TestEnd:
    """``quit`` and the end of the input."""

    def test_quit_cancels_requests_and_is_answered_last(self) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 0}, {"cmd": "generate", "id": 1, "prompt": "x"})
            client.send({"cmd": "quit", "id": 2}, {"cmd": "info", "id": 3}, b"garbage")
            await client.until(lambda reply: reply["id"] == 2)
            await asyncio.sleep(0)
            assert client.has_quit

        client = run(scenario, fake(*TOKENS, is_endless=True))
        assert client.of(1)[-1]["result"]["finish_reason"] == "cancelled"
        assert client.replies[-1] == {"id": 2, "ok": True}
        assert client.of(3) == []

    def test_quit_with_wait_finishes_requests(self) -> None:
        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 0}, {"cmd": "generate", "id": 1, "prompt": "x"})
            client.send({"cmd": "quit", "id": 2, "wait": True})
            await client.last(2)

        client = run(scenario, fake(*TOKENS))
        assert [reply["id"] for reply in client.replies] == [0, 1, 1, 1, 2]
        assert client.of(1)[-1]["result"]["finish_reason"] == "stop"

    def test_request_that_outlasts_the_grace_period_is_abandoned(self) -> None:
        may_end = threading.Event()

        def make_engine(command: LoadCommand) -> Any:
            may_end.wait(10)
            return FakeEngine()

        async def scenario(client: Client) -> None:
            client.send({"cmd": "load", "id": 0}, {"cmd": "generate", "id": 1, "prompt": "x"})
            await asyncio.sleep(0.01)
            assert not await client.session.close()
            may_end.set()

        client = run(scenario, make_engine, grace=0.1)
        kinds = [(reply["id"], reply["error"]["type"]) for reply in client.replies]
        assert kinds == [(0, "EngineClosedError"), (1, "EngineClosedError")]


COMMANDS = st.fixed_dictionaries(
    {"cmd": st.sampled_from(["load", "generate", "chat", "cancel", "info", "lod"])},
    optional={
        "id": st.sampled_from([1, 2, "a", None, True]),
        "prompt": st.just("x"),
        "messages": st.just([{"role": "user", "content": "x"}]),
        "target": st.sampled_from([1, "a"]),
        "path": st.sampled_from(["some", "none"]),
        "top_k": st.sampled_from([3, "3", None]),
    },
)
LINES = COMMANDS | st.binary(max_size=4).filter(lambda line: b"\n" not in line)


@settings(max_examples=40, deadline=None)
@given(st.lists(LINES, max_size=12))
def test_every_line_gets_exactly_one_last_reply(lines: list[dict[str, Any] | bytes]) -> None:
    def make_engine(command: LoadCommand) -> Any:
        if command.path == "none":
            raise ModelNotFoundError("no such model", model="none")
        return FakeEngine(*TOKENS, is_endless=command.path == "some")

    async def scenario(client: Client) -> None:
        for line in lines:
            client.send(line)
            await asyncio.sleep(0)

    # Closing cancels what runs.
    client = run(scenario, make_engine)
    asked = [line for line in lines if isinstance(line, dict) or line.strip()]
    assert len([reply for reply in client.replies if is_last(reply)]) == len(asked)
