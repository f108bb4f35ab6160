"""Chat completions with OpenAI's client."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import httpx
import openai
import pytest
from object_schemas import closed_object, function_tool
from pydantic import BaseModel, Field

HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOL: Any = function_tool(
    "weather", closed_object(city={"enum": ["Lima", "Oslo"]}), description="Tell the weather."
)


class Review(BaseModel):
    stars: Literal[1, 2, 3]
    words: str = Field(max_length=12)


def chat(client: openai.OpenAI, **given: Any) -> Any:
    return client.chat.completions.create(
        **{"model": client.models.list().data[0].id, "messages": HELLO, "max_tokens": 12, **given}
    )


def test_chat_completion_has_openais_fields(client: openai.OpenAI) -> None:
    completion = chat(client, seed=1)
    assert completion.object == "chat.completion"
    assert completion.id.startswith("chatcmpl-")
    (choice,) = completion.choices
    assert choice.message.role == "assistant"
    assert choice.finish_reason in ("stop", "length")
    usage = completion.usage
    assert 0 < usage.completion_tokens <= 12
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_stream_has_the_text_of_the_whole_response(client: openai.OpenAI) -> None:
    whole = chat(client, temperature=0)
    chunks = list(chat(client, temperature=0, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons[-1] == whole.choices[0].finish_reason
    assert not any(reasons[:-1])
    assert not chunks[-1].choices
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert {c.id for c in chunks} == {chunks[0].id}


def test_stream_has_no_usage_by_default(client: openai.OpenAI) -> None:
    chunks = list(chat(client, stream=True))
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_client_parses_into_a_pydantic_model(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(
        model="SmolLM2-135M-Instruct", messages=HELLO, response_format=Review, max_tokens=60
    )
    review = completion.choices[0].message.parsed
    assert isinstance(review, Review)
    assert json.loads(completion.choices[0].message.content or "") == review.model_dump()
    # Clients send responses back with the fields they have added.
    conversation = [*HELLO, completion.choices[0].message, *HELLO]
    longer = chat(client, messages=conversation)
    assert longer.usage.prompt_tokens > completion.usage.prompt_tokens  # type: ignore[union-attr]


def test_client_streams_into_a_pydantic_model(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="SmolLM2-135M-Instruct", messages=HELLO, response_format=Review, max_tokens=60
    ) as stream:
        kinds = {event.type for event in stream}
        completion = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert isinstance(completion.choices[0].message.parsed, Review)


TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<",
        "content": {"type": "regex", "pattern": "[12]"},
        "end": ">",
    },
}


@pytest.mark.parametrize(
    ("given", "check"),
    [
        ({"response_format": {"type": "json_object"}}, lambda t: isinstance(json.loads(t), dict)),
        ({"extra_body": {"regex": "[ab]{3}!"}}, lambda t: t[3:] == "!" and set(t[:3]) <= set("ab")),
        ({"extra_body": {"guided_regex": "x|y"}}, lambda t: t in "xy"),
        (
            {"extra_body": {"grammar": 'root ::= "(" root ")" | "x"'}},
            lambda t: t.strip("()") == "x",
        ),
        ({"extra_body": {"guided_grammar": 'root ::= root "a" | "b"'}}, lambda t: t[0] == "b"),
        ({"extra_body": {"guided_grammar": 'start: "b" "a"~2'}}, lambda t: t == "baa"),
        (
            {"extra_body": {"structured_outputs": {"grammar": "root ::= [0-9]{3}"}}},
            lambda t: t.isdigit() and len(t) == 3,
        ),
        ({"extra_body": {"choice": ["yes", "no"]}}, lambda t: t in ("yes", "no")),
        ({"extra_body": {"guided_choice": ["yes"]}}, lambda t: t == "yes"),
        ({"extra_body": {"guided_json": {"const": 7}}}, lambda t: json.loads(t) == 7),
        ({"extra_body": {"guided_json": '{"const": 7}'}}, lambda t: json.loads(t) == 7),
        (
            {"extra_body": {"structured_outputs": {"choice": ["a"], "disable_fallback": True}}},
            lambda t: t == "a",
        ),
        (
            {"extra_body": {"structured_outputs": {"json": {"const": 1}}}},
            lambda t: json.loads(t) == 1,
        ),
        ({"response_format": TAG}, lambda t: t in ("<1>", "<2>")),
        ({"extra_body": {"structural_tag": TAG}}, lambda t: t in ("<1>", "<2>")),
        (
            {"extra_body": {"structured_outputs": {"structural_tag": json.dumps(TAG)}}},
            lambda t: t in ("<1>", "<2>"),
        ),
        ({"stop": ["e", "a"], "max_tokens": 40}, lambda t: not set("ea") & set(t)),
        ({"extra_body": {"top_k": 1, "min_p": 0.1, "repetition_penalty": 1.1}}, lambda t: True),
        ({"extra_body": {"top_k": -1}, "user": "u", "metadata": {"a": "b"}}, lambda t: True),
        ({"logit_bias": {"5": 100}, "presence_penalty": 1, "frequency_penalty": 1}, lambda t: True),
    ],
)
def test_options_shape_the_answer(client: openai.OpenAI, given: dict[str, Any], check: Any) -> None:
    completion = chat(client, **{"max_tokens": 60, **given})
    assert check(completion.choices[0].message.content)


def test_schema_in_the_prompt_is_counted(client: openai.OpenAI) -> None:
    body = {"guided_json": {"enum": ["yes", "no"]}}
    plain = chat(client, extra_body=body)
    told = chat(client, extra_body={**body, "schema_in_prompt": "outline"})
    assert told.usage.prompt_tokens > plain.usage.prompt_tokens


def test_choices_have_different_seeds(client: openai.OpenAI) -> None:
    completion = chat(client, n=3, seed=3)
    assert [choice.index for choice in completion.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in completion.choices}) > 1


def test_stream_interleaves_choices(client: openai.OpenAI) -> None:
    whole = chat(client, n=2, seed=3)
    texts = ["", ""]
    for chunk in chat(client, n=2, seed=3, stream=True):
        choice = chunk.choices[0]
        texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in whole.choices]


def test_required_tool_is_called(client: openai.OpenAI) -> None:
    completion = chat(client, tools=[TOOL], tool_choice="required", max_tokens=200)
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    for call in choice.message.tool_calls:
        assert call.type == "function"
        assert call.function.name == "weather"
        assert json.loads(call.function.arguments)["city"] in ("Lima", "Oslo")


def test_tool_calls_are_streamed_in_pieces(client: openai.OpenAI) -> None:
    choice = {"type": "function", "function": {"name": "weather"}}
    calls: dict[int, dict[str, str]] = {}
    reason = None
    for chunk in chat(client, tools=[TOOL], tool_choice=choice, max_tokens=200, stream=True):
        reason = chunk.choices[0].finish_reason or reason
        for call in chunk.choices[0].delta.tool_calls or ():
            known = calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
            known["id"] += call.id or ""
            known["name"] += call.function.name or ""
            known["arguments"] += call.function.arguments or ""
    assert reason == "tool_calls"
    assert list(calls) == [0]
    assert calls[0]["name"] == "weather"
    assert calls[0]["id"]
    assert json.loads(calls[0]["arguments"])["city"] in ("Lima", "Oslo")


def test_reasoning_is_reasoning_content(client: openai.OpenAI) -> None:
    given: dict[str, Any] = {
        "extra_body": {"chat_template_kwargs": {"enable_thinking": True}, "choice": ["yes", "no"]},
        "max_tokens": 60,
        "temperature": 0,
    }
    message = chat(client, **given).choices[0].message
    assert message.content in ("yes", "no")
    assert isinstance(message.reasoning_content, str)
    streamed = ""
    for chunk in chat(client, stream=True, **given):
        streamed += getattr(chunk.choices[0].delta, "reasoning_content", None) or ""
    assert streamed == message.reasoning_content


def test_freeform_answer_is_reasoning_content(client: openai.OpenAI) -> None:
    given: dict[str, Any] = {
        "extra_body": {
            "freeform_first": {"max_tokens": 8, "instruction": "J"},
            "choice": ["yes", "no"],
        },
        "max_tokens": 60,
        "temperature": 0,
    }
    whole = chat(client, **given)
    message = whole.choices[0].message
    assert message.content in ("yes", "no")
    assert message.reasoning_content
    details = whole.usage.completion_tokens_details
    assert 8 < details.reasoning_tokens < whole.usage.completion_tokens <= 60
    streamed = ["", ""]
    for chunk in chat(client, stream=True, **given):
        delta = chunk.choices[0].delta
        streamed[0] += getattr(delta, "reasoning_content", None) or ""
        streamed[1] += delta.content or ""
    assert streamed == [message.reasoning_content, message.content]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": "Hello", "max_output_tokens": 60}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 60}),
        ("/api/chat", {"messages": HELLO, "stream": False, "options": {"num_predict": 60}}),
    ],
)
def test_other_endpoints_with_messages_take_freeform_first(
    client: openai.OpenAI, path: str, body: dict[str, Any]
) -> None:
    freeform = {"max_tokens": 8, "instruction": "J"}
    model = client.models.list().data[0].id
    content = {"model": model, "choice": ["yes", "no"], "freeform_first": freeform, **body}
    base = str(client.base_url).removesuffix("/v1/")
    answer = httpx.post(f"{base}{path}", json=content, timeout=60)
    assert answer.status_code == 200, answer.text
    assert re.search(r"\"(yes|no)\"", answer.text)


def test_every_kind_of_message_is_accepted(client: openai.OpenAI) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
        {"role": "assistant", "content": "C", "reasoning": "why", "refusal": None},
        {"role": "assistant", "refusal": "No."},
        {"role": "user", "content": "D", "name": "someone"},
    ]
    assert chat(client, messages=messages).choices


@pytest.mark.parametrize(
    ("given", "status", "param", "code"),
    [
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"properties": {"b": {"minimum": "c"}}}},
                }
            },
            400,
            "response_format",
            "invalid_schema",
        ),
        ({"extra_body": {"regex": "("}}, 400, "regex", "invalid_pattern"),
        ({"extra_body": {"regex": r"(a)\1"}}, 400, "regex", "invalid_pattern"),
        ({"extra_body": {"guided_json": "{"}}, 400, "guided_json", "invalid_schema"),
        ({"extra_body": {"choice": []}}, 400, "choice", "invalid_value"),
        *(
            ({"extra_body": {"num_draft_tokens": number}}, 400, "num_draft_tokens", code)
            for number, code in (
                (-1, "invalid_value"),
                (True, "invalid_type"),
                (2.5, "invalid_type"),
            )
        ),
        (
            {"extra_body": {"num_draft_tokens": 2, "speculation": "auto"}},
            400,
            "num_draft_tokens",
            "invalid_value",
        ),
        ({"extra_body": {"speculation": "on"}}, 400, "speculation", "invalid_value"),
        (
            {"extra_body": {"speculation": {"num_draft_tokens": 0}}},
            400,
            "speculation.num_draft_tokens",
            "invalid_value",
        ),
        (
            {"extra_body": {"speculation": {"tokens": 3}}},
            400,
            "speculation.tokens",
            "invalid_value",
        ),
        ({"extra_body": {"draft_model": "no-such"}}, 404, "draft_model", "model_not_found"),
        ({"extra_body": {"draft_model": 3}}, 400, "draft_model", "invalid_type"),
        ({"extra_body": {"grammar": "root ::= 'a'"}}, 400, "grammar", "invalid_grammar"),
        (
            {"extra_body": {"guided_grammar": "root ::= root"}},
            400,
            "guided_grammar",
            "invalid_grammar",
        ),
        ({"extra_body": {"grammar": "start: <no_token>"}}, 400, "grammar", "invalid_grammar"),
        (
            {"extra_body": {"structured_outputs": {"grammar": "a"}}},
            400,
            "structured_outputs.grammar",
            "invalid_grammar",
        ),
        (
            {"extra_body": {"regex": "a"}, "response_format": {"type": "json_object"}},
            400,
            "regex",
            "conflicting_values",
        ),
        ({"response_format": {"type": "yaml"}}, 400, "response_format", "invalid_response_format"),
        ({"tools": [{"type": "function"}]}, 400, "tools[0]", "invalid_tool"),
        ({"tools": [TOOL], "tool_choice": "wether"}, 400, "tool_choice", "invalid_value"),
        ({"tool_choice": "required"}, 400, "tool_choice", "invalid_value"),
        ({"extra_body": {"choice": ["a" * 50]}}, 400, "max_tokens", "max_tokens_too_small"),
        ({"logit_bias": {"99999": 1}}, 400, "logit_bias", "invalid_value"),
        ({"messages": [{"role": "user", "content": ""}]}, 400, "messages", "invalid_prompt"),
        (
            {"messages": [{"role": "user", "content": "a " * 9000}]},
            400,
            "messages",
            "context_length_exceeded",
        ),
        ({"top_logprobs": 21}, 400, "top_logprobs", "invalid_value"),
        ({"max_completion_tokens": 0}, 400, "max_completion_tokens", "invalid_value"),
        ({"n": 100}, 400, "n", "too_many"),
        ({"n": 10**15}, 400, "n", "too_many"),
        ({"n": 0}, 400, "n", "invalid_value"),
        ({"temperature": -1}, 400, "temperature", "invalid_value"),
        ({"messages": []}, 400, "messages", "invalid_value"),
        ({"messages": [{"role": "king"}]}, 400, "messages[0].role", "invalid_value"),
        ({"extra_body": {"json_mode": 1}}, 400, "json_mode", "unsupported_parameter"),
        ({"logit_bias": {"a": 1}}, 400, "logit_bias", "invalid_value"),
        ({"model": "../etc"}, 404, "model", "model_not_found"),
    ],
)
def test_invalid_request_is_refused_by_field(
    client: openai.OpenAI, given: dict[str, Any], status: int, param: str, code: str
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        # A stream that cannot begin fails in the same way.
        chat(client, stream=status == 400, **given)
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["param"] == param
    assert caught.value.body["code"] == code
    assert caught.value.body["message"]


def test_refused_schema_is_located(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a/b": {"multipleOf": 0}}}
    wrapped = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, response_format=wrapped)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["schema_pointer"].startswith("/properties/a~1b")
    assert caught.value.body["schema_keyword"] == "multipleOf"
    tool = {"type": "function", "function": {"name": "t", "parameters": schema}}
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, tools=[tool])
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["param"].startswith("tools")
    assert caught.value.body["schema_keyword"] == "multipleOf"


def test_logprobs_belong_to_the_content(client: openai.OpenAI) -> None:
    whole = chat(client, temperature=0, logprobs=True, top_logprobs=2, max_tokens=6)
    content = whole.choices[0].logprobs.content
    assert content
    for token in content:
        assert token.logprob <= 0
        assert len(token.top_logprobs) == 2
        assert bytes(token.bytes).decode("utf-8", "replace") == token.token
    text = b"".join(bytes(token.bytes) for token in content).decode("utf-8", "replace")
    assert text == whole.choices[0].message.content
    streamed = []
    for chunk in chat(
        client, temperature=0, logprobs=True, top_logprobs=2, max_tokens=6, stream=True
    ):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert [token.token for token in streamed] == [token.token for token in content]
    assert chat(client).choices[0].logprobs is None


def test_include_tokens_adds_every_token_and_timings(client: openai.OpenAI) -> None:
    asked = {"include_tokens": True, "choice": ["yes sir", "yes madam"]}
    tokens = []
    timings = None
    text = ""
    for chunk in chat(client, extra_body=asked, max_tokens=40, stream=True):
        extension = getattr(chunk, "proxy_engine", None) or {}
        tokens += extension.get("tokens", [])
        timings = extension.get("timings", timings)
        text += chunk.choices[0].delta.content or ""
    assert {token["part"] for token in tokens} == {"structured"}
    assert any(token["is_forced"] for token in tokens)
    assert timings["completion_tokens"] == len(tokens)
    assert timings["forced_tokens"] == sum(token["is_forced"] for token in tokens)
    assert "".join(token["text"] for token in tokens).startswith(text)
    whole = chat(client, extra_body=asked, max_tokens=40)
    assert whole.model_extra["proxy_engine"]["timings"]["completion_tokens"] > 0


def test_drafts_save_passes_and_change_no_answer(client: openai.OpenAI) -> None:
    def answer(speculation: Any) -> tuple[str, dict[str, Any]]:
        asked = {"include_tokens": True, "speculation": speculation}
        whole = chat(client, temperature=0, max_tokens=90, extra_body=asked)
        return whole.choices[0].message.content, whole.model_extra["proxy_engine"]["timings"]

    text, off = answer("off")
    assert (off["drafted_tokens"], off["accepted_tokens"], off["draft_seconds"]) == (0, 0, 0)
    # The random model repeats itself.
    same, on = answer({"is_adaptive": False})
    assert same == text
    assert 0 < on["accepted_tokens"] <= on["drafted_tokens"]
    assert on["forward_passes"] < off["forward_passes"] < off["completion_tokens"]


def test_confidence_of_the_content_is_in_the_last_chunk(client: openai.OpenAI) -> None:
    more = {"exact_choices": True, "include_confidence": True, "choice": ["yes sir", "no sir"]}
    *_, last = chat(client, extra_body=more, max_tokens=40, stream=True)
    (found,) = last.choices[0].proxy_engine["confidence"].items()
    assert found[0] == ""
    assert 0 < found[1] <= 1


@pytest.mark.parametrize(
    "more",
    [
        {"response_format": {"type": "json_object"}},
        {"extra_body": {"regex": "a+"}},
        {"tools": [TOOL], "tool_choice": "required"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_stop_is_ignored_aloud_without_free_text(client: openai.OpenAI, more: Any) -> None:
    for stop, ignored in ((["a", '"'], "stop"), ([], None), ("", None)):
        raw = client.chat.completions.with_raw_response.create(
            model="", messages=HELLO, stop=stop, max_tokens=90, **more
        )
        assert raw.headers.get("x-ignored-fields") == ignored
        assert raw.parse().choices[0].finish_reason in ("stop", "tool_calls", "length")


def test_responses_are_accepted_as_messages(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "x"}]
    for more in ({}, {"tools": [TOOL], "tool_choice": "required"}):
        completion = chat(client, messages=messages, max_tokens=90, **more)
        answer = completion.choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": "done"}
            for call in answer.tool_calls or ()
        ]
        ask = {"role": "user", "content": "And?"}
        conversation: Any = [*messages, answer.model_dump(), *results, ask]
        next_one = chat(client, messages=conversation, max_tokens=90, **more)
        assert next_one.usage.prompt_tokens > completion.usage.total_tokens


def test_allowed_tools_restrict_the_calls(client: openai.OpenAI) -> None:
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    allowed = {"type": "function", "function": {"name": TOOL["function"]["name"]}}
    for seed in range(4):
        completion = chat(
            client,
            tools=[other, TOOL],
            tool_choice={
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [allowed]},
            },
            temperature=1,
            seed=seed,
            max_tokens=200,
        )
        calls = completion.choices[0].message.tool_calls
        assert {call.function.name for call in calls} == {TOOL["function"]["name"]}
