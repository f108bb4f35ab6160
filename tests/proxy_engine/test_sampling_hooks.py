"""Samplers and logits processors of the caller, and log-probabilities of all tokens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pydantic
import pytest
from mlx_lm import sample_utils
from object_schemas import closed_object

from proxy_engine import (
    BatchRequest,
    InferenceEngine,
    InvalidOptionError,
    OutputValidationError,
    PartOptions,
    RawPrompt,
    SpeculationOptions,
    TokenGenerated,
)
from state_machines import ChoiceStateMachine

PERSON = closed_object(name={"type": "string", "maxLength": 12}, age={"type": "integer"})
PROMPT = "Ada is 36."


class Refused(pydantic.BaseModel):
    """A word that is never right."""

    word: str

    @pydantic.field_validator("word")
    @classmethod
    def _refuse(cls, word: str) -> str:
        raise ValueError(f"{word} is wrong")


def argmax(logprobs: mx.array) -> mx.array:
    return mx.argmax(logprobs, axis=-1)


def test_a_sampler_selects_the_tokens(roomy_engine: InferenceEngine) -> None:
    shapes = set()

    def sampler(logprobs: mx.array) -> mx.array:
        shapes.add((logprobs.shape, logprobs.dtype))
        assert math.isclose(mx.logsumexp(logprobs).item(), 0, abs_tol=1e-4)
        return argmax(logprobs)

    greedy = roomy_engine.generate(PROMPT, response_format=PERSON)
    result = roomy_engine.generate(PROMPT, response_format=PERSON, sampler=sampler)
    assert result.token_ids == greedy.token_ids
    assert shapes == {((1, roomy_engine.vocabulary.size), mx.float32)}


def test_samplers_of_mlx_lm_work_under_a_mask(roomy_engine: InferenceEngine) -> None:
    sampler = sample_utils.make_sampler(temp=1.0, top_p=0.9)
    for _ in range(3):
        result = roomy_engine.generate(PROMPT, response_format=PERSON, sampler=sampler)
        assert result.parsed == json.loads(result.text)


def test_logits_processors_run_before_the_mask(roomy_engine: InferenceEngine) -> None:
    seen: list[int] = []

    def favour(favourite: int) -> Callable[[mx.array, mx.array], mx.array]:
        def process(tokens: mx.array, logits: mx.array) -> mx.array:
            seen.append(tokens.size)
            return mx.where(mx.arange(logits.shape[-1]) == favourite, 1e4, logits)

        return process

    options: Any = {"response_format": ChoiceStateMachine(["yes", "no"]), "fast_forward": False}
    ids = roomy_engine.tokenizer.encode("Q", add_special_tokens=False)
    for text in ("no", "yes"):
        first = roomy_engine.tokenizer.encode(text, add_special_tokens=False)[0]
        for sampler in (None, argmax):
            result = roomy_engine.generate(
                RawPrompt("Q"),
                logits_processors=[favour(first), favour(ids[0])],
                sampler=sampler,
                **options,
            )
            # The last favourite is masked.
            assert result.text == text
    assert seen[0] == len(ids)


def test_processors_and_sampling_parameters_work_together(roomy_engine: InferenceEngine) -> None:
    def nothing(_: mx.array, logits: mx.array) -> mx.array:
        return logits

    options: Any = {"temperature": 1.0, "seed": 3, "top_p": 0.9, "speculation": "off"}
    expected = roomy_engine.generate(PROMPT, max_tokens=20, **options)
    result = roomy_engine.generate(PROMPT, max_tokens=20, logits_processors=[nothing], **options)
    assert result.token_ids == expected.token_ids


def test_iterators_apply_to_all_requests_of_a_call(roomy_engine: InferenceEngine) -> None:
    mark = roomy_engine.tokenizer.encode("!")[-1]

    def only(_: mx.array, logits: mx.array) -> mx.array:
        return mx.where(mx.arange(logits.shape[-1]) == mark, 1e4, logits)

    def look_up() -> str:
        return "found"

    hooks: Any = {"logits_processors": iter([only]), "stop": iter(["!!!", "?"])}
    answers = roomy_engine.generate_batch([PROMPT] * 2, max_tokens=9, **hooks)
    assert [result.token_ids[:-1] for result in answers] == [(mark,) * 3] * 2
    hooks = {"logits_processors": iter([only]), "tool_choice": "required"}
    run = roomy_engine.run_tools(PROMPT, [look_up], max_tokens=60, **hooks)
    assert set(run.result.text) == {"!"}
    with pytest.raises(OutputValidationError) as caught:
        roomy_engine.generate(PROMPT, Refused, max_retries=1, logits_processors=iter([only]))
    assert all(attempt.text.startswith('{"word": "!') for attempt in caught.value.attempts)


def test_repeated_text_is_not_drafted_for_callers_functions(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(
        "one two " * 20,
        max_tokens=10,
        sampler=argmax,
        speculation=SpeculationOptions(is_adaptive=False),
    )
    assert result.usage.drafted_tokens == 0


@pytest.mark.parametrize(
    ("hooks", "error"),
    [
        ({"sampler": lambda _: 5}, InvalidOptionError),
        ({"sampler": lambda _: mx.array([0.5])}, InvalidOptionError),
        ({"sampler": lambda _: mx.array([1, 2])}, InvalidOptionError),
        ({"sampler": lambda _: 1 / 0}, ZeroDivisionError),
        ({"sampler": lambda logprobs: mx.argmin(logprobs, axis=-1)}, InvalidOptionError),
        ({"logits_processors": [lambda *_: None]}, InvalidOptionError),
        ({"logits_processors": [lambda _, logits: logits[:, :3]]}, InvalidOptionError),
    ],
)
def test_a_failing_function_fails_its_own_request(
    roomy_engine: InferenceEngine, hooks: dict[str, Any], error: type[Exception]
) -> None:
    batch = [BatchRequest(PROMPT), BatchRequest(PROMPT, options=hooks)]
    good, bad = roomy_engine.generate_batch(batch, response_format=PERSON, return_exceptions=True)
    assert isinstance(bad, error)
    assert not isinstance(good, Exception)
    assert good.parsed == json.loads(good.text)


@pytest.mark.parametrize("response_format", [None, PERSON])
def test_sampler_that_returns_an_invalid_token_is_named(
    roomy_engine: InferenceEngine, response_format: Any
) -> None:
    size = roomy_engine.vocabulary.size
    ids = [mx.array([size]), mx.array([2**31 - 5]), mx.array([-1]), mx.array([2**40], mx.int64)]
    for token in ids:
        with pytest.raises(InvalidOptionError, match=f"the sampler .* {token.item()}, .* {size}"):
            roomy_engine.generate(
                PROMPT, response_format=response_format, sampler=lambda _, t=token: t, logprobs=1
            )
    # The type of the array is the sampler's own affair.
    small = roomy_engine.generate(PROMPT, sampler=lambda _: mx.array([9], mx.uint8), max_tokens=4)
    assert small.token_ids == (9,) * 4
    with pytest.raises(InvalidOptionError, match="which the mask excludes"):
        roomy_engine.generate(
            PROMPT, response_format=PERSON, sampler=lambda _: mx.array([size - 1])
        )


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ({"sampler": 3}, "sampler"),
        ({"logits_processors": argmax}, "logits_processors"),
        ({"logits_processors": ["a"]}, "logits_processors"),
        ({"logprob_vectors": 1}, "logprob_vectors"),
        ({"sampler": argmax, "top_p": 0.5}, "top_p"),
        ({"sampler": argmax, "repetition_context_size": 5}, "repetition_context_size"),
        ({"sampler": argmax, "parts": {"text": PartOptions(temperature=1.0)}}, "parts"),
        ({"sampler": argmax, "exact_choices": True}, "sampler"),
        ({"xtc_probability": 0.5, "temperature": 1, "exact_choices": True}, "xtc_probability"),
    ],
)
def test_arguments_are_checked(
    brief_engine: InferenceEngine, arguments: dict[str, Any], option: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        brief_engine.generate(PROMPT, **arguments)
    assert caught.value.option == option


def test_log_probability_vectors_agree_with_the_reported_ones(
    roomy_engine: InferenceEngine,
) -> None:
    options: Any = {"response_format": PERSON, "logprob_vectors": True}
    result = roomy_engine.generate(PROMPT, logprobs=2, temperature=1.0, seed=2, **options)
    assert result.logprobs is not None
    assert result.logprob_vectors is not None
    assert len(result.logprob_vectors) == len(result.logprobs) == len(result.token_ids)
    for token_id, own, vectors in zip(
        result.token_ids, result.logprobs, result.logprob_vectors, strict=True
    ):
        for vector in (vectors.before_mask, vectors.after_mask):
            assert vector.shape == (roomy_engine.vocabulary.size,)
            assert vector.dtype == np.float32
            assert np.exp(vector).sum() == pytest.approx(1, abs=1e-4)
        assert vectors.before_mask[token_id] == pytest.approx(own.chosen.before_mask, abs=1e-5)
        assert vectors.after_mask[token_id] == pytest.approx(own.chosen.after_mask, abs=1e-5)


def test_the_vectors_of_a_stream_are_in_its_events(roomy_engine: InferenceEngine) -> None:
    events = list(roomy_engine.stream(PROMPT, max_tokens=4, logprob_vectors=True))
    tokens = [event for event in events if isinstance(event, TokenGenerated)]
    assert len(tokens) > 1
    assert all(event.logprob_vectors.before_mask.ndim == 1 for event in tokens)
    assert "logprob_vectors" not in tokens[0].model_dump_json()
    assert events[-1].result.logprob_vectors is None
