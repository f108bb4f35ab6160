"""Encoders with scripted events that a random model hardly generates, and failing streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Generator, Iterable
from dataclasses import replace
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest
from live_server import serving_engine

from proxy_engine import (
    AnswerPart,
    CutShort,
    Finished,
    GenerationResult,
    InferenceEngine,
    Logprob,
    OutputValidationError,
    PromptError,
    PromptProgress,
    ReasoningDelta,
    ScoredChoice,
    ScoredOption,
    TextDelta,
    TokenGenerated,
    TokenLogprobs,
    ToolCall,
    ToolCallDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from proxy_engine.server.response_items import messages_of_items

RESULT: GenerationResult[Any] = GenerationResult(
    text="Well.",
    parsed=None,
    finish_reason="tool_calls",
    usage=Usage(9, 7, 0.1, 0.2, cached_tokens=4),
    token_ids=(1, 2, 3),
    model="m",
    reasoning="Hm hm",
    tool_calls=(ToolCall("c0", "add", {"a": 1}), ToolCall("c1", "add", {})),
)
# JSON has no minus infinity.
LOGPROBS = TokenLogprobs(
    Logprob(64, -0.5, 0.0), (Logprob(64, -0.5, 0.0), Logprob(65, float("-inf"), float("-inf")))
)
EVENTS: list[Any] = [
    PromptProgress(processed=9, total=9),
    TokenGenerated(part="reasoning", token_id=1, text="Hm", logprobs=LOGPROBS),
    ReasoningDelta(part="reasoning", text="Hm"),
    TokenGenerated(part="reasoning", token_id=1, text=" hm", logprobs=LOGPROBS),
    ReasoningDelta(part="reasoning", text=" hm"),
    TokenGenerated(part="text", token_id=64, text="a", logprobs=LOGPROBS),
    TextDelta(part="text", text="Well."),
    TokenGenerated(part="tool_call", token_id=2, text="{", logprobs=LOGPROBS),
    ToolCallStarted(part="tool_call", index=0, id="c0", name="add"),
    ToolCallDelta(part="tool_call", index=0, id="c0", arguments='{"a": '),
    ToolCallDelta(part="tool_call", index=0, id="c0", arguments="1}"),
    ToolCallFinished(part="tool_call", index=0, id="c0", name="add", arguments={"a": 1}),
    ToolCallStarted(part="tool_call", index=1, id="c1", name="add"),
    ToolCallDelta(part="tool_call", index=1, id="c1", arguments="{}"),
    ToolCallFinished(part="tool_call", index=1, id="c1", name="add", arguments={}),
    TokenGenerated(part="", token_id=264, text="<|end|>", is_forced=True, logprobs=LOGPROBS),
    Finished(result=RESULT),
]


class Stream:
    """Yields events, and raises an error after some seconds if there is one."""

    def __init__(self, events: Iterable[Any], error: Exception | None, seconds: float) -> None:
        self._events = self._all(events, error, seconds)

    async def _all(
        self, events: Iterable[Any], error: Exception | None, seconds: float
    ) -> AsyncIterator[Any]:
        for event in events:
            yield event
        await asyncio.sleep(seconds)
        if error is not None:
            raise error

    def __await__(self) -> Generator[Any, None, Stream]:
        yield from ()
        return self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._events

    def cancel(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Scripted:
    """An engine that answers every request with the same events."""

    def __init__(
        self,
        engine: InferenceEngine,
        events: list[Any],
        error: Exception | None,
        *,
        seconds: float = 0,
    ) -> None:
        self.vocabulary = engine.vocabulary
        self.input_modalities = engine.input_modalities
        self.context_length = 10
        self._stream = events, error, seconds

    async def astream(self, prompt: Any, **asked: Any) -> Stream:
        return Stream(*self._stream)


def scripted(engine: InferenceEngine, events: list[Any], error: Exception | None = None) -> Any:
    return serving_engine(Scripted(engine, events, error))  # type: ignore[arg-type]


def chat(client: openai.OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(
        model="SmolLM2-135M-Instruct", messages=[{"role": "user", "content": "a"}], **more
    )


def respond(client: openai.OpenAI, **more: Any) -> Any:
    return client.responses.create(model="SmolLM2-135M-Instruct", input="a", **more)


def complete(client: openai.OpenAI, **more: Any) -> Any:
    return client.completions.create(model="SmolLM2-135M-Instruct", prompt="a", **more)


def test_chat_encoder_writes_every_event(tiny_engine: InferenceEngine) -> None:
    with scripted(tiny_engine, EVENTS) as live:
        client = live.client()
        whole = chat(client, logprobs=True, top_logprobs=2)
        message = whole.choices[0].message
        assert (message.content, message.reasoning_content) == ("Well.", "Hm hm")
        assert message.reasoning == "Hm hm"
        assert [call.id for call in message.tool_calls] == ["c0", "c1"]
        assert whole.usage.completion_tokens_details.reasoning_tokens == 2
        assert whole.usage.prompt_tokens_details.cached_tokens == 4
        usage = whole.usage.model_dump()
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (9, 7)
        assert (usage["input_tokens"], usage["output_tokens"]) == (9, 7)
        (logprob,) = whole.choices[0].logprobs.content
        assert (logprob.token, logprob.logprob) == ("a", -0.5)
        assert [top.logprob for top in logprob.top_logprobs] == [-0.5, -9999.0]
        chunks = list(chat(client, stream=True, logprobs=True, top_logprobs=2))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == "Hm hm"
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    assert [call.index for call in calls] == [0, 0, 0, 1, 1]
    assert "".join(c.function.arguments for c in calls if c.index == 0) == '{"a": 1}'
    told = [chunk.choices[0] for chunk in chunks if chunk.choices[0].logprobs]
    assert [choice.delta.content for choice in told] == ["Well."]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_reasoning_is_left_out_on_request(tiny_engine: InferenceEngine) -> None:
    body: Any = {"include_reasoning": False}
    with scripted(tiny_engine, EVENTS) as live:
        client = live.client()
        whole = chat(client, extra_body=body)
        chunks = list(chat(client, extra_body=body, stream=True))
    assert "reasoning" not in whole.choices[0].message.model_dump_json()
    assert whole.usage.completion_tokens_details.reasoning_tokens == 2
    assert not any("reasoning" in chunk.choices[0].delta.model_dump_json() for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Well."


def test_responses_encoder_writes_every_event(tiny_engine: InferenceEngine) -> None:
    with scripted(tiny_engine, EVENTS) as live:
        client = live.client()
        whole = respond(client)
        assert [item.type for item in whole.output] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert whole.output[0].content[0].text == "Hm hm"
        assert [item.arguments for item in whole.output[2:]] == ['{"a": 1}', "{}"]
        assert whole.status == "completed"
        assert whole.usage.output_tokens_details.reasoning_tokens == 2
        events = list(respond(client, stream=True))
        # The stored messages continue the conversation.
        stored = live.services.responses.response(whole.id)
        assert stored is not None
        messages, _ = messages_of_items(stored.items, [""] * len(stored.items))
        assert messages[1]["content"] == "Well."
        assert messages[1]["reasoning_content"] == "Hm hm"
        assert [call["id"] for call in messages[1]["tool_calls"]] == ["c0", "c1"]
    added = [event for event in events if event.type == "response.output_item.added"]
    done = [event for event in events if event.type == "response.output_item.done"]
    assert [event.output_index for event in added] == [0, 1, 2, 3]
    assert [event.item.id for event in added] == [event.item.id for event in done]
    assert all(event.item.status == "in_progress" for event in added)
    assert all(event.item.status == "completed" for event in done)
    final = events[-1].response
    assert [item.type for item in final.output] == [item.type for item in whole.output]


def test_text_between_calls_is_an_item_and_part_of_one_message(
    tiny_engine: InferenceEngine,
) -> None:
    between = TextDelta(part="text", text=" Then.")
    events = [*EVENTS[:12], between, *EVENTS[12:-1], between, EVENTS[-1]]
    with scripted(tiny_engine, events) as live:
        client = live.client()
        whole = respond(client)
        types = ["reasoning", *["message", "function_call"] * 2, "message"]
        assert [item.type for item in whole.output] == types
        streamed = [
            e.item.type for e in respond(client, stream=True) if e.type.endswith("item.done")
        ]
        assert streamed == types
        stored = live.services.responses.response(whole.id)
        assert stored is not None
        messages, _ = messages_of_items(stored.items, [""] * len(stored.items))
        assert messages[1]["content"] == "Well. Then. Then."
        assert [call["id"] for call in messages[1]["tool_calls"]] == ["c0", "c1"]
        assert len(messages) == 2


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (OutputValidationError("no", text=""), "output_validation_failed", 500),
        (RuntimeError("secret"), "internal", 500),
    ],
)
def test_late_error_ends_a_stream_with_an_error_event(
    tiny_engine: InferenceEngine, error: Exception, code: str, status: int
) -> None:
    with scripted(tiny_engine, EVENTS[:7], error) as live:
        client = live.client()
        with pytest.raises(openai.APIError) as caught:
            list(chat(client, stream=True))
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["code"] == code
        events = list(respond(client, stream=True))
        assert events[-1].type == "response.failed"
        assert events[-1].response.status == "failed"
        assert events[-1].response.error.code == "server_error"
        assert "secret" not in events[-1].response.error.message
        assert events[-1].response.output[1].status == "incomplete"
        assert events[-1].response.output[1].content[0].text == "Well."
        assert events[-2].type == "error"
        assert events[-2].code == code
        with pytest.raises(openai.APIStatusError) as refused:
            chat(client)
        assert refused.value.status_code == status
        assert "secret" not in str(refused.value)
        metrics = live.services.metrics
        assert metrics.value("request_success_total", finished_reason="failed") == 3
        assert metrics.value("answers_started_total") == 3
        assert not live.services.admission.running
        body = {"prompt": "a", "stream": True}
        text = live.http().post("/v1/completions", json=body).text
        assert text.endswith("data: [DONE]\n\n")
        last = text.split("\n\n")[-3].removeprefix("data: ")
        assert json.loads(last)["error"]["code"] == code
        claude = live.claude()
        turns: Any = [{"role": "user", "content": "a"}]
        with pytest.raises(anthropic.APIStatusError) as ended:
            list(
                claude.messages.create(
                    model="SmolLM2-135M-Instruct", messages=turns, max_tokens=9, stream=True
                )
            )
        assert "secret" not in str(ended.value)
        with pytest.raises(ollama.ResponseError) as told:
            list(ollama.Client(live.url).chat("SmolLM2-135M-Instruct", turns, stream=True))
        assert "secret" not in str(told.value)


@pytest.mark.parametrize("begun", [EVENTS[:0], EVENTS[:1]], ids=["at once", "in the prompt"])
def test_error_before_the_answer_is_the_status_of_a_stream(
    tiny_engine: InferenceEngine, begun: list[Any]
) -> None:
    with scripted(tiny_engine, begun, PromptError("no such image")) as live:
        client = live.client()
        for answer in (chat, respond, complete):
            with pytest.raises(openai.BadRequestError, match="no such image") as caught:
                answer(client, stream=True)
            assert isinstance(caught.value.body, dict)
            assert caught.value.body["code"] == "invalid_prompt"
        assert live.services.metrics.value("request_success_total", finished_reason="failed") == 3
        assert not live.services.admission.running


def test_slow_answer_begins_its_stream_before_its_first_token(tiny_engine: InferenceEngine) -> None:
    engine = Scripted(tiny_engine, EVENTS[:1], PromptError("no such image"), seconds=0.2)
    with serving_engine(engine, keep_alive_seconds=0.05) as live:  # type: ignore[arg-type]
        reply = live.http().post(
            "/v1/chat/completions",
            json={"messages": [{"role": "user", "content": "a"}], "stream": True},
        )
    assert reply.status_code == 200
    assert ": keep-alive" in reply.text
    last = reply.text.split("\n\n")[-3].removeprefix("data: ")
    assert json.loads(last)["error"]["code"] == "invalid_prompt"


CONFIDENT: GenerationResult[Any] = GenerationResult(
    text='{"ok": true}',
    parsed={"ok": True},
    finish_reason="stop",
    usage=Usage(9, 7, 0.1, 0.2),
    token_ids=(1, 2, 3),
    model="m",
    parts=(AnswerPart("structured", '{"ok": true}', pointer=""),),
    scored_choices=(
        ScoredChoice(
            7, (ScoredOption("true", 0.75), ScoredOption("false", 0.25)), ScoredOption("true", 0.75)
        ),
    ),
)
CONFIDENT_EVENTS: list[Any] = [
    PromptProgress(processed=9, total=9),
    TextDelta(part="structured", text='{"ok": true}'),
    Finished(result=CONFIDENT),
]
ASKED: dict[str, Any] = {"extra_body": {"include_confidence": True}}
EXTENSION = {"confidence": {"": 0.75, "/ok": 0.75}}


def test_confidences_are_in_choices_if_requested(tiny_engine: InferenceEngine) -> None:
    with scripted(tiny_engine, CONFIDENT_EVENTS) as live:
        client = live.client()
        for answer in (chat, complete):
            choices = answer(client, n=2, **ASKED).choices
            assert [choice.model_extra["proxy_engine"] for choice in choices] == [EXTENSION] * 2
            chunks = [chunk.choices[0] for chunk in answer(client, stream=True, **ASKED)]
            told = [(one.model_extra or {}).get("proxy_engine") for one in chunks]
            assert told[-1] == EXTENSION
            assert not any(told[:-1])
            assert "proxy_engine" not in answer(client).model_dump_json()
            assert all(
                "proxy_engine" not in one.model_dump_json() for one in answer(client, stream=True)
            )


SCHEMA: Any = {"type": "object"}
FORMS: dict[str, dict[str, Any]] = {
    "v1/chat/completions": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    },
    "v1/completions": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    },
    "v1/responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
    "v1/messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "api/chat": {"format": SCHEMA},
}
CUT = {"reason": "max_tokens", "pointer": "/ok"}


def member(reply: Any, path: str) -> Any:
    """The member of a reply at a path; ``None`` if it has none."""
    for name in path.split("."):
        if isinstance(reply, list):
            reply = reply[int(name)] if reply else None
        else:
            reply = (reply or {}).get(name)
    return reply


def frames(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


@pytest.mark.parametrize("has_calls", [False, True])
@pytest.mark.parametrize(
    ("path", "whole", "streamed", "limited"),
    [
        ("v1/chat/completions", "choices.0.finish_reason", "choices.0.finish_reason", "length"),
        ("v1/completions", "choices.0.finish_reason", "choices.0.finish_reason", "length"),
        ("v1/responses", "status", "response.status", "incomplete"),
        (
            "v1/responses",
            "incomplete_details.reason",
            "response.incomplete_details.reason",
            "max_output_tokens",
        ),
        ("v1/messages", "stop_reason", "delta.stop_reason", "max_tokens"),
        ("api/chat", "done_reason", "done_reason", "length"),
    ],
)
def test_answer_that_a_limit_cut_short_says_so_whatever_its_format(
    tiny_engine: InferenceEngine,
    path: str,
    whole: str,
    streamed: str,
    limited: str,
    has_calls: bool,
) -> None:
    prompt = {"v1/completions": {"prompt": "a"}, "v1/responses": {"input": "a"}}
    last, cut = CONFIDENT, CutShort("/ok", "max_tokens")
    if has_calls:
        last = replace(CONFIDENT, tool_calls=(ToolCall("c0", "add", {}),), text="", parts=())
    ended = Finished(result=replace(last, finish_reason="length", cut_short=cut))
    with scripted(tiny_engine, [*CONFIDENT_EVENTS[:-1], ended]) as live:
        for form in (FORMS[path], {}):
            body = {"model": "SmolLM2-135M-Instruct", "stream": False, **form}
            body |= prompt.get(path, {"messages": [{"role": "user", "content": "a"}]})
            if path == "v1/messages":
                body["max_tokens"] = 9
            url = f"{live.url}/{path}"
            reply = httpx.post(url, json=body).json()
            assert member(reply, whole) == limited
            sent = frames(httpx.post(url, json={**body, "stream": True}).text)
            assert [found for frame in sent if (found := member(frame, streamed))][-1] == limited
            assert json.dumps({"cut_short": CUT}) in json.dumps(reply)
            assert json.dumps({"cut_short": CUT}) in json.dumps(sent)


def test_confidences_are_in_responses_if_requested(tiny_engine: InferenceEngine) -> None:
    with scripted(tiny_engine, CONFIDENT_EVENTS) as live:
        client = live.client()
        whole = respond(client, **ASKED)
        assert whole.model_extra["proxy_engine"] == EXTENSION
        *events, last = respond(client, stream=True, **ASKED)
        assert last.response.model_extra["proxy_engine"] == EXTENSION
        assert all("confidence" not in event.model_dump_json() for event in events)
        assert "proxy_engine" not in respond(client).model_dump_json()
        both = respond(client, extra_body={"include_confidence": True, "include_tokens": True})
        assert set(both.model_extra["proxy_engine"]) == {"confidence", "timings"}


def test_message_of_anthropic_has_thinking_text_and_calls(roomy_engine: InferenceEngine) -> None:
    given: Any = {
        "model": "SmolLM2-135M-Instruct",
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 9,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    with scripted(roomy_engine, EVENTS) as live:
        client = live.claude()
        whole = client.messages.create(**given)
        with client.messages.stream(**given) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_message()
        hidden = client.messages.create(
            **{**given, "thinking": {"type": "adaptive", "display": "omitted"}}
        )
    blocks = [block.to_dict() for block in whole.content]
    assert blocks == [
        {"type": "thinking", "thinking": "Hm hm", "signature": ""},
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "c0", "name": "add", "input": {"a": 1}},
        {"type": "tool_use", "id": "c1", "name": "add", "input": {}},
    ]
    assert [block.to_dict(exclude_none=True) for block in streamed.content] == blocks
    assert [block.type for block in hidden.content] == ["text", "tool_use", "tool_use"]
    assert whole.stop_reason == streamed.stop_reason == "tool_use"
    assert (whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == (5, 4)
    assert streamed.usage.output_tokens == whole.usage.output_tokens == 7
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4


def test_stop_sequence_in_the_reasoning_ends_nothing(roomy_engine: InferenceEngine) -> None:
    thought, answer = ((roomy_engine.vocabulary.token_bytes[id] or b"").decode() for id in (64, 65))
    events = [
        PromptProgress(processed=9, total=9),
        TokenGenerated(part="reasoning", token_id=64, text=thought),
        TokenGenerated(part="text", token_id=65, text=answer),
        Finished(result=replace(RESULT, tool_calls=(), finish_reason="stop", token_ids=(64, 65))),
    ]
    with scripted(roomy_engine, events) as live:
        client = live.claude()
        for stop, reason in ((thought, "end_turn"), (answer, "stop_sequence")):
            message = client.messages.create(
                model="SmolLM2-135M-Instruct",
                messages=[{"role": "user", "content": "a"}],
                max_tokens=9,
                stop_sequences=[stop],
            )
            assert message.stop_reason == reason


def test_answer_of_ollama_has_thinking_text_and_calls(roomy_engine: InferenceEngine) -> None:
    turns = [{"role": "user", "content": "a"}]
    with scripted(roomy_engine, EVENTS) as live:
        client = ollama.Client(live.url)
        whole = client.chat("SmolLM2-135M-Instruct", turns)
        lines = [*client.chat("SmolLM2-135M-Instruct", turns, stream=True)]
    assert (whole.message.thinking, whole.message.content) == ("Hm hm", "Well.")
    assert "".join(line.message.thinking or "" for line in lines) == "Hm hm"
    calls = [call for line in lines for call in line.message.tool_calls or ()]
    assert calls == [*(whole.message.tool_calls or ())]
    assert [dict(call.function.arguments) for call in calls] == [{"a": 1}, {}]
    assert (whole.prompt_eval_count, whole.eval_count) == (9, 7)
