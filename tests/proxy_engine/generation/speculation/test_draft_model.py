"""Drafts of a draft model change the number of passes, not the answers."""

from __future__ import annotations

import logging
import random
import secrets
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import jsonschema
import mlx.core as mx
import numpy as np
import pytest
from architectures import small_model
from cached_models import cold
from distributions import chi_square_p_value
from engine_parts import core_of, on_model_thread
from exact_conditional import Enumeration
from mlx.nn.layers.base import Module
from mlx_lm.tokenizer_utils import TokenizerWrapper
from prefix_model import PrefixModel, ids_of, words_model
from speculation_checks import PERSON, TOOL, living_texts
from tiny_models import make_tiny_model

from proxy_engine import (
    CacheOptions,
    GenerationResult,
    InferenceEngine,
    SpeculationOptions,
    TokenGenerated,
)
from proxy_engine.generation.speculation import draft_model as draft_model_module
from proxy_engine.generation.speculation.draft_model import DraftModel
from state_machines import RegexStateMachine

ALWAYS = SpeculationOptions(prompt_lookup=False, is_adaptive=False, num_draft_tokens=4)

SEEDED: dict[str, Any] = {"temperature": 1.0, "seed": 5}

REQUESTS: dict[str, dict[str, Any]] = {
    "schema": {"response_format": PERSON, "max_tokens": 60},
    "text": {"max_tokens": 30},
    "tools": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 60},
}


def tokens_of(results: list[GenerationResult[Any]]) -> list[tuple[int, ...]]:
    return [result.token_ids for result in results]


def draft_model_of(engine: InferenceEngine) -> DraftModel:
    found = core_of(engine).drafter
    assert isinstance(found, DraftModel)
    return found


@pytest.fixture(scope="module")
def plain_engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    options = CacheOptions(max_bytes=0)
    with InferenceEngine(make_tiny_model(context=2048), tiny_tokenizer, cache=options) as engine:
        yield engine


@pytest.fixture(scope="module")
def own_engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    """The draft model is the model itself."""
    model = make_tiny_model(context=2048)
    with InferenceEngine(model, tiny_tokenizer, draft_model=model) as engine:
        draft_model_of(engine).step_size = 512
        yield engine


@pytest.mark.parametrize(
    ("name", "given"),
    [("schema", {"temperature": 1.0}), ("schema", {}), ("text", SEEDED), ("tools", SEEDED)],
)
def test_model_that_drafts_for_itself_is_always_accepted(
    own_engine: InferenceEngine, name: str, given: dict[str, Any]
) -> None:
    usage = own_engine.generate("hello", speculation=ALWAYS, **REQUESTS[name], **given).usage
    assert usage.accepted_tokens == usage.drafted_tokens
    sampled = usage.completion_tokens - usage.forced_tokens
    # Each pass verifies four tokens and samples a fifth one. The prompt yields the first token.
    assert sampled / 5 - 1 <= usage.forward_passes <= sampled / 5 + 3


def test_limit_on_grammar_work_ends_drafts(
    plain_engine: InferenceEngine,
    tiny_tokenizer: TokenizerWrapper,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(draft_model_module, "ADVANCE_STEPS", 500)
    schema = {**PERSON, "properties": {**PERSON["properties"], "name": {"pattern": "^[a-c]{4,9}$"}}}
    prompts = ["a", "hello you", "12"]
    arguments = {"response_format": schema, "max_tokens": 60}
    expected = [plain_engine.generate(p, speculation="off", **arguments) for p in prompts]
    model = make_tiny_model()
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=model) as engine:
        found = engine.generate_batch(prompts, speculation=ALWAYS, **arguments)
    assert "drafts no more" not in caplog.text
    assert tokens_of(list(found)) == tokens_of(expected)


def test_batch_of_a_model_that_drafts_for_itself_is_accepted(own_engine: InferenceEngine) -> None:
    prompts = ["a", "hello you", "x" * 30, "12", "cab", "abc"]
    found = own_engine.generate_batch(
        prompts, response_format=PERSON, max_tokens=80, temperature=1.0, speculation=ALWAYS
    )
    for one in found:
        jsonschema.validate(one.parsed, PERSON)
        assert one.usage.accepted_tokens == one.usage.drafted_tokens


@pytest.mark.parametrize("architecture", ["kimi_k3", "gpt_bigcode"])
def test_draft_models_with_other_caches(
    plain_engine: InferenceEngine, tiny_tokenizer: TokenizerWrapper, architecture: str
) -> None:
    """Sliding windows and recurrent states cannot be trimmed, or not be batched."""
    arguments = {"response_format": PERSON, "max_tokens": 30}
    prompts = ["a", "hello you"]
    expected = [plain_engine.generate(p, speculation="off", **arguments) for p in prompts]
    draft_model = small_model(architecture)
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=draft_model) as engine:
        single = [engine.generate(p, speculation=ALWAYS, **arguments) for p in prompts]
        batched = engine.generate_batch(prompts, speculation=ALWAYS, **arguments)
        assert tokens_of(single) == tokens_of(list(batched)) == tokens_of(expected)
        assert all(one.usage.drafted_tokens for one in [*single, *batched])


@pytest.mark.parametrize("architecture", ["llama", "gemma3n", "kimi_k3"])
def test_draft_model_gives_the_logits_of_the_text_alone(
    tiny_tokenizer: TokenizerWrapper, architecture: str
) -> None:
    """Its caches hold no refused tokens, whether they can be trimmed and batched or not."""
    model = small_model(architecture)
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=model) as engine:
        draft_model = draft_model_of(engine)
        found: list[tuple[list[int], mx.array]] = []
        forward = draft_model._forward

        def recorded(rows: Any, fed: Any) -> Any:
            texts = [[*one.tokens[: one.processed], *one.tail, *fed[one]] for one in fed]
            logits = forward(rows, fed)
            found.extend(zip(texts, logits, strict=True))
            return logits

        draft_model._forward = recorded  # type: ignore[method-assign]
        arguments: dict[str, Any] = {"response_format": PERSON, "speculation": ALWAYS}
        engine.generate("hello", max_tokens=40, **arguments)
        engine.generate_batch(["a", "hello you", "x" * 30], max_tokens=50, **arguments)
        assert len(found) > 50
        for tokens, logits in found[1::17]:
            alone = on_model_thread(engine, lambda tokens=tokens: cold(model, tokens))
            given = on_model_thread(engine, lambda row=logits: np.array(row[0]))
            given = given[: len(alone)]
            assert np.abs(given - alone).max() < 1e-3 * np.abs(alone).max()


# The exact distribution.

WORDS = RegexStateMachine("[ab]{6}c?")


@pytest.fixture(scope="module")
def words_engine(tiny_tokenizer: TokenizerWrapper) -> Iterator[InferenceEngine]:
    model = words_model(tiny_tokenizer, 7, 2.0)
    draft_model = words_model(tiny_tokenizer, 8, 2.0)
    with InferenceEngine(model, tiny_tokenizer, batch_size=16, draft_model=draft_model) as engine:
        yield engine


WORD_REQUESTS: dict[str, dict[str, Any]] = {
    "grammar": {},
    # The guard refuses drafted tokens.
    "tight limit": {"max_tokens": 5},
    "sampling options": {
        "temperature": 0.7,
        "top_p": 0.9,
        "presence_penalty": 0.5,
        "fast_forward": False,
        "min_tokens": 2,
    },
}


@pytest.mark.parametrize(
    ("name", "batch"), [("grammar", 4), ("tight limit", 1), ("sampling options", 1)]
)
def test_sampling_without_a_seed_has_the_exact_distribution(
    words_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch, name: str, batch: int
) -> None:
    monkeypatch.setattr(secrets, "randbits", random.Random(4).getrandbits)
    arguments = {"response_format": WORDS, "temperature": 1.0, "max_tokens": 12}
    arguments |= WORD_REQUESTS[name]
    exact = Enumeration.of(words_engine, "hello", **arguments).run()
    # The first tokens are seldom drafted.
    expected: defaultdict[str, float] = defaultdict(float)
    for text, probability in exact.masked_by_text.items():
        expected[text[3:]] += probability

    def drawn_p_value() -> float:
        results: list[GenerationResult[Any]] = []
        for _ in range(160 // batch):
            # Drafts in flight are withdrawn when another request joins.
            results += words_engine.generate_batch(
                ["hello"] * batch, speculation=ALWAYS, **arguments
            )
        drafted = sum(one.usage.drafted_tokens for one in results)
        accepted = sum(one.usage.accepted_tokens for one in results)
        assert 0 < accepted < drafted
        return chi_square_p_value([exact.text(one.token_ids)[3:] for one in results], expected)

    # The draws of a batch depend on when requests join, so a true hypothesis must seldom be
    # rejected: a small p-value has to come twice.
    assert drawn_p_value() > 0.01 or drawn_p_value() > 0.001


def test_drawn_tokens_that_are_not_drafted_are_verified(
    tiny_tokenizer: TokenizerWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise half as many answers as expected would end with such a token."""
    monkeypatch.setattr(secrets, "randbits", random.Random(4).getrandbits)
    a, b, c = ids_of(tiny_tokenizer, "a", "b", "c")

    def probabilities(text: tuple[int, ...]) -> dict[int, float]:
        return {a: 1.0} if not text else {b: 0.5, c: 0.5}

    model = PrefixModel(320, (a, b, c), 3, probabilities)
    grammar = RegexStateMachine("[ax](c|b[bc]{3})")
    with InferenceEngine(model, tiny_tokenizer, draft_model=model) as engine:
        results = [
            engine.generate("x", response_format=grammar, temperature=1.0, speculation=ALWAYS)
            for _ in range(200)
        ]
    ends = sum(len(one.text) == 2 for one in results)
    assert abs(ends - 100) < 25
    assert sum(one.usage.drafted_tokens for one in results) > 100


# Caches.


def test_finished_and_cancelled_requests_free_their_caches(
    own_engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = living_texts(monkeypatch)
    own_engine.generate("hello", response_format=PERSON, max_tokens=80, speculation=ALWAYS)
    assert not texts
    stream = own_engine.stream("hello you", max_tokens=300, min_tokens=300, speculation=ALWAYS)
    for number, _ in enumerate(event for event in stream if isinstance(event, TokenGenerated)):
        if number == 20:
            assert len(texts) == 1
            break
    stream.close()
    own_engine.generate("hello", max_tokens=2)
    assert not texts


def test_prompts_are_cached_for_the_draft_model(tiny_tokenizer: TokenizerWrapper) -> None:
    draft_model = Limited(10**6)
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=draft_model) as engine:
        prompt = "hello you " * 12
        first = engine.generate(prompt, max_tokens=40, speculation=ALWAYS)
        read, draft_model.tokens = draft_model.tokens, 0
        second = engine.generate(prompt, max_tokens=40, speculation=ALWAYS)
        assert first.token_ids == second.token_ids
        assert draft_model.tokens < read - 100


def test_prompt_is_read_in_bounded_steps(tiny_tokenizer: TokenizerWrapper) -> None:
    model = make_tiny_model()
    with InferenceEngine(model, tiny_tokenizer, draft_model=model) as engine:
        draft_model_of(engine).step_size = 24
        result = engine.generate("hello you " * 12, max_tokens=60, speculation=ALWAYS)
        usage = result.usage
        # About 140 tokens in six passes, then four drafted tokens a pass.
        assert usage.accepted_tokens == usage.drafted_tokens
        assert 12 <= usage.forward_passes <= 24


def test_texts_beyond_the_context_of_the_draft_model_are_not_drafted(
    plain_engine: InferenceEngine, tiny_tokenizer: TokenizerWrapper
) -> None:
    draft_model = make_tiny_model(context=64)
    expected = plain_engine.generate("hello", max_tokens=90, min_tokens=90, speculation="off")
    with InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=draft_model) as engine:
        found = engine.generate("hello", max_tokens=90, min_tokens=90, speculation=ALWAYS)
    assert found.token_ids == expected.token_ids
    assert 0 < found.usage.drafted_tokens < 64


class Limited(Module):
    """A draft model that fails after some passes, and counts its tokens."""

    def __init__(self, passes: int) -> None:
        super().__init__()
        self.inner = make_tiny_model(1)
        self.passes = passes
        self.tokens = 0

    @property
    def layers(self) -> Any:
        return self.inner.layers

    def __call__(self, inputs: mx.array, cache: Any = None) -> mx.array:
        self.passes -= 1
        self.tokens += inputs.size
        if self.passes < 0:
            raise RuntimeError("out of memory")
        result: mx.array = self.inner(inputs, cache=cache)
        return result


@pytest.mark.parametrize("passes", [2, 7])
def test_failing_draft_model_drafts_no_more_for_its_requests_only(
    plain_engine: InferenceEngine,
    tiny_tokenizer: TokenizerWrapper,
    caplog: pytest.LogCaptureFixture,
    passes: int,
) -> None:
    arguments = {"response_format": PERSON, "max_tokens": 60, "temperature": 1.0, "seed": 1}
    expected = plain_engine.generate("hello", speculation="off", **arguments)
    failing = Limited(10**6)
    with (
        caplog.at_level(logging.WARNING),
        InferenceEngine(make_tiny_model(), tiny_tokenizer, draft_model=failing) as engine,
    ):
        for left in (passes, 10**6):
            failing.passes = left
            found = engine.generate("hello", speculation=ALWAYS, **arguments)
            assert found.token_ids == expected.token_ids
    assert found.usage.drafted_tokens > 0
    assert sum("drafts no more for 1 requests" in record.message for record in caplog.records) == 1


def test_options_of_the_request_choose_the_drafter(own_engine: InferenceEngine) -> None:
    arguments: dict[str, Any] = {"response_format": PERSON, "max_tokens": 60}
    neither = SpeculationOptions(prompt_lookup=False, draft_model=False)
    assert own_engine.generate("x", speculation=neither, **arguments).usage.drafted_tokens == 0
    one = SpeculationOptions(prompt_lookup=False, num_draft_tokens=1)
    usage = own_engine.generate("x", speculation=one, **arguments).usage
    assert 0 < usage.drafted_tokens <= usage.forward_passes
