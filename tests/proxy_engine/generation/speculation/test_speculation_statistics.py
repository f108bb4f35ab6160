"""Answers that are sampled with drafts have the distribution of those that are sampled without.

The exact distribution comes from enumeration. All seeds are fixed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from adversarial_drafters import ALWAYS, Mistaken, Replay, drafters
from distributions import chi_square_p_value, frequencies, sampling_noise, total_variation
from exact_conditional import Enumeration
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import babbling_model

from proxy_engine import InferenceEngine
from state_machines import ChoiceStateMachine, RegexStateMachine

DRAWS = 400
CASES: dict[str, dict[str, Any]] = {
    "forced text": {
        "response_format": ChoiceStateMachine(["2:ab:12:1", "2:abx:1", "2:xa:xa:xa", "a"])
    },
    "filters and penalties": {
        "response_format": RegexStateMachine("(ab|a|b){1,3}x?|12"),
        "fast_forward": False,
        "temperature": 1.4,
        "top_p": 0.9,
        "presence_penalty": 1.5,
        "repetition_penalty": 1.3,
    },
    "tight budget": {"response_format": RegexStateMachine("(ab|x|1){1,6}2"), "max_tokens": 4},
}


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    with InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer) as engine:
        yield engine


@pytest.mark.parametrize("name", CASES)
def test_drafts_do_not_change_the_distribution(engine: InferenceEngine, name: str) -> None:
    arguments = {"temperature": 1.0, "max_tokens": 20, **CASES[name]}
    enumeration = Enumeration.of(engine, "hello", **arguments)
    exact = enumeration.run()
    answers = [
        [*enumeration.prompt_ids, *one.token_ids]
        for one in exact.sequences
        if exact.masked_by_tokens[one.token_ids] > 1e-3
    ]
    drafted = accepted = 0
    texts = []
    for seed in range(DRAWS):

        def make(prompt_ids: Sequence[int], seed: int = seed) -> list[Replay]:
            # A proposal is independent of the answer that is going to be sampled.
            shuffled = random.Random(seed).sample(answers, len(answers))
            return [Mistaken(shuffled, seed, engine.vocabulary.size, rate=0.1)]

        with drafters(make):
            result = engine.generate("hello", **arguments, seed=seed, speculation=ALWAYS)
        texts.append(exact.text(result.token_ids))
        drafted += result.usage.drafted_tokens
        accepted += result.usage.accepted_tokens
    assert 0 < accepted < drafted
    assert chi_square_p_value(texts, exact.masked_by_text) > 0.01
    noise = sampling_noise(exact.masked_by_text, DRAWS)
    assert total_variation(frequencies(texts), exact.masked_by_text) < 2 * noise
