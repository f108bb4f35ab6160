"""Finite choices are drawn from the model's distribution among the whole options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from distributions import chi_square_p_value, frequencies, total_variation
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import make_prompt_cache

from proxy_engine import GenerationResult, InferenceEngine, RawPrompt, ScoredChoice
from proxy_engine.generation import DeviceMasks
from proxy_engine.generation.choice_scores import (
    Candidate,
    ChoiceScorer,
    prefix_layers,
)
from samplers import SamplingParameters, make_sampler
from state_machines import ChoiceStateMachine

PROMPT = RawPrompt("Which one? ")
ANIMALS = ["cat", "catfish", "abc", "abcd", "dog"]


def logprobs_after(model: Module, tokens: Sequence[int], temperature: float = 1.0) -> Any:
    logits = np.array(model(mx.array([list(tokens)]))[0, -1].astype(mx.float32), np.float64)
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
        depends_on_tokens=sampler.has_penalties,
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


def test_end_of_an_option_continues_the_cache(tiny_model: Module) -> None:
    prompt = [5, 9, 77, 30]
    tokens = (11, 12, 13, 14, 15)
    wide = np.ones(320, np.bool_)
    options = [Candidate(tokens[:n], wide) for n in range(1, 6)]
    options += [Candidate((*tokens, 20 + n), wide) for n in range(6)]
    cache = make_prompt_cache(tiny_model)
    logits = tiny_model(mx.array([prompt]), cache=cache)[:, -1]
    scorer = ChoiceScorer(tiny_model, DeviceMasks(), lambda given, _: given.astype(mx.float32))
    scores = scorer.scores(options, prefix_layers(cache, 0, len(prompt)), logits)
    end = scores.end(len(options) - 1)
    assert end is not None
    layers, last = end
    for layer, (keys, values) in zip(cache, layers, strict=True):
        layer.update_and_fetch(keys, values)
    exact = logprobs_after(tiny_model, [*prompt, *options[-1].tokens])
    found = np.array(last[0], np.float64)
    assert np.abs(found - np.logaddexp.reduce(found) - exact).max() < 1e-4
    following = np.array(tiny_model(mx.array([[3]]), cache=cache)[0, -1], np.float64)
    exact = logprobs_after(tiny_model, [*prompt, *options[-1].tokens, 3])
    assert np.abs(following - np.logaddexp.reduce(following) - exact).max() < 1e-4


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
    texts = [animal(tiny_engine, temperature=3.0, seed=n).text for n in range(300)]
    assert chi_square_p_value(texts, exact) > 0.01
    plain = [
        animal(tiny_engine, temperature=3.0, seed=n, exact_choices=False).text for n in range(300)
    ]
    assert total_variation(frequencies(plain), exact) > 0.2
