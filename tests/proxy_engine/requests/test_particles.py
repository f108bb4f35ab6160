"""Requests with particles and with several answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pydantic
import pytest
from cached_models import random_llama
from exact_conditional import Enumeration
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import (
    BatchRequest,
    CacheOptions,
    GenerationOptions,
    GenerationResult,
    InferenceEngine,
    InvalidOptionError,
    OutputValidationError,
    PartOptions,
    PromptProgress,
    TokenGenerated,
)

ANIMALS = {"enum": ["ab", "abcabc", "dog", "dogfish", "horse"]}
LIST = {"type": "array", "items": {"enum": [1, 12, "ab", True]}, "maxItems": 3}
PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["ab", "abc", "x"]}, "ok": {"type": "boolean"}},
    "required": ["name", "ok"],
    "additionalProperties": False,
}
TEXT_SCHEMA = {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2}
TOOL = {"type": "function", "function": {"name": "a", "parameters": PERSON}}


@pytest.fixture(scope="module")
def engine(tiny_model: Any, tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    options = GenerationOptions(temperature=1.0, max_tokens=80)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        yield engine


def weights_of(result: GenerationResult[Any]) -> list[float]:
    return [particle.log_weight for particle in result.particles]


def assert_same_particles(one: GenerationResult[Any], other: GenerationResult[Any]) -> None:
    """Passes of different shapes are rounded differently, so weights are equal up to that."""
    assert [each.token_ids for each in one.particles] == [
        each.token_ids for each in other.particles
    ]
    assert weights_of(one) == pytest.approx(weights_of(other), abs=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fast_forward": False},
        {"temperature": 3.0},
        {"top_k": 2},
        {"top_p": 0.6, "temperature": 2.0},
        {"min_p": 0.3},
        {"logit_bias": {64: 4.0, 1: -2.0}},
        {"repetition_penalty": 1.4, "presence_penalty": 0.5, "frequency_penalty": 0.2},
        {"min_tokens": 9},
        {"max_tokens": 24},
        {"logprobs": 2},
    ],
    ids=str,
)
def test_log_weight_is_the_probability_that_the_constraints_removed(
    engine: InferenceEngine, options: dict[str, Any]
) -> None:
    """Two particles are never resampled, so that each has the weights of its own tokens."""
    schema = {"type": "array", "prefixItems": [PERSON], "items": LIST["items"], "maxItems": 3}
    enumerated = {"fast_forward": False} if "logprobs" in options else options
    exact = Enumeration.of(engine, "hello", response_format=schema, **enumerated)
    for seed in range(2):
        result = engine.generate("hello", response_format=schema, particles=2, seed=seed, **options)
        for particle in result.particles:
            one = exact.follow(particle.token_ids)
            expected = one.log_base - one.log_masked
            assert particle.log_weight == pytest.approx(expected, abs=2e-3)
        mean = sum(map(math.exp, weights_of(result))) / 2
        assert result.log_evidence == pytest.approx(math.log(mean))
        assert sum(one.probability for one in result.particles) == pytest.approx(1)


def test_result_is_one_of_the_particles(engine: InferenceEngine) -> None:
    result = engine.generate("x", response_format=PERSON, particles=6, seed=3)
    assert len(result.particles) == 6
    assert result.text in {one.text for one in result.particles}
    assert result.parsed == json.loads(result.text)
    assert sum(one.probability for one in result.particles) == pytest.approx(1)
    assert all(one.parsed == json.loads(one.text) for one in result.particles)
    assert result.usage.particles_per_pass == 6
    assert result.usage.completion_tokens == len(result.token_ids)
    assert result.choices == ()


def test_log_evidence_of_an_answer_without_choice_is_its_probability(
    engine: InferenceEngine,
) -> None:
    exact = Enumeration.of(engine, "x", response_format={"const": "ab"}).run()
    result = engine.generate("x", response_format={"const": "ab"}, particles=3)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3)
    assert {one.text for one in result.particles} == {'"ab"'}


def test_unconstrained_text_has_particles(engine: InferenceEngine) -> None:
    result = engine.generate("x", particles=3, max_tokens=12, seed=1)
    assert result.parsed is None
    assert all(weight <= 0 for weight in weights_of(result))


@pytest.mark.parametrize("stop", [None, "a"])
def test_streams_emit_the_events_of_the_drawn_particle(
    engine: InferenceEngine, stop: str | None
) -> None:
    schema = None if stop else PERSON
    options: Any = {"response_format": schema, "particles": 4, "seed": 5, "stop": stop}
    events = list(engine.stream("x", **options))
    result = events[-1].result
    assert_same_particles(result, engine.generate("x", **options))
    tokens = [event.token_id for event in events if isinstance(event, TokenGenerated)]
    assert tokens == list(result.token_ids)
    assert "".join(event.text for event in events if event.type == "text_delta") == result.text
    progress = [event for event in events if isinstance(event, PromptProgress)]
    assert [one.processed == one.total for one in progress][-1]
    assert events.index(progress[-1]) < next(n for n, e in enumerate(events) if e.type == "token")


def test_tool_calls_of_particles_are_validated(roomy_engine: InferenceEngine) -> None:
    result = roomy_engine.generate(
        "x", tools=[TOOL], tool_choice="required", particles=3, seed=1, temperature=1.0
    )
    assert result.finish_reason == "tool_calls"
    for particle in result.particles:
        assert set(particle.tool_calls[0].arguments) == {"name", "ok"}


def test_reasoning_and_options_by_part(engine: InferenceEngine) -> None:
    result = engine.generate(
        "x",
        response_format=PERSON,
        reasoning=True,
        particles=4,
        seed=2,
        temperature=0.0,
        parts={"reasoning": PartOptions(max_tokens=8, temperature=1.0)},
    )
    assert result.parsed == json.loads(result.text)
    assert len({one.text for one in result.particles}) >= 1


class Even(pydantic.RootModel[int]):
    root: int = pydantic.Field(ge=0, le=99)

    @pydantic.field_validator("root")
    @classmethod
    def _check(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


def test_particles_that_a_validator_rejects_have_no_weight(engine: InferenceEngine) -> None:
    outcomes = set()
    for seed in range(6):
        try:
            result = engine.generate("x", response_format=Even, particles=4, seed=seed)
        except (OutputValidationError, pydantic.ValidationError):
            outcomes.add("all rejected")
            continue
        assert result.parsed.root % 2 == 0
        for particle in result.particles:
            is_odd = int(float(particle.text)) % 2 == 1
            assert (particle.probability == 0) == (particle.log_weight == -math.inf) == is_odd
            outcomes.add("rejected" if is_odd else "accepted")
        assert sum(one.probability for one in result.particles) == pytest.approx(1)
    assert {"accepted", "rejected"} <= outcomes


def test_several_draws_from_the_particles(engine: InferenceEngine) -> None:
    options: Any = {"response_format": PERSON, "particles": 4, "seed": 4}
    result = engine.generate("x", n=3, **options)
    assert len(result.choices) == 3
    assert result.choices[0].text == result.text
    texts = {one.text for one in result.particles}
    assert all(choice.text in texts for choice in result.choices)
    assert_same_particles(result, engine.generate("x", **options))
    assert all(choice.choices == choice.particles == () for choice in result.choices)


def test_several_answers_share_the_prompt(engine: InferenceEngine) -> None:
    options: Any = {"response_format": TEXT_SCHEMA, "seed": 4}
    result = engine.generate("x", n=5, **options)
    assert len(result.choices) == 5
    assert len({choice.text for choice in result.choices}) > 1
    # The first one is the answer without n.
    assert result.text == result.choices[0].text == engine.generate("x", **options).text
    assert result.particles == ()
    assert result.log_evidence is None
    assert result.usage.particles_per_pass == 0
    forced = engine.generate("x", n=2, response_format={"const": "ab"})
    assert [choice.parsed for choice in forced.choices] == ["ab", "ab"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"particles": 0}, "particles"),
        ({"particles": -1}, "particles"),
        ({"particles": True}, "particles"),
        ({"particles": 2.0}, "particles"),
        ({"n": 0}, "n"),
        ({"particles": 9}, "particles"),
        ({"n": 9}, "n"),
        ({"particles": 2, "temperature": 0.0}, "particles"),
    ],
    ids=str,
)
def test_invalid_counts_are_refused_before_the_model_runs(
    engine: InferenceEngine, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        engine.generate("x", **options)
    assert caught.value.option == named
    if options.get(named, 0) == 9:
        assert "8" in str(caught.value)
        assert "9" in str(caught.value)


def test_many_draws_are_not_bound_by_the_batch(engine: InferenceEngine) -> None:
    result = engine.generate("x", response_format=ANIMALS, particles=2, n=20, seed=1)
    assert len(result.choices) == 20


@pytest.mark.parametrize(
    "cache", [CacheOptions(kv_bits=8, kv_group_size=32), CacheOptions(max_kv_size=64)], ids=str
)
def test_models_that_cannot_be_batched_run_particles_one_after_the_other(
    tiny_tokenizer: TokenizerWrapper, cache: CacheOptions
) -> None:
    options = GenerationOptions(temperature=1.0, max_tokens=60)
    with InferenceEngine(random_llama(320), tiny_tokenizer, cache=cache, options=options) as engine:
        request: Any = {"response_format": PERSON, "particles": 4, "seed": 1}
        result = engine.generate("x", **request)
        assert result.usage.particles_per_pass == 1
        assert sum(one.probability for one in result.particles) == pytest.approx(1)
        assert_same_particles(engine.generate("x", **request), result)
        together = engine.generate_batch(
            [
                BatchRequest("x", response_format=PERSON, options={"particles": 4, "seed": 1}),
                "y",
                BatchRequest("z", response_format=PERSON, options={"particles": 3, "seed": 1}),
            ]
        )
        assert_same_particles(together[0], result)


def test_deadline_completes_all_particles(engine: InferenceEngine) -> None:
    result = engine.generate("x", response_format=TEXT_SCHEMA, particles=4, max_seconds=1e-6)
    assert all(one.parsed == json.loads(one.text) for one in result.particles)


def test_prompt_is_processed_once_and_cached(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper
) -> None:
    options = GenerationOptions(temperature=1.0, max_tokens=60)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        prompt = "a long prompt " * 6
        first = engine.generate(prompt, response_format=PERSON, particles=4, seed=1)
        again = engine.generate(prompt, response_format=PERSON, particles=4, seed=1)
        assert first.usage.cached_tokens == 0
        assert again.usage.cached_tokens == again.usage.prompt_tokens - 1
        assert again.text == first.text
        assert weights_of(again) == pytest.approx(weights_of(first), abs=1e-3)


def test_saved_prompt_caches_do_not_depend_on_particles(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper, tmp_path: Any
) -> None:
    options = GenerationOptions(temperature=1.0, particles=4)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options) as engine:
        saved = engine.save_prompt_cache(tmp_path / "a.safetensors", "hello")
        assert saved == engine.generate("hello", max_tokens=4).usage.prompt_tokens


def test_failed_forward_pass_fails_the_request_and_not_the_engine(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model
    calls = []
    original = type(model).__call__

    def failing(self: Any, inputs: mx.array, *arguments: Any, **more: Any) -> Any:
        calls.append(inputs.shape)
        if len(calls) == 6:
            raise RuntimeError("no memory")
        return original(self, inputs, *arguments, **more)

    with InferenceEngine(model, tiny_tokenizer) as engine:
        engine.warm_up()
        monkeypatch.setattr(type(model), "__call__", failing)
        with pytest.raises(RuntimeError, match="no memory"):
            engine.generate("x", particles=4, temperature=1.0, min_tokens=20)
        assert engine.running_requests == 0
        assert engine.generate("x", particles=4, temperature=1.0, max_tokens=5).particles


@pytest.mark.parametrize("options", [{"particles": 2}, {"n": 2}], ids=str)
def test_request_can_be_cancelled_before_its_prompt_is_processed(
    engine: InferenceEngine, options: dict[str, Any]
) -> None:
    core = engine._core
    arguments = {"temperature": 1.0, **options}
    request = core.preparation.request("x", response_format=TEXT_SCHEMA, arguments=arguments)
    request.cancelled.set()
    result = core.scheduler.submit(request, lambda _: None).result(10)()
    assert result.finish_reason == "cancelled"
    assert result.parsed is None
