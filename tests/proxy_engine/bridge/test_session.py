"""The protocol: sessions in this process."""

from __future__ import annotations

import asyncio
import json
import math
import re
import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from bridge_clients import Client, FakeEngine, MakeEngine, run
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.models import llama
from mlx_lm.sample_utils import make_logits_processors
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object

from proxy_engine import InferenceEngine, ModelNotFoundError, RawPrompt, TokenGenerated
from proxy_engine.bridge.commands import LoadCommand
from proxy_engine.options.generation import MAX_COUNT

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "bridge.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"^```jsonl\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
TOKENS = [TokenGenerated(part="text", token_id=id, text="?") for id in (4, 3, 6)]
LOAD = {"cmd": "load", "path": "p"}
GENERATE = {"cmd": "generate", "prompt": "x"}
HELLO = [{"role": "user", "content": "x"}]
PERSON = closed_object(name={"type": "string", "maxLength": 8}, age={"enum": [1, 2]})


def asked_of(*commands: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """What the engine is asked for; every command has to succeed."""
    engine = FakeEngine(*TOKENS)

    async def scenario(client: Client) -> None:
        for reply in await client.ask(LOAD, *commands):
            assert "error" not in reply

    run(scenario, lambda command: engine)
    return engine.asked


def fake(command: LoadCommand) -> Any:
    if command.path == "none":
        raise ModelNotFoundError("no such model", model="none")
    return FakeEngine(*TOKENS, is_endless=command.path == "endless")


@pytest.fixture
def tiny(roomy_model: llama.Model, tiny_tokenizer: TokenizerWrapper) -> MakeEngine:
    """Load the tiny model instead of the named one."""
    return lambda command: InferenceEngine(roomy_model, tiny_tokenizer)


def test_empty_texts_of_a_load_command_are_not_set() -> None:
    loads: list[LoadCommand] = []

    def make_engine(command: LoadCommand) -> Any:
        loads.append(command)
        return FakeEngine(*TOKENS)

    async def scenario(client: Client) -> None:
        assert "error" not in (await client.ask({**LOAD, "adapter_path": "", "draft_model": ""}))[0]
        assert "error" not in (await client.ask({**LOAD, "adapter_path": "a"}))[0]

    run(scenario, make_engine)
    assert [(load.adapter_path, load.draft_model) for load in loads] == [(None, None), ("a", None)]


def test_replies_have_no_other_fields_than_the_protocols() -> None:
    async def scenario(client: Client) -> None:
        assert await client.ask(LOAD) == [{"ok": True, "model_type": "none", "vocab_size": 5}]
        for command in (GENERATE, {"cmd": "chat", "messages": HELLO}):
            assert await client.ask(command) == [
                {"token": "a", "token_id": 4},
                {"token": "d", "token_id": 3},
                {"token": "", "token_id": 6},
                {"done": True, "tokens_generated": 3},
            ]
        (info,) = await client.ask({"cmd": "info"})
        assert info == {"model_type": "none", "vocab_size": 5, "layers": 2, "hidden_size": None}

    run(scenario, fake)


def test_defaults_are_those_of_mlx_lm() -> None:
    plain = {"response_format": None, "tools": None, "tool_choice": None}
    defaults = {**plain, "max_tokens": 256, "temperature": 0.0}
    assert asked_of(GENERATE, {"cmd": "generate"}, {"cmd": "chat", "messages": HELLO}) == [
        (RawPrompt("x"), defaults),
        (RawPrompt(""), defaults),
        (HELLO, {**defaults, "continue_final_message": False}),
    ]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 7.0}, {"max_tokens": 7}),
        ({"max_tokens": -1}, {"max_tokens": MAX_COUNT}),
        ({"max_tokens": None}, {"max_tokens": 256}),
        ({"temperature": -0.5}, {"temperature": 0}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"top_p": 0}, {"top_p": None}),
        ({"top_p": 1.0}, {"top_p": None}),
        ({"top_p": 7}, {"top_p": None}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        ({"top_k": 0.0}, {"top_k": None}),
        ({"top_k": -1}, {"top_k": None}),
        ({"top_k": 40.0}, {"top_k": 40}),
        ({"repeat_penalty": 1.1}, {"repetition_penalty": 1.1, "repetition_context_size": 20}),
        ({"repeat_penalty": 1.0}, {"repetition_penalty": None}),
        ({"repeat_penalty": 0}, {"repetition_penalty": None}),
        ({"repeat_penalty": 2, "repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"seed": 3, "stop": ["a"]}, {"seed": 3, "stop": ("a",)}),
        ({"response_format": PERSON}, {"response_format": PERSON}),
        ({"id": 1, "events": [], "raw": False, "num_ctx": {}}, {"events": None}),
    ],
)
def test_options_have_the_meaning_of_mlx_lm(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    ((prompt, asked),) = asked_of(GENERATE | fields)
    assert prompt == RawPrompt("x")
    assert {name: asked.get(name) for name in expected} == expected


def test_unknown_and_empty_fields_of_messages_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    empty = {"name": "", "tool_calls": [], "tool_call_id": "", "reasoning": None}
    messages = [
        {"role": "user", "content": "", "time": 3, **empty},
        {"role": "assistant", "content": None, **empty, "tool_calls": [call], "reasoning": "r"},
        {"role": "tool", "content": "1", **empty, "tool_call_id": "c"},
    ]
    ((prompt, _),) = asked_of({"cmd": "chat", "messages": messages})
    assert prompt == [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning": "r"},
        {"role": "tool", "content": "1", "tool_call_id": "c"},
    ]
    (record,) = caplog.records
    assert record.getMessage() == "the field 'messages[].time' is ignored"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (b"garbage", "the line is not JSON"),
        ({"cmd": "say"}, "there is no command 'say'"),
        ({"prompt": "x"}, "'cmd' is missing"),
        ({"cmd": "load"}, "load: path is missing"),
        ({"cmd": "load", "path": ""}, "load: path is missing"),
        ({"cmd": "load", "path": "none"}, "load: no such model"),
        ({"cmd": "load", "path": 3}, "load: path should be"),
        (GENERATE | {"top_p": "high"}, "generate: top_p should be"),
        (GENERATE | {"max_tokens": 0}, "generate: max_tokens should be"),
        (GENERATE | {"max_tokens": 1.5}, "generate: max_tokens should be"),
        (GENERATE | {"temperature": True}, "generate: temperature should be"),
        ({"cmd": "chat"}, "chat: messages"),
    ],
)
def test_error_is_a_text_with_the_name_of_the_command(
    command: dict[str, Any] | bytes, error: str
) -> None:
    async def scenario(client: Client) -> None:
        _, reply = await client.ask(LOAD, command)
        assert reply.keys() == {"error"}
        assert reply["error"].startswith(error)

    run(scenario, fake)


def test_commands_without_a_model_are_errors() -> None:
    async def scenario(client: Client) -> None:
        for reply in await client.ask({"cmd": "info"}, GENERATE, {"cmd": "chat", "messages": []}):
            assert re.match(r"(info|generate|chat): no model is loaded", reply["error"])

    run(scenario, fake)


def test_unknown_field_is_named_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    asked_of(GENERATE | {"num_ctx": 1}, GENERATE | {"num_ctx": 2})
    assert [record.getMessage() for record in caplog.records] == ["the field 'num_ctx' is ignored"]


def test_pipelined_commands_are_executed_in_their_order() -> None:
    async def scenario(client: Client) -> None:
        told = await client.ask(
            {"cmd": "info"}, LOAD, b"", b"garbage", GENERATE, {"cmd": "info"}, GENERATE
        )
        kinds = ["".join(sorted(reply)[:1]) for reply in told]
        generated = ["token", "token", "token", "done"]
        assert kinds == ["error", "model_type", "error", *generated, "hidden_size", *generated]

    run(scenario, fake)


def test_cancel_ends_the_generations_before_it_without_a_reply() -> None:
    async def scenario(client: Client) -> None:
        client.send(LOAD | {"path": "endless"}, GENERATE, GENERATE)
        while len(client.replies) < 4:
            await asyncio.sleep(0.001)
        told = await client.ask({"cmd": "cancel"})
        # The second one had not begun.
        assert [reply for reply in told if "done" in reply] == [
            {"done": True, "tokens_generated": 3},
            told[-1],
        ]
        # A cancelled generation leaves later ones alone.
        (_, *tokens, done) = await client.ask(LOAD, GENERATE)
        assert len(tokens) == done["tokens_generated"] == 3
        assert await client.ask({"cmd": "cancel"}, {"cmd": "cancel", "target": 1.5}) == []

    run(scenario, fake)


def test_quit_executes_the_commands_before_it_without_a_reply() -> None:
    async def scenario(client: Client) -> None:
        told = await client.ask(LOAD, GENERATE, {"cmd": "quit"}, GENERATE, b"garbage")
        assert client.has_quit
        assert len(told) == 5
        assert "done" in told[-1]

    run(scenario, fake)


def test_number_of_waiting_commands_is_limited() -> None:
    may_load = threading.Event()

    def make_engine(command: LoadCommand) -> Any:
        may_load.wait(10)
        return FakeEngine()

    async def scenario(client: Client) -> None:
        client.send(LOAD)
        await asyncio.sleep(0)
        client.send(*[{"cmd": "info"}] * 4098)
        may_load.set()
        await client.session.finish()
        errors = [reply for reply in client.replies if "error" in reply]
        assert errors == [{"error": "info: 4096 commands wait"}] * 2

    run(scenario, make_engine)


COMMANDS = st.fixed_dictionaries(
    {"cmd": st.sampled_from(["load", "generate", "chat", "info", "lod"]) | st.just([])},
    optional={
        "id": st.sampled_from([1, True]),
        "prompt": st.sampled_from(["x", 3]),
        "messages": st.just(HELLO),
        "path": st.sampled_from(["some", "none"]),
        "top_k": st.sampled_from([3.0, "3", None]),
        "more": st.just(1),
    },
)
LINES = COMMANDS | st.just({"cmd": "cancel"}) | st.binary(max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES.filter(lambda line: line != b"\n"), max_size=12))
def test_every_command_has_one_last_reply_in_its_order(
    lines: list[dict[str, Any] | bytes],
) -> None:
    async def scenario(client: Client) -> None:
        await client.ask(*lines)

    client = run(scenario, fake)
    lines = [line for line in lines if isinstance(line, dict) or line.strip()]
    lasts = [reply for reply in client.replies if "token" not in reply]
    names = [str(line["cmd"]) if isinstance(line, dict) else "" for line in lines]
    asked = [name for name in names if name != "cancel"]
    assert len(lasts) == len(asked)
    for name, reply in zip(asked, lasts, strict=True):
        if "error" not in reply:
            keys = {"load": "ok", "info": "layers"}
            assert keys.get(name, "done") in reply
        elif name in ("load", "generate", "chat", "info"):
            assert reply["error"].startswith(f"{name}: ")


class TestGreedyTokens:
    """Greedy tokens and their texts are those of ``mlx_lm.stream_generate``."""

    @pytest.mark.parametrize("penalty", [1.0, 1.3])
    @pytest.mark.parametrize("prompt", ["x", "Once upon a time", "é€𝄞", '{"a": 1}'])
    def test_of_a_text(
        self,
        tiny: MakeEngine,
        roomy_model: llama.Model,
        tiny_tokenizer: TokenizerWrapper,
        prompt: str,
        penalty: float,
    ) -> None:
        command = {"cmd": "generate", "prompt": prompt, "repeat_penalty": penalty}
        expected = mlx_lm_lines(roomy_model, tiny_tokenizer, prompt, penalty)
        assert_tokens(tiny, command, expected)

    @pytest.mark.parametrize("last_role", ["user", "assistant"])
    def test_of_a_new_answer_in_a_conversation(
        self,
        tiny: MakeEngine,
        roomy_model: llama.Model,
        tiny_tokenizer: TokenizerWrapper,
        last_role: str,
    ) -> None:
        messages = [*HELLO, {"role": "assistant", "content": "y"}, *HELLO]
        if last_role == "assistant":
            messages.pop()
        prompt = tiny_tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        expected = mlx_lm_lines(roomy_model, tiny_tokenizer, prompt)
        assert_tokens(tiny, {"cmd": "chat", "messages": messages}, expected)


def mlx_lm_lines(
    model: llama.Model, tokenizer: TokenizerWrapper, prompt: Any, penalty: float = 1.0
) -> list[dict[str, Any]]:
    """The lines that a bridge around mlx-lm writes."""
    # Free text has no special tokens but the end token, and no padding of the logits.
    unused = mx.array([-math.inf if id >= 263 and id != 264 else 0.0 for id in range(320)])
    processors = make_logits_processors(repetition_penalty=penalty)
    processors.append(lambda tokens, logits: logits + unused)
    told = list(
        mlx_lm.stream_generate(
            model, tokenizer, prompt, max_tokens=24, logits_processors=processors
        )
    )
    lines: list[dict[str, Any]] = [{"token": one.text, "token_id": one.token} for one in told]
    return [*lines, {"done": True, "tokens_generated": told[-1].generation_tokens}]


def assert_tokens(
    make_engine: MakeEngine, command: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    async def scenario(client: Client) -> None:
        await client.ask(LOAD)
        told = await client.ask({**command, "max_tokens": 24})
        assert [line.get("token_id") for line in told] == [
            line.get("token_id") for line in expected
        ]
        # Where a character is cut into tokens, its text can be that of another one of them.
        assert joined(told) == joined(expected)
        assert told[-1] == expected[-1]

    run(scenario, make_engine)


def joined(lines: list[dict[str, Any]]) -> str:
    return "".join(line.get("token", "") for line in lines)


def test_documented_session_gets_the_documented_replies(tiny: MakeEngine) -> None:
    """Another model has other tokens and facts, but the same kinds of replies and errors."""
    steps: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for line in EXAMPLE.splitlines():
        value = json.loads(line[2:])
        if line.startswith("→"):
            steps.append((value, []))
        else:
            steps[-1][1].append(value)

    async def scenario(client: Client) -> None:
        for command, expected in steps:
            assert _kinds(await client.ask(command)) == _kinds(expected)
        assert client.has_quit

    run(scenario, tiny)


def _kinds(replies: list[dict[str, Any]]) -> list[Any]:
    kinds = [reply.get("error", tuple(reply)) for reply in replies]
    return [kind for kind in kinds if kind != ("token", "token_id")]
