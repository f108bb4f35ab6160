"""Fields of other servers, and OpenAI's older fields."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import openai
import pytest
from live_server import Live
from object_schemas import closed_object

from proxy_engine import SpeculationOptions
from proxy_engine.options.generation import MAX_COUNT
from proxy_engine.server.endpoints.choices import (
    ChatMessage,
    ChatRequest,
    CompletionRequest,
    engine_messages,
)
from proxy_engine.server.unknown_fields import HEADER

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
CONTINUED = [*HELLO, {"role": "assistant", "content": "Well"}]
FUNCTION = {
    "name": "weather",
    "parameters": closed_object(city={"enum": ["Lima", "Oslo"]}),
}


def post(live: Live, path: str = "chat/completions", **body: Any) -> httpx.Response:
    given = {"prompt": "Hello"} if path == "completions" else {"messages": HELLO}
    with live.http() as http:
        return http.post(f"/v1/{path}", json={**given, "max_tokens": 4, **body})


def options_of(**given: Any) -> dict[str, Any]:
    body = ChatRequest.model_validate({"messages": HELLO, **given})
    return dict(body.options())


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"num_draft_tokens": 20}, {"speculation": SpeculationOptions(num_draft_tokens=20)}),
        ({"num_draft_tokens": 0}, {"speculation": SpeculationOptions(draft_model=False)}),
        ({"speculation": "off"}, {"speculation": "off"}),
        ({"speculation": {"max_draft_tokens": 3, "num_draft_tokens": 2}}, {"speculation": SpeculationOptions(max_draft_tokens=3, num_draft_tokens=2)}),
        ({"temperature": 1e-6}, {"temperature": 0.0}),
        ({"temperature": 0.3}, {"temperature": 0.3}),
        ({"top_p": 0}, {"top_p": 1.0, "top_k": 1}),
        ({"top_p": 0.0, "top_k": 40}, {"top_p": 1.0, "top_k": 1}),
        ({"top_k": -1}, {"top_k": -1}),
        ({"repetition_penalty": 0}, {"repetition_penalty": 1.0}),
        ({"repeat_penalty": 1.1}, {"repetition_penalty": 1.1}),
        ({"repeat_penalty": 1.1, "repetition_penalty": 2}, {"repetition_penalty": 2}),
        ({"presence_penalty": 50, "frequency_penalty": -50}, {"presence_penalty": 50, "frequency_penalty": -50}),
        ({"repetition_context_size": 20}, {"repetition_context_size": 20}),
        ({"repetition_context_size": 0}, {"repetition_context_size": MAX_COUNT}),
        ({"presence_penalty": 1, "repetition_context_size": 9}, {"presence_penalty": 1, "repetition_context_size": 9}),
        ({"presence_penalty": 1, "presence_context_size": 9, "frequency_context_size": 9}, {"presence_penalty": 1, "repetition_context_size": 9}),
        ({"logit_bias": {"5": "1.5", "6": 2}}, {"logit_bias": ((5, 1.5), (6, 2.0))}),
        ({"seed": -1}, {"seed": 2**64 - 1}),
        ({"seed": 2**64 + 3}, {"seed": 3}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
        ({"max_tokens": -1}, {"max_tokens": None}),
        ({"stop": ""}, {}),
        ({"stop": ["", "a"]}, {"stop": ["a"]}),
        ({"stop": "a"}, {"stop": ["a"]}),
        ({"min_tokens": 3, "stop_token_ids": [5, 5]}, {"min_tokens": 3, "stop_token_ids": (5,)}),
        ({"chat_template_kwargs": {"mood": {"a": 1}}}, {"chat_template_kwargs": {"mood": {"a": 1}}}),
        ({"tool_format": "json_fence", "tool_delimiters": ["<", ">"]}, {"tool_format": "json_fence", "tool_delimiters": ("<", ">")}),
        ({"store": True, "metadata": [{}], "verbosity": "low", "adapters": None, "lora": []}, {}),
        ({"xtc_threshold": 0.5, "xtc_probability": 0.2}, {"xtc_threshold": 0.5, "xtc_probability": 0.2}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_field_is_converted_to_options(given: dict[str, Any], options: dict[str, Any]) -> None:
    assert options_of(**given) == options


@pytest.mark.parametrize(
    ("given", "ignored"),
    [
        ({"repeat_penalty": 1.1, "repetition_penalty": 2}, {"repeat_penalty"}),
        ({"repeat_penalty": 2, "repetition_penalty": 2}, set()),
        ({"presence_context_size": 9, "frequency_context_size": 99}, {"frequency_context_size"}),
        ({"repeat_last_n": 6}, {"repeat_last_n"}),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            {"continue_final_message", "add_generation_prompt"},
        ),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens"}),
        ({"max_tokens": 6, "max_completion_tokens": 6}, set()),
        ({"skip_special_tokens": False}, {"skip_special_tokens"}),
        ({"skip_special_tokens": True}, set()),
        ({"continue_final_message": True}, {"continue_final_message"}),
        ({"add_generation_prompt": False}, {"add_generation_prompt"}),
        ({"continue_final_message": False, "add_generation_prompt": True}, set()),
        ({"messages": CONTINUED, "continue_final_message": True}, set()),
    ],
)
def test_value_without_effect_is_listed(given: dict[str, Any], ignored: set[str]) -> None:
    body = ChatRequest.model_validate({"messages": HELLO, **given})
    assert {*body.ineffective_fields(), *dict(body.unknown_fields())} == ignored


@pytest.mark.parametrize(
    ("given", "most_likely"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": False, "top_logprobs": -1}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": -1}, 0),
        ({"logprobs": True, "top_logprobs": 3}, 3),
        ({"top_logprobs": 3}, 3),
    ],
)
def test_logprobs_are_asked_for_in_both_forms(
    given: dict[str, Any], most_likely: int | None
) -> None:
    assert ChatRequest.model_validate({"messages": HELLO, **given}).most_likely == most_likely
    assert CompletionRequest.model_validate(given).most_likely == most_likely


def test_completion_logprobs_may_be_a_number() -> None:
    assert CompletionRequest.model_validate({"logprobs": 2}).most_likely == 2
    assert CompletionRequest.model_validate({"logprobs": 0}).most_likely == 0


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_top_logprobs_imply_logprobs(live: Live, path: str) -> None:
    (choice,) = post(live, path, top_logprobs=2).json()["choices"]
    logprobs = choice["logprobs"]
    tops = (
        logprobs["top_logprobs"]
        if path == "completions"
        else [token["top_logprobs"] for token in logprobs["content"]]
    )
    assert tops
    # Completions always have the token itself, too.
    assert all(len(top) <= 3 for top in tops)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"lora": [{"id": 0, "scale": 1}]}, "lora"),
        ({"lora_path": "a"}, "lora_path"),
        ({"functions": [FUNCTION]}, "functions"),
        ({"messages": [*HELLO, {"role": "assistant", "function_call": {"name": "f"}}]}, "messages[].function_call"),
        ({"conversation": "conv_1"}, "conversation"),
    ],
)  # fmt: skip
def test_unsupported_field_is_refused_by_name(
    live: Live, given: dict[str, Any], param: str
) -> None:
    reply = post(live, **given)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (
        400,
        "unsupported_parameter",
        param,
    )


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_ignore_eos_fills_the_limit(live: Live, path: str) -> None:
    # The tiny vocabulary's end token is likely otherwise.
    bias = {"264": 100}
    short = post(live, path, max_tokens=9, logit_bias=bias).json()
    whole = post(live, path, max_tokens=9, logit_bias=bias, ignore_eos=True).json()
    assert short["usage"]["completion_tokens"] < 9
    assert whole["usage"]["completion_tokens"] == 9
    assert whole["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "more",
    [
        {"regex": "a+"},
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": FUNCTION}]},
    ],
)
def test_ignore_eos_is_refused_where_the_answer_ends_by_itself(
    live: Live, more: dict[str, Any]
) -> None:
    reply = post(live, ignore_eos=True, **more)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "ignore_eos")


def test_stop_token_ends_the_text(live: Live) -> None:
    given: Any = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}
    chunks = post(live, "completions", **given, include_tokens=True, stream=True).text
    frames = [line.removeprefix("data: ") for line in chunks.splitlines() if line[6:7] == "{"]
    told = [json.loads(frame).get("proxy_engine", {}).get("tokens", []) for frame in frames]
    ids = [token["token_id"] for tokens in told for token in tokens]
    reply = post(live, "completions", **{**given, "ignore_eos": None}, stop_token_ids=[ids[3]])
    assert reply.json()["usage"]["completion_tokens"] == ids.index(ids[3]) + 1


@pytest.mark.parametrize(
    ("given", "continues"),
    [
        ({}, True),
        ({"continue_final_message": True, "add_generation_prompt": False}, True),
        ({"add_generation_prompt": False}, True),
        ({"continue_final_message": False}, False),
        ({"continue_final_message": False, "add_generation_prompt": True}, False),
        ({"add_generation_prompt": True}, False),
    ],
)
def test_last_message_is_continued_unless_an_answer_is_asked_for(
    live: Live, given: dict[str, Any], continues: bool
) -> None:
    tokens = post(live, messages=CONTINUED, **given).json()["usage"]["prompt_tokens"]
    continued = post(live, messages=CONTINUED).json()["usage"]["prompt_tokens"]
    assert (tokens == continued) is continues


@pytest.mark.parametrize(
    "given",
    [
        {"response_format": {"type": "json_object", "schema": {"const": 7}}},
        {"response_format": {"type": "json_schema", "schema": {"const": 7}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}}}},
        {"json_schema": {"const": 7}},
        {"json_schema": '{"const": 7}'},
        {"guided_json": {"const": 7}},
        {"ebnf": 'root ::= "7"'},
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["chat/completions", "completions"])
def test_schema_is_enforced_in_every_form(live: Live, path: str, given: dict[str, Any]) -> None:
    (choice,) = post(live, path, **given).json()["choices"]
    text = choice["text"] if path == "completions" else choice["message"]["content"]
    # A value may be surrounded by whitespace.
    assert json.loads(text) == 7


def test_best_answers_are_returned(client: openai.OpenAI) -> None:
    def complete(prompt: Any, **given: Any) -> Any:
        return client.completions.create(
            model="SmolLM2-135M-Instruct", prompt=prompt, seed=5, max_tokens=6, **given
        )

    prompts = ["abc", "12"]
    candidates = complete(prompts, n=4, logprobs=0).choices
    found = complete(prompts, n=2, best_of=4)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert all(choice.logprobs is None for choice in found.choices)
    expected = []
    for begin in (0, 4):
        ranked = sorted(
            candidates[begin : begin + 4],
            key=lambda choice: (
                -math.fsum(choice.logprobs.token_logprobs) / len(choice.logprobs.token_logprobs)
            ),
        )
        expected += [choice.text for choice in ranked[:2]]
    assert [choice.text for choice in found.choices] == expected
    assert found.usage.completion_tokens > sum(len(text) for text in expected) / 10


@pytest.mark.parametrize(
    ("message", "read"),
    [
        (
            {"role": "assistant", "content": "a", "reasoning": "r", "reasoning_details": [{}]},
            {"role": "assistant", "content": "a", "reasoning_content": "r"},
        ),
        (
            {"role": "agent", "content": "a", "reasoning_content": "r", "reasoning": "s"},
            {"role": "agent", "content": "a", "reasoning_content": "r"},
        ),
        (
            {"role": "assistant", "content": "a", "thinking": [{"type": "text", "text": "r"}]},
            {"role": "assistant", "content": "a", "reasoning_content": "r"},
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "r", "signature": "s"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
                    {"type": "text", "text": "a"},
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}],
                "reasoning_content": "rt",
            },
        ),
        (
            {"role": "user", "content": "a", "cache_control": {"type": "ephemeral"}, "id": 3},
            {"role": "user", "content": "a"},
        ),
    ],
)
def test_history_of_other_servers_is_read(message: dict[str, Any], read: dict[str, Any]) -> None:
    (found,) = engine_messages([ChatMessage.model_validate(message)])
    assert {
        key: value for key, value in found.items() if value is not None or key == "content"
    } == read


@pytest.mark.parametrize("part", [{}, {"type": []}, {"type": None}, {"type": "thinking?"}])
def test_unknown_part_is_refused(live: Live, part: dict[str, Any]) -> None:
    reply = post(live, messages=[*HELLO, {"role": "assistant", "content": [part]}, *HELLO])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_prompt")


def test_history_of_other_servers_is_accepted(live: Live) -> None:
    turns = [
        {"role": "developer", "content": [{"type": "text", "text": "Hi", "cache_control": {}}]},
        *HELLO,
        {"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}], "prefix": False},
        *HELLO,
    ]  # fmt: skip
    reply = post(live, messages=turns, store=True, metadata={"a": [1]})
    assert reply.status_code == 200, reply.text
    assert HEADER not in reply.headers


def test_response_accepts_fields_without_effect(live: Live) -> None:
    with live.http() as http:
        reply = http.post(
            "/v1/responses",
            json={
                "input": "a",
                "max_output_tokens": 4,
                "truncation": "auto",
                "metadata": {"a": [1]},
                "include": ["file_search_call.results"],
            },
        )
    assert reply.status_code == 200, reply.text
    assert (reply.json()["metadata"], reply.json()["truncation"]) == ({"a": [1]}, "disabled")
