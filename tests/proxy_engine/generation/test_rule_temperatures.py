"""Samplers of parts, and temperatures of rules in grammars, which select the sampler of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from adversarial_drafters import KINDS
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import Comparison, babbling_model, complete_masks

from proxy_engine import InferenceEngine, InvalidOptionError, PartOptions, generate_step
from proxy_engine.generation import SequenceSamplers
from proxy_engine.options.generation import GenerationOptions
from samplers import make_sampler
from state_machines import GrammarStateMachine

COLD = GrammarStateMachine.from_lark(
    'start: cold free\ncold[temperature=0, suffix=":"]: /[abx]{6}/\nfree: /[ab12]{6}/'
)
HOT = GrammarStateMachine.from_lark(
    'start: hot free\nhot[temperature=1.5, suffix=":"]: /[abx]{6}/\nfree: /[ab12]{6}/'
)
PLAIN = GrammarStateMachine.from_lark(
    'start: cold free\ncold[suffix=":"]: /[abx]{6}/\nfree: /[ab12]{6}/'
)
CHOICES = GrammarStateMachine.from_lark(
    'start: one ":" two\none[temperature=0]: "ab" | "x" | "12"\ntwo: ("ab" | "x") ("a" | "2")'
)
SEEDS = range(6)


@pytest.fixture(scope="module")
def engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    model = babbling_model(tiny_tokenizer)
    with complete_masks(), InferenceEngine(model, tiny_tokenizer, batch_size=16) as engine:
        yield engine


def written(engine: InferenceEngine, machine: GrammarStateMachine, temperature: float) -> set[str]:
    return {
        engine.generate(
            "hello", response_format=machine, temperature=temperature, seed=seed, max_tokens=30
        ).text
        for seed in SEEDS
    }


def test_rule_at_temperature_zero_has_the_most_likely_tokens(engine: InferenceEngine) -> None:
    texts = written(engine, COLD, 1.5)
    assert len(texts) > 1
    greedy = engine.generate("hello", response_format=PLAIN, max_tokens=30).text
    assert {text.partition(":")[0] for text in texts} == {greedy.partition(":")[0]}


def test_rule_with_a_temperature_is_sampled_in_a_greedy_request(engine: InferenceEngine) -> None:
    texts = written(engine, HOT, 0)
    assert len({text.partition(":")[0] for text in texts}) > 1


def test_temperature_of_a_rule_takes_the_place_of_that_of_a_part(engine: InferenceEngine) -> None:
    texts = {
        engine.generate(
            "hello",
            response_format=COLD,
            seed=seed,
            max_tokens=30,
            parts={"structured": PartOptions(temperature=1.5)},
        ).text
        for seed in SEEDS
    }
    assert len(texts) > 1
    assert len({text.partition(":")[0] for text in texts}) == 1


@pytest.mark.parametrize("machine", [COLD, HOT, CHOICES], ids=["cold", "hot", "choices"])
@pytest.mark.parametrize("exact_choices", [False, True])
def test_drafts_do_not_change_answers(
    engine: InferenceEngine, machine: GrammarStateMachine, exact_choices: bool
) -> None:
    for seed, kind in enumerate(KINDS[:3]):
        options = {"response_format": machine, "temperature": 0.8, "seed": seed, "max_tokens": 30}
        Comparison(engine, "hello", **options, exact_choices=exact_choices).run(kind, seed=seed)


def test_rules_and_other_text_draw_independent_numbers() -> None:
    samplers = SequenceSamplers(GenerationOptions(temperature=1.0, seed=3), (0.9,))
    places: list[Any] = [SimpleNamespace(part_name="", temperature=each) for each in (0.9, None)]
    pair = [samplers.sampler(place) for place in places]
    drawn = [[one(mx.zeros(1000), []).item() for _ in range(8)] for one in pair]
    assert not set(drawn[0]) & set(drawn[1])


def test_functions_that_select_tokens_refuse_temperatures(
    engine: InferenceEngine, tiny_tokenizer: TokenizerWrapper
) -> None:
    with pytest.raises(InvalidOptionError, match="temperature") as raised:
        engine.generate(
            "hello", response_format=COLD, sampler=lambda logprobs: mx.argmax(logprobs, axis=-1)
        )
    assert raised.value.option == "sampler"
    with pytest.raises(InvalidOptionError, match="temperature"):
        generate_step([1], babbling_model(tiny_tokenizer), tokenizer=tiny_tokenizer, machine=COLD)


def test_parts_with_other_parameters_draw_independent_numbers() -> None:
    parts = {"text": PartOptions(temperature=0.9), "reasoning": PartOptions()}
    options = GenerationOptions(temperature=1.0, seed=3, parts=parts)
    of_sequence = SequenceSamplers(options)
    places: list[Any] = [
        SimpleNamespace(part_name=part, temperature=None)
        for part in ("structured", "text", "reasoning")
    ]
    samplers = [of_sequence.sampler(place) for place in places]
    assert samplers[0] is samplers[2]
    uniform = mx.zeros(1000)
    tokens = [[sampler(uniform, []).item() for _ in range(8)] for sampler in samplers[:2]]
    assert not set(tokens[0]) & set(tokens[1])
    # Without parts that differ, the seed gives the tokens of a plain sampler.
    plain = make_sampler(GenerationOptions(temperature=1.0, seed=3).sampling())
    assert [plain(uniform, []).item() for _ in range(8)] == tokens[0]
