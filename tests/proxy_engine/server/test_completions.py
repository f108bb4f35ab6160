"""Completions with OpenAI's client."""

from __future__ import annotations

from typing import Any

import openai
import pytest


def complete(client: openai.OpenAI, prompt: Any, **given: Any) -> Any:
    return client.completions.create(
        **{"model": "SmolLM2-135M-Instruct", "prompt": prompt, "temperature": 0, **given}
    )


def test_prompt_is_continued(client: openai.OpenAI) -> None:
    completion = complete(client, "abc", max_tokens=6)
    assert completion.object == "text_completion"
    assert completion.usage.completion_tokens <= 6
    assert completion.choices[0].finish_reason in ("stop", "length")


def test_default_is_sixteen_tokens(client: openai.OpenAI) -> None:
    completion = complete(client, "abc", logit_bias={"264": -100})
    assert completion.usage.completion_tokens == 16


def test_prompt_may_be_token_ids(client: openai.OpenAI, roomy_engine: Any) -> None:
    ids = list(roomy_engine.tokenizer.encode("abc 12"))
    texts = {
        complete(client, prompt).choices[0].text for prompt in ("abc 12", ["abc 12"], ids, [ids])
    }
    assert len(texts) == 1


def test_each_prompt_gets_its_choices(client: openai.OpenAI) -> None:
    completion = complete(client, ["abc", "12"], n=2, temperature=1, seed=5)
    assert [choice.index for choice in completion.choices] == [0, 1, 2, 3]
    alone = complete(client, "abc", temperature=1, seed=5)
    assert completion.choices[0].text == alone.choices[0].text
    assert completion.usage.prompt_tokens < 2 * (3 + 2)


def test_stream_has_the_text_of_the_whole_response(client: openai.OpenAI) -> None:
    given: dict[str, Any] = {"echo": True, "max_tokens": 8}
    whole = complete(client, ["abc", "12"], **given)
    texts = ["", ""]
    usage = None
    reasons = []
    stream = complete(
        client, ["abc", "12"], stream=True, stream_options={"include_usage": True}, **given
    )
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert texts == [choice.text for choice in whole.choices]
    assert texts[0].startswith("abc")
    assert texts[1].startswith("12")
    assert len(reasons) == 2
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_echo_decodes_token_ids(client: openai.OpenAI, roomy_engine: Any) -> None:
    ids = list(roomy_engine.tokenizer.encode("abé"))
    assert complete(client, ids, echo=True, max_tokens=1).choices[0].text.startswith("abé")


def test_stop_string_ends_the_text(client: openai.OpenAI) -> None:
    text = complete(client, "abc", temperature=1, max_tokens=50, stop=["a", "e", " "])
    assert not set("ae ") & set(text.choices[0].text)


def test_constraints_shape_the_text(client: openai.OpenAI) -> None:
    completion = complete(client, "abc", extra_body={"regex": "[0-9]{4}"})
    assert completion.choices[0].text.isdecimal()
    assert completion.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("prompt", "given", "status", "param"),
    [
        ("", {}, 400, "prompt"),
        ([], {}, 400, "prompt"),
        ([1, 400], {}, 400, "prompt"),
        (["a", 1], {}, 400, None),
        ("a", {"best_of": 1, "n": 2}, 400, "best_of"),
        ("a", {"best_of": 2, "stream": True}, 400, "best_of"),
        ("a", {"best_of": 20}, 400, "n"),
        ("a", {"suffix": "b"}, 400, "suffix"),
        ("a", {"extra_body": {"regex": "a{40}"}}, 400, "max_tokens"),
        ("a " * 5000, {}, 400, "prompt"),
        (["a"] * 20, {}, 400, "n"),
        ("a", {"extra_body": {"draft_model": "no-such"}}, 404, "draft_model"),
        ("a", {"extra_body": {"num_draft_tokens": -1}}, 400, "num_draft_tokens"),
        (["a"], {"n": 10**15}, 400, "n"),
    ],
)
def test_invalid_request_is_refused_by_field(
    client: openai.OpenAI, prompt: Any, given: dict[str, Any], status: int, param: str | None
) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        complete(client, prompt, **given)
    assert caught.value.status_code == status
    assert isinstance(caught.value.body, dict)
    assert param is None or caught.value.body["param"] == param


def test_logprobs_have_offsets(client: openai.OpenAI) -> None:
    # Of letters alone, so that no token ends within a character.
    given: Any = {"logprobs": 2, "max_tokens": 8, "extra_body": {"regex": "[a-z]{3,5}"}}
    whole = complete(client, "abc", **given)
    told = whole.choices[0].logprobs
    assert "".join(told.tokens) == whole.choices[0].text
    assert told.text_offset[0] == 0
    assert told.text_offset == sorted(told.text_offset)
    assert all(value <= 0 for value in told.token_logprobs)
    assert all(1 <= len(top) <= 3 for top in told.top_logprobs)
    tokens = []
    for chunk in complete(client, "abc", stream=True, **given):
        for choice in chunk.choices:
            tokens += choice.logprobs.tokens if choice.logprobs else []
    assert tokens == told.tokens


def test_echo_has_the_log_probabilities_of_the_prompt(
    client: openai.OpenAI, roomy_engine: Any
) -> None:
    ids = list(roomy_engine.tokenizer.encode("Hello there"))
    given: Any = {"echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}
    (whole,) = complete(client, ids, **given).choices
    scored = roomy_engine.prompt_logprobs(ids, 1)
    logprobs = whole.logprobs
    assert len(logprobs.tokens) == len(ids) + 1
    assert logprobs.token_logprobs[0] is None
    assert logprobs.top_logprobs[0] is None
    assert logprobs.token_logprobs[1:-1] == pytest.approx(
        [token.chosen.before_mask for token in scored[1:]], abs=1e-4
    )
    for token, number, top in zip(
        logprobs.tokens[1:], logprobs.token_logprobs[1:], logprobs.top_logprobs[1:], strict=True
    ):
        assert top[token] == number
    # A greedy token is the most likely one.
    assert logprobs.token_logprobs[-1] == max(logprobs.top_logprobs[-1].values())
    streamed = [
        token
        for chunk in complete(client, ids, stream=True, **given)
        for token in (chunk.choices[0].logprobs.tokens if chunk.choices[0].logprobs else ())
    ]
    assert streamed == logprobs.tokens
