from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pydantic
import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from scripted_answers import ScriptedModel

from proxy_engine import (
    AnswerRejected,
    Fenced,
    Finished,
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    OutputValidationError,
    RawPrompt,
    TextDelta,
)
from proxy_engine.conversation.content import ToolCall
from proxy_engine.conversation.interaction import Role
from proxy_engine.conversation.messages import to_interactions
from proxy_engine.requests.retries import excluded_arguments, with_rejected
from proxy_engine.results.parts import RejectedAnswer, Usage
from state_machines import JsonSchemaStateMachine
from state_machines.root import Structured

PROMPT = "Say yes or no."
REJECTED = RejectedAnswer('{"a": 1}', "/a should be 2", Usage(1, 1, 0.0, 0.0))


class Choice(pydantic.BaseModel):
    """Accepts one value, which is not the one that a model writes first."""

    number: int = pydantic.Field(ge=0, le=3)
    accepted: int = pydantic.Field(ge=0, le=3)

    @pydantic.model_validator(mode="after")
    def _differ(self) -> Choice:
        if (self.number, self.accepted) != (2, 3):
            raise ValueError("number should be 2, and accepted should be 3")
        return self


class Never(pydantic.BaseModel):
    flag: bool

    @pydantic.field_validator("flag")
    @classmethod
    def _refuse(cls, value: bool) -> bool:
        raise ValueError("never")


class Price(pydantic.BaseModel):
    price: float

    @pydantic.field_validator("price")
    @classmethod
    def _refuse(cls, value: float) -> float:
        raise ValueError("never")


def _check(result: Any) -> None:
    """Check that a result is accepted after attempts that all differ."""
    assert result.parsed == Choice.model_construct(number=2, accepted=3)
    texts = [answer.text for answer in result.rejected]
    values = [tuple(json.loads(text).values()) for text in (*texts, result.text)]
    assert len(set(values)) == len(values) == result.usage.retries + 1 > 1
    attempts = [answer.usage.completion_tokens for answer in result.rejected]
    assert result.usage.completion_tokens == sum(attempts) + len(result.token_ids)
    assert "number should be 2" in result.rejected[0].reason


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 3}, {"exact_choices": True}])
def test_retries_differ_until_an_answer_is_accepted(
    roomy_engine: InferenceEngine, options: dict[str, Any]
) -> None:
    _check(roomy_engine.generate(PROMPT, Choice, max_retries=15, **options))


def test_retries_work_between_delimiters_and_for_event_loops(roomy_engine: InferenceEngine) -> None:
    _check(asyncio.run(roomy_engine.agenerate(PROMPT, Fenced(Choice), max_retries=15)))


def test_requests_of_a_batch_are_retried_on_their_own(roomy_engine: InferenceEngine) -> None:
    items = list(roomy_engine.iter_batch([PROMPT, "x"], Choice, max_retries=15, ordered=False))
    assert sorted(item.index for item in items) == [0, 1]
    for item in items:
        _check(item.result)


def test_streams_announce_attempts(roomy_engine: InferenceEngine) -> None:
    events = list(roomy_engine.stream(PROMPT, Choice, max_retries=15))
    assert isinstance(events[-1], Finished)
    result = events[-1].result
    _check(result)
    texts = [""]
    for event in events:
        if isinstance(event, TextDelta):
            texts[-1] += event.text
        elif isinstance(event, AnswerRejected):
            assert event.text == texts[-1]
            texts.append("")
    assert texts == [*(answer.text for answer in result.rejected), result.text]

    async def read() -> list[Any]:
        stream = roomy_engine.astream(PROMPT, Choice, max_retries=15)
        return [event async for event in stream]

    again = [event for event in asyncio.run(read()) if isinstance(event, AnswerRejected)]
    assert [event.text for event in again] == texts[:-1]


def test_error_has_all_attempts(roomy_engine: InferenceEngine) -> None:
    with pytest.raises(OutputValidationError) as caught:
        roomy_engine.generate(PROMPT, Choice, max_retries=2)
    assert len({attempt.text for attempt in caught.value.attempts}) == 3
    assert caught.value.attempts[-1].text == caught.value.text
    # Both values of the only Boolean are rejected.
    with pytest.raises(OutputValidationError, match="No further attempt is possible") as caught:
        roomy_engine.generate(PROMPT, Never, max_retries=50)
    texts = [json.loads(attempt.text)["flag"] for attempt in caught.value.attempts]
    assert sorted(texts) == [False, True]
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)


@pytest.mark.parametrize("is_call", [False, True])
def test_numbers_with_more_digits_than_a_float_are_excluded(
    tiny_tokenizer: TokenizerWrapper, is_call: bool
) -> None:
    value = '{"price": 0.10000000000000000001}'
    call = f'<tool_call>\n{{"name": "Price", "arguments": {value}}}\n</tool_call>'
    options: Any = {"response_format": Price}
    if is_call:
        options = {"tools": [Price], "tool_choice": "required", "tool_format": "hermes"}
    model = ScriptedModel(tiny_tokenizer, dict.fromkeys(range(9), call if is_call else value))
    with (
        InferenceEngine(model, tiny_tokenizer) as engine,
        pytest.raises(OutputValidationError) as caught,
    ):
        engine.generate(PROMPT, max_retries=1, max_tokens=100, **options)
    texts = [
        attempt.tool_calls[0].raw if is_call else attempt.text for attempt in caught.value.attempts
    ]
    assert value in texts[0]
    assert value not in texts[1]


def test_exact_arguments_skip_other_texts_of_a_call() -> None:
    raw = '{1e99999999999999999999} {"a": 1e99999999999999999999} {"price": 0.10}'
    call = ToolCall("id", "f", {"price": 0.1}, raw)
    rejected = replace(REJECTED, tool_calls=(call,), reasons={0: "r"})
    assert excluded_arguments([rejected]) == {"f": [{"price": Decimal("0.10")}]}


def test_raw_prompt_is_retried_without_the_rejected_answers(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(RawPrompt("x"), Choice, max_retries=15)
    _check(result)
    assert result.rejected[0].usage.prompt_tokens * (result.usage.retries + 1) == (
        result.usage.prompt_tokens
    )


def test_prompt_has_the_rejected_answers_and_their_reasons() -> None:
    prompt = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "Here: "}]
    _, answer, reason, begin = to_interactions(
        with_rejected(prompt, [REJECTED], continues=True)  # type: ignore[arg-type]
    )
    assert answer.text == 'Here: {"a": 1}'
    assert reason.role is Role.USER
    assert REJECTED.reason in reason.text
    assert begin.text == "Here: "
    turns = to_interactions(
        with_rejected(prompt, [REJECTED], continues=False)  # type: ignore[arg-type]
    )
    assert [turn.text for turn in turns[1:3]] == ["Here: ", '{"a": 1}']


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_tool_calls_with_rejected_arguments_are_retried(
    roomy_engine: InferenceEngine, name: str
) -> None:
    options: Any = {"tools": [Choice], "tool_choice": "required", "tool_format": name}
    result = roomy_engine.generate(PROMPT, max_retries=15, **options)
    calls = [answer.tool_calls[0].arguments for answer in result.rejected]
    calls += [result.tool_calls[0].arguments]
    assert calls[-1] == {"number": 2, "accepted": 3}
    assert len({json.dumps(call) for call in calls}) == len(calls) == result.usage.retries + 1
    with pytest.raises(OutputValidationError, match="invalid arguments for 'Choice'") as caught:
        roomy_engine.generate(PROMPT, max_retries=1, **options)
    assert [len(attempt.tool_calls) for attempt in caught.value.attempts] == [1, 1]
    # Without the option the caller decides.
    assert roomy_engine.generate(PROMPT, **options).tool_calls[0].parsed is None


def test_tool_loop_runs_accepted_calls_alone(roomy_engine: InferenceEngine) -> None:
    ran: list[Choice] = []

    def choose(choice: Choice) -> str:
        """Choose."""
        ran.append(choice)
        return "done"

    run = roomy_engine.run_tools(
        PROMPT, [choose], tool_choice="required", max_rounds=1, max_retries=15, max_tokens=120
    )
    assert [choice.number for choice in ran] == [2]
    assert [turn.role for turn in run.conversation] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("options", "response_format"),
    [
        ({"n": 2, "temperature": 1.0}, Never),
        ({}, Structured("answer", grammar=JsonSchemaStateMachine(True))),
    ],
)
def test_retries_are_refused_where_they_have_no_effect(
    tiny_engine: InferenceEngine, options: dict[str, Any], response_format: Any
) -> None:
    with pytest.raises(InvalidOptionError, match="max_retries"):
        tiny_engine.generate("x", response_format, max_retries=1, **options)


def test_default_of_an_engine_leaves_requests_with_several_answers_alone(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    options = GenerationOptions(max_retries=3, max_tokens=20)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        assert len(engine.generate("x", {"type": "boolean"}, n=2).choices) == 2
        with pytest.raises(OutputValidationError) as caught:
            engine.generate("x", Never, n=2)
    assert len(caught.value.attempts) == 1
