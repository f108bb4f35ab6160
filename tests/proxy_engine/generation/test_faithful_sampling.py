"""Particles are weighted properly: their weights estimate the exact conditional distribution.

For every number of particles, the expectation of the evidence times the probability of an answer
among the particles is the model's own probability of that answer. The exact values come from
enumeration. All seeds are fixed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from distributions import chi_square_p_value, frequencies, sampling_noise, total_variation
from exact_conditional import Enumeration, ExactConditional
from mlx_lm.tokenizer_utils import TokenizerWrapper
from prefix_model import PrefixModel, ids_of, words_model

from proxy_engine import GenerationResult, InferenceEngine
from state_machines import ChoiceStateMachine, RegexStateMachine
from state_machines.root import Series as Parts
from state_machines.root import Structured

CHOICE = ChoiceStateMachine(["ab", "abc", "abcab:12", "b", "12", "122"])
WORDS = RegexStateMachine("(ab|a|b){1,4}c?|12")
COMPOSITION = Parts(
    Structured("one", grammar=RegexStateMachine("[ab]{1,2}")),
    Structured("two", grammar=RegexStateMachine("c?12?")),
)
BITS = RegexStateMachine("00000|1[01]{4}")


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    # The grammars keep about a half of the mass at each step, so that a hundred runs estimate a
    # probability to a few percent.
    model = words_model(tiny_tokenizer, 7, 5.0)
    with InferenceEngine(model, tiny_tokenizer, batch_size=64) as engine:
        yield engine


@pytest.fixture(scope="module")
def bits_engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    """The example of Park et al.: masking writes 00000 in nine of ten answers."""
    zero, one = ids_of(tiny_tokenizer, "0", "1")

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        if len(text) == 5:
            return {int(tiny_tokenizer.eos_token_id): 1.0}
        share = 0.25 if text else 0.9
        return {zero: share, one: 1 - share}

    model = PrefixModel(320, (zero, one), 5, probabilities)
    with InferenceEngine(model, tiny_tokenizer, batch_size=64) as engine:
        yield engine


def run(
    engine: InferenceEngine, particles: int, runs: int, **arguments: Any
) -> list[GenerationResult[Any]]:
    options = {"temperature": 1.0, **arguments}
    if particles > 1:
        options["particles"] = particles
    return [engine.generate("hello", seed=seed, **options) for seed in range(runs)]


def check_weights(results: Sequence[GenerationResult[Any]], exact: ExactConditional) -> None:
    """Compare the weighted counts of texts, and their sum, with the exact probabilities.

    Texts are left out that masking writes too rarely for an estimate of the error.
    """
    written = sum(len(result.particles) for result in results)
    expected = {
        text: exact.by_text[text]
        for text, probability in exact.masked_by_text.items()
        if probability * written >= 60
    }
    expected[""] = 1.0
    weights: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(results)))
    for number, result in enumerate(results):
        assert result.log_evidence is not None
        evidence = math.exp(result.log_evidence - exact.log_evidence)
        assert sum(one.probability for one in result.particles) == pytest.approx(1)
        for particle in result.particles:
            text = exact.text(particle.token_ids)
            assert text in exact.by_text
            weights[text][number] += evidence * particle.probability
        weights[""][number] = evidence
    for text, probability in expected.items():
        error = weights[text].std() / math.sqrt(len(results))
        assert abs(weights[text].mean() - probability) < 4 * error, text


CASES: dict[str, dict[str, Any]] = {
    "choice": {"response_format": CHOICE},
    "every token sampled": {"response_format": CHOICE, "fast_forward": False, "temperature": 1.6},
    "forced text": {"response_format": ChoiceStateMachine(["2:ab:12:1", "2:abc:1", "2:ca:ca:ca"])},
    "composition": {"response_format": COMPOSITION},
    "tight budget": {"response_format": RegexStateMachine("(ab|c|1){1,6}2"), "max_tokens": 4},
    "filters": {"response_format": WORDS, "top_p": 0.8, "min_p": 0.1, "top_k": 4},
    "penalties": {
        "response_format": WORDS,
        "presence_penalty": 1.5,
        "repetition_penalty": 1.3,
        "logit_bias": {64: 1.0},
        "min_tokens": 3,
    },
}


@pytest.mark.parametrize("name", CASES)
def test_particles_are_weighted_properly(engine: InferenceEngine, name: str) -> None:
    arguments = {"max_tokens": 40, "temperature": 1.0, **CASES[name]}
    exact = Enumeration.of(engine, "hello", **arguments).run()
    check_weights(run(engine, 8, 40, **arguments), exact)


def test_refused_tokens_far_from_the_limit_lose_their_weight(engine: InferenceEngine) -> None:
    """Two in three first tokens begin a text that is too long; the mask admits them at first."""
    long = ids_of(engine.tokenizer, "Ã")
    machine = RegexStateMachine("é[0-9]{200}|[ -~]")
    arguments = {
        "response_format": machine,
        "max_tokens": 100,
        "logit_bias": {long[0]: 30.0, **dict.fromkeys(ids_of(engine.tokenizer, "a", "b"), -1.0)},
    }
    exact = Enumeration.of(engine, "hello", temperature=1.0, **arguments).run()
    results = run(engine, 4, 50, **arguments)
    assert 0 < sum(result.log_evidence == -math.inf for result in results) < len(results)
    check_weights(results, exact)


def test_forced_end_has_the_probability_of_all_end_tokens(tiny_tokenizer: TokenizerWrapper) -> None:
    ends = ids_of(tiny_tokenizer, "<|end|>", "<|start|>")
    wrapper = TokenizerWrapper(tiny_tokenizer._tokenizer, eos_token_ids=set(ends))
    a, b = ids_of(tiny_tokenizer, "a", "b")

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        first = {a: 0.4, b: 0.3, ends[0]: 0.2, ends[1]: 0.1}
        return first if not text else {ends[0]: 0.25, ends[1]: 0.5, a: 0.25}

    arguments = {"response_format": RegexStateMachine("a|b|ba"), "max_tokens": 5}
    model = PrefixModel(320, (a, b), 2, probabilities)
    with InferenceEngine(model, wrapper, batch_size=8) as engine:
        exact = Enumeration.of(engine, "hello", temperature=1.0, **arguments).run()
        check_weights(run(engine, 4, 60, **arguments), exact)
    # (0.4 + 0.3 + 0.3 × 0.25) × 0.75, the last factor being that of the end.
    assert math.exp(exact.log_evidence) == pytest.approx(0.4 * 0.75 + 0.3 * 0.75 + 0.075 * 0.75)


def test_distance_falls_with_the_number_of_particles(bits_engine: InferenceEngine) -> None:
    exact = Enumeration.of(
        bits_engine, "hello", temperature=1.0, response_format=BITS, max_tokens=8
    ).run()
    assert total_variation(exact.masked_by_text, exact.by_text) == pytest.approx(0.866, abs=1e-3)
    draws, distances, texts = 100, [], []
    for particles in (1, 4, 40):
        results = run(bits_engine, particles, draws, response_format=BITS, max_tokens=8)
        texts = [exact.text(result.token_ids) for result in results]
        distances.append(total_variation(frequencies(texts), exact.by_text))
        if particles == 1:
            assert chi_square_p_value(texts, exact.by_text) < 0.001
            assert chi_square_p_value(texts, exact.masked_by_text) > 0.01
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.8
    assert distances[-1] < 1.3 * sampling_noise(exact.by_text, draws)
    assert chi_square_p_value(texts, exact.by_text) > 0.01


def test_draws_of_one_request_come_from_its_particles(bits_engine: InferenceEngine) -> None:
    result = run(bits_engine, 8, 1, response_format=BITS, max_tokens=8, n=300)[0]
    drawn = frequencies(choice.token_ids for choice in result.choices)
    weights: dict[Sequence[int], float] = defaultdict(float)
    for particle in result.particles:
        weights[particle.token_ids] += particle.probability
    assert total_variation(drawn, weights) < 0.1
    assert result.token_ids == result.choices[0].token_ids
