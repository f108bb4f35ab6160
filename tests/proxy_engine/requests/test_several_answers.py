"""Requests with several answers (``n``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest
from cached_models import random_llama
from engine_parts import core_of
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from object_schemas import closed_object

from proxy_engine import (
    CacheOptions,
    Finished,
    GenerationOptions,
    InferenceEngine,
    InvalidOptionError,
    TextDelta,
)

PERSON = closed_object(name={"enum": ["ab", "abc", "x"]}, ok={"type": "boolean"})
TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 2}
FORMATS = {"text": None, "person": PERSON, "texts": TEXTS}


@pytest.fixture(scope="module")
def engine(tiny_model: Any, tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    options = GenerationOptions(temperature=1.0, max_tokens=60)
    with InferenceEngine(tiny_model, tiny_tokenizer, options=options, batch_size=4) as engine:
        yield engine


@settings(max_examples=12)
@given(
    n=st.integers(2, 7),
    seed=st.sampled_from([0, 5, 2**64 - 2]),
    kind=st.sampled_from(list(FORMATS)),
    exact_choices=st.booleans(),
)
def test_answers_are_those_of_requests_with_the_following_seeds(
    engine: InferenceEngine, n: int, seed: int, kind: str, exact_choices: bool
) -> None:
    options: Any = {"response_format": FORMATS[kind], "exact_choices": exact_choices}
    result = engine.generate("x", n=n, seed=seed, **options)
    alone = [engine.generate("x", seed=(seed + i) % 2**64, **options) for i in range(n)]
    assert [choice.token_ids for choice in result.choices] == [one.token_ids for one in alone]
    assert result.token_ids == result.choices[0].token_ids
    assert result.parsed == alone[0].parsed
    assert all(choice.choices == () for choice in result.choices)


def test_answers_without_a_seed_differ(engine: InferenceEngine) -> None:
    result = engine.generate("x", n=6, response_format=TEXTS)
    assert len({choice.text for choice in result.choices}) > 1


def test_events_are_those_of_the_first_answer(engine: InferenceEngine) -> None:
    events = list(engine.stream("x", n=3, seed=4))
    assert isinstance(events[-1], Finished)
    result = events[-1].result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == result.text
    assert len(result.choices) == 3


@pytest.mark.parametrize("n", [0, -1, True, 2.0])
def test_invalid_counts_are_refused(engine: InferenceEngine, n: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        engine.generate("x", n=n)
    assert caught.value.option == "n"


@pytest.mark.parametrize(
    "cache", [CacheOptions(kv_bits=8, kv_group_size=32), CacheOptions(max_kv_size=64)], ids=str
)
def test_answers_of_caches_that_cannot_be_batched(
    tiny_tokenizer: TokenizerWrapper, cache: CacheOptions
) -> None:
    options = GenerationOptions(temperature=1.0, max_tokens=40)
    with InferenceEngine(random_llama(320), tiny_tokenizer, cache=cache, options=options) as engine:
        result = engine.generate("x", PERSON, n=3, seed=1)
        alone = [engine.generate("x", PERSON, seed=seed).parsed for seed in (1, 2, 3)]
        assert [choice.parsed for choice in result.choices] == alone


def test_prompt_is_processed_once(tiny_model: Any, tiny_tokenizer: TokenizerWrapper) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        result = engine.generate("a long prompt " * 6, n=3, temperature=1.0, seed=1, max_tokens=20)
    usages = [choice.usage for choice in result.choices]
    assert usages[0].cached_tokens == 0
    assert all(usage.cached_tokens == usage.prompt_tokens - 1 for usage in usages[1:])


def test_failed_forward_pass_fails_the_request_and_not_the_engine(
    tiny_model: Any, tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    original = type(tiny_model).__call__

    def failing(self: Any, inputs: mx.array, *arguments: Any, **more: Any) -> Any:
        calls.append(inputs.shape)
        if len(calls) == 6:
            raise RuntimeError("no memory")
        return original(self, inputs, *arguments, **more)

    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        engine.warm_up()
        monkeypatch.setattr(type(tiny_model), "__call__", failing)
        with pytest.raises(RuntimeError, match="no memory"):
            engine.generate("x", n=4, temperature=1.0, min_tokens=20)
        assert engine.running_requests == 0
        assert len(engine.generate("x", n=4, temperature=1.0, max_tokens=5).choices) == 4


def test_request_can_be_cancelled_before_its_prompt_is_processed(engine: InferenceEngine) -> None:
    core = core_of(engine)
    request = core.preparation.request("x", response_format=TEXTS, arguments={"n": 2})
    request.cancelled.set()
    result = core.scheduler.submit(request, lambda _: None).result(10)()
    assert result.finish_reason == "cancelled"
    assert [choice.parsed for choice in result.choices] == [None, None]
