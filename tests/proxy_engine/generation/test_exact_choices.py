"""Finite choices are drawn from the model's distribution among the whole options."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from architectures import VOCABULARY, small_model
from cached_models import KINDS, WINDOW, model_of
from cached_models import VOCABULARY as SMALL
from distributions import chi_square_p_value, frequencies, total_variation
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import RotatingKVCache, make_prompt_cache
from object_schemas import closed_object

from proxy_engine import GenerationResult, InferenceEngine, RawPrompt, ScoredChoice
from proxy_engine.generation import DeviceMasks
from proxy_engine.generation.choice_scores import (
    Candidate,
    ChoiceScorer,
)
from proxy_engine.generation.shared_prefix import prefix_layers
from proxy_engine.prompt_cache.layers import max_scorable_length
from samplers import SamplingParameters, make_sampler
from state_machines import ChoiceStateMachine

PROMPT = RawPrompt("Which one? ")
ANIMALS = ["cat", "catfish", "abc", "abcd", "dog"]


def logprobs_after(model: Module, tokens: Sequence[int], temperature: float = 1.0) -> Any:
    given = mx.array([list(tokens)])
    last = model(given, cache=make_prompt_cache(model))[0, -1]
    logits = np.array(last.astype(mx.float32), np.float64)
    return logits / temperature - np.logaddexp.reduce(logits / temperature)


def log_mass(
    model: Module,
    prompt: Sequence[int],
    tokens: Sequence[int],
    allowed: Any,
    temperature: float = 1.0,
) -> float:
    """Score one option by its own forward passes."""
    total = 0.0
    for n, token in enumerate(tokens):
        total += logprobs_after(model, [*prompt, *tokens[:n]], temperature)[token]
    last = logprobs_after(model, [*prompt, *tokens], temperature)
    return total + float(np.logaddexp.reduce(last[allowed]))


def normalized(scores: Sequence[float]) -> list[float]:
    found = np.array(scores, np.float64)
    probabilities: list[float] = np.exp(found - np.logaddexp.reduce(found)).tolist()
    return probabilities


def some_candidates(draw: np.random.Generator, width: int, count: int) -> list[Candidate]:
    """Options with common beginnings, among them options that begin others, and no tokens."""
    stems = [tuple(draw.integers(0, width, 9).tolist()) for _ in range(3)]
    found = {()}
    while len(found) < count:
        stem = stems[draw.integers(0, 3)][: draw.integers(0, 10)]
        found.add((*stem, *draw.integers(0, width, draw.integers(0, 4)).tolist()))
    masks = [draw.random(width) < share for share in (0.05, 0.5, 1.0)]
    return [Candidate(tokens, masks[draw.integers(0, 3)]) for tokens in sorted(found)]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("penalty", [0.0, 1.5], ids=["", "penalty"])
def test_scores_equal_those_of_single_passes(
    tiny_model: Module, temperature: float, penalty: float
) -> None:
    draw = np.random.default_rng(1)
    prompt = draw.integers(0, 260, 12).tolist()
    candidates = some_candidates(draw, 320, 40)
    sampler = make_sampler(
        SamplingParameters(
            temperature=temperature, presence_penalty=penalty, logit_bias={7: 2.0}, seed=0
        )
    )
    cache = make_prompt_cache(tiny_model)
    logits = tiny_model(mx.array([prompt]), cache=cache)[:, -1]
    scorer = ChoiceScorer(
        tiny_model,
        DeviceMasks(),
        lambda given, behind: sampler.scaled_logits(
            given, [*prompt, *behind], prompt_tokens=len(prompt)
        ),
        depends_on_tokens=sampler.parameters.has_penalties,
    )
    scores = scorer.scores(candidates, prefix_layers(cache, 0, len(prompt)), logits)

    def own_score(candidate: Candidate) -> float:
        total = 0.0
        for n in range(len(candidate.tokens) + 1):
            tokens = [*prompt, *candidate.tokens[:n]]
            given = sampler.scaled_logits(
                tiny_model(mx.array([tokens]))[0, -1], tokens, prompt_tokens=len(prompt)
            )
            row = np.array(given, np.float64) - float(np.logaddexp.reduce(np.array(given)))
            last = n == len(candidate.tokens)
            total += float(
                np.logaddexp.reduce(row[candidate.allowed]) if last else row[candidate.tokens[n]]
            )
        return total

    expected = [own_score(candidate) for candidate in candidates]
    assert normalized(scores.log_scores) == pytest.approx(normalized(expected), abs=2e-5)
    for number, (score, exact) in enumerate(zip(scores.log_scores, expected, strict=True)):
        assert score == pytest.approx(exact, abs=2e-4) or math.isinf(score), number


@pytest.mark.parametrize("length", [7, 3 * WINDOW])
@pytest.mark.parametrize(
    "name", ["afm7", "gemma2", "gemma3n", "gpt_bigcode", "plain", "default", "sliding"]
)
def test_models_with_keys_and_values_score_options_in_one_pass(name: str, length: int) -> None:
    """Also those of which batches with rows of different lengths are wrong."""
    model = model_of(name) if name in KINDS else small_model(name)
    width = SMALL if name in KINDS else VOCABULARY
    draw = np.random.default_rng(0)
    prompt = draw.integers(0, width, length).tolist()
    wide = np.ones(width, np.bool_)
    options = [
        Candidate(tuple(draw.integers(0, width, length).tolist()), wide)
        for length in (1, 2, 3, 4, 2)
    ]
    cache = make_prompt_cache(model)
    model(mx.array([prompt[:-2]]), cache=cache)
    for token in prompt[-2:]:
        logits = model(mx.array([[token]]), cache=cache)[:, -1]
    assert max_scorable_length(cache) == sys.maxsize
    scorer = ChoiceScorer(model, DeviceMasks(), lambda given, _: given.astype(mx.float32))
    found = scorer.scores(options, prefix_layers(cache, 0, len(prompt)), logits).log_scores
    exact = [log_mass(model, prompt, option.tokens, wide) for option in options]
    assert found == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("name", ["kimi_k3", "mamba"])
def test_recurrent_caches_are_not_shared(name: str) -> None:
    assert not max_scorable_length(make_prompt_cache(small_model(name)))


def test_cache_that_keeps_first_tokens_is_shared_until_it_drops_others() -> None:
    cache = [RotatingKVCache(max_size=16, keep=4)]
    assert max_scorable_length(cache) == 16


def own_choice(engine: InferenceEngine, **options: Any) -> ScoredChoice:
    (choice,) = animal(engine, **options).scored_choices
    return choice


def animal(engine: InferenceEngine, **options: Any) -> GenerationResult[Any]:
    machine = ChoiceStateMachine(ANIMALS)
    given = {"temperature": 1.0, "max_tokens": 20, "exact_choices": True, **options}
    return engine.generate(PROMPT, response_format=machine, **given)


def exact_animals(
    engine: InferenceEngine, model: Module, temperature: float = 1.0
) -> dict[str, float]:
    tokenizer = engine.tokenizer
    prompt = tokenizer.encode(str(PROMPT.content), add_special_tokens=False)
    end = np.arange(320) == tokenizer.eos_token_id
    scores = [
        log_mass(model, prompt, tokenizer.encode(name, add_special_tokens=False), end, temperature)
        for name in ANIMALS
    ]
    return dict(zip(ANIMALS, normalized(scores), strict=True))


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_probabilities_are_exact(
    tiny_engine: InferenceEngine, tiny_model: Module, temperature: float
) -> None:
    choice = own_choice(tiny_engine, temperature=temperature)
    exact = exact_animals(tiny_engine, tiny_model, temperature or 1.0)
    found = {option.text: option.probability for option in choice.options}
    assert found == pytest.approx(exact, abs=1e-4)
    assert choice.offset == 0
    probabilities = [option.probability for option in choice.options]
    assert probabilities == sorted(probabilities, reverse=True)


def test_draws_have_the_exact_distribution(
    tiny_engine: InferenceEngine, tiny_model: Module
) -> None:
    exact = exact_animals(tiny_engine, tiny_model, 3.0)
    texts = [animal(tiny_engine, temperature=3.0, seed=n).text for n in range(150)]
    assert chi_square_p_value(texts, exact) > 0.01
    plain = [
        animal(tiny_engine, temperature=3.0, seed=n, exact_choices=False).text for n in range(150)
    ]
    assert total_variation(frequencies(plain), exact) > 0.2


@pytest.mark.parametrize("seed", range(6))
def test_options_that_cannot_be_drawn_need_no_score(tiny_model: Module, seed: int) -> None:
    draw = np.random.default_rng(seed)
    prompt = draw.integers(0, 260, 8).tolist()
    candidates = some_candidates(draw, 320, 80)
    cache = make_prompt_cache(tiny_model)
    logits = tiny_model(mx.array([prompt]), cache=cache)[:, -1]
    scorer = ChoiceScorer(tiny_model, DeviceMasks(), lambda given, _: given.astype(mx.float32))
    layers = prefix_layers(cache, 0, len(prompt))
    noise = draw.gumbel(size=len(candidates))
    every = scorer.scores(candidates, layers, logits)
    some = scorer.scores(candidates, layers, logits, noise)
    best = int(np.argmax(every.log_scores + noise))
    assert int(np.argmax(some.log_scores + noise)) == best
    assert some.log_scores[best] == pytest.approx(every.log_scores[best], abs=1e-4)
    is_scored = np.isfinite(some.log_scores)
    assert (some.log_estimates[is_scored] == some.log_scores[is_scored]).all()
    assert is_scored.sum() <= np.isfinite(every.log_scores).sum()


def test_greedy_takes_the_best_whole_option(
    tiny_engine: InferenceEngine, tiny_model: Module
) -> None:
    exact = exact_animals(tiny_engine, tiny_model)
    result = animal(tiny_engine, temperature=0.0)
    assert result.text == max(exact, key=lambda name: exact[name])
    assert result.scored_choices[0].chosen.text == result.text


def test_filters_apply_to_whole_options(tiny_engine: InferenceEngine) -> None:
    choice = own_choice(tiny_engine, temperature=2.0)
    best = {option.text for option in choice.options[:2]}
    texts = {animal(tiny_engine, temperature=2.0, top_k=2, seed=n).text for n in range(30)}
    assert texts <= best


def test_options_that_do_not_fit_are_left_out(tiny_engine: InferenceEngine) -> None:
    shown = {option.text for option in own_choice(tiny_engine, max_tokens=2).options}
    assert shown == {"abc", "abcd"}


RECORD: Any = closed_object(
    colour={"enum": ["red", "green", None, 12]},
    seen={"type": "boolean"},
    count={"type": "integer", "minimum": 1, "maximum": 12},
    name={"type": "string", "maxLength": 3},
)


def a_record(engine: InferenceEngine, prompt: str = "Go", **options: Any) -> GenerationResult[Any]:
    given = {"temperature": 1.0, "seed": 3, "max_tokens": 80, "exact_choices": True, **options}
    return engine.generate(prompt, response_format=RECORD, **given)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fast_forward": False},
        {"logprobs": 2},
        {"max_tokens": 50},
        {"presence_penalty": 1.0, "top_p": 0.9},
    ],
    ids=lambda options: ",".join(options) or "plain",
)
def test_recorded_choices_are_those_of_the_output(
    tiny_engine: InferenceEngine, options: dict[str, Any]
) -> None:
    for seed in range(2):
        result = a_record(tiny_engine, seed=seed, **options)
        output = "".join(part.text for part in result.parts).encode()
        choices = [choice.chosen.text.strip('"') for choice in result.scored_choices]
        found = [json.dumps(value).strip('"') for value in result.parsed.values()]
        assert choices == found[:3]
        for choice in result.scored_choices:
            text = choice.chosen.text.encode()
            assert output[choice.offset : choice.offset + len(text)] == text
            assert choice.chosen in choice.options
            total = sum(option.probability for option in choice.options)
            assert total == pytest.approx(1.0, abs=1e-6)


def test_choices_before_the_minimum_length_are_sampled_by_token(
    tiny_engine: InferenceEngine,
) -> None:
    early = animal(tiny_engine, min_tokens=3).scored_choices
    assert all(choice.offset >= 3 for choice in early)


@pytest.mark.model
def test_example_of_the_documentation(embedded_engine: InferenceEngine) -> None:
    animals = ["cat", "catfish of the deep", "dog", "dogfish and shark", "horse", "platypus"]
    result = embedded_engine.generate(
        RawPrompt("My favourite animal is the"),
        response_format=ChoiceStateMachine([f" {animal}" for animal in animals]),
        temperature=1.0,
        seed=1,
        exact_choices=True,
    )
    found = {one.text: round(one.probability, 2) for one in result.scored_choices[0].options}
    assert found == {
        " cat": 0.96,
        " dog": 0.02,
        " horse": 0.01,
        " platypus": 0.01,
        " catfish of the deep": 0.0,
        " dogfish and shark": 0.0,
    }
