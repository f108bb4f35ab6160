"""Drafts of several requests in one batch, and the caches that they leave behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from adversarial_drafters import ALWAYS, KINDS, Replay, drafter_of, drafters
from cached_models import random_llama
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import Comparison, babbling_model, complete_masks, outcome

from proxy_engine import CacheOptions, GenerationResult, InferenceEngine, RawPrompt
from proxy_engine.generation import Batch, next_mask
from proxy_engine.requests import continuous_batch
from state_machines import RegexStateMachine

FORMATS: list[Any] = [
    None,
    RegexStateMachine("(ab|a|b|:){1,12}x?|12{1,9}"),
    {"type": "array", "items": {"enum": ["red", "ab", 12]}, "minItems": 2, "maxItems": 5},
    {"type": "object", "properties": {"ab": {"type": "string"}}, "required": ["ab"]},
]


def arguments(number: int) -> dict[str, Any]:
    """A format, sampler, seed and limits that depend on ``number``."""
    return {
        "response_format": FORMATS[number % 4],
        "temperature": 0.0 if number % 3 == 0 else 1.0,
        "seed": number,
        "max_tokens": 20 + number % 7,
        "min_tokens": number % 4,
        "fast_forward": number % 5 > 0,
    }


def padded(engine_of: Callable[[], InferenceEngine]) -> InferenceEngine:
    """Return an engine whose rows take different numbers of tokens, as on a GPU."""
    with patch.object(continuous_batch, "Batch", partial(Batch, pads=True)):
        return engine_of()


@pytest.fixture(scope="module", params=[False, True], ids=["", "padded"])
def engine(
    request: pytest.FixtureRequest, tiny_tokenizer: TokenizerWrapper
) -> Iterator[InferenceEngine]:
    def made() -> InferenceEngine:
        return InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer, batch_size=3)

    with complete_masks(), padded(made) if request.param else made() as engine:
        yield engine


class Hooked(Replay):
    """Calls a function at one of its proposals.

    Args:
        inner: Makes the proposals.
        call: The number of the proposal.
        hook: Called before that proposal.
    """

    name = "hooked"

    def __init__(self, inner: Replay, call: int, hook: Callable[[], object]) -> None:
        super().__init__([])
        self._inner, self._left, self._hook = inner, call, hook
        self.update = inner.update  # type: ignore[method-assign]
        self.expects_draft = inner.expects_draft  # type: ignore[method-assign]

    def propose(self, tokens: Sequence[int], matcher: Any, at_most: int) -> Sequence[int]:
        """Return the inner drafter's proposal."""
        self._left -= 1
        if self._left == 0:
            self._hook()
        return self._inner.propose(tokens, matcher, at_most)


class Requests:
    """Requests with prompts of different lengths, and their answers without drafts."""

    def __init__(self, engine: InferenceEngine, numbers: Sequence[int]) -> None:
        self._engine = engine
        self._numbers = numbers
        self.plain = [
            engine.generate(self._prompt(number), **arguments(number), speculation="off")
            for number in numbers
        ]

    def _prompt(self, number: int) -> str:
        return f"prompt {'x' * (7 * number % 50)} {number}"

    def run(
        self, kinds: Sequence[str], cancelled: dict[int, int] | None = None
    ) -> list[GenerationResult[Any]]:
        """Run all requests at once.

        Args:
            kinds: The drafter of each request.
            cancelled: Requests that are cancelled, by their place, each while a draft is made, and
                the number of that draft.
        """
        begun: list[Any] = []
        made: list[Replay] = []
        vocabulary = self._engine.vocabulary
        special = [*vocabulary.end_token_ids, *vocabulary.special_tokens.values()]
        prompts = [
            list(self._engine._core.prepare(self._prompt(n), None, {}).prompt_ids)
            for n in self._numbers
        ]

        def make(prompt_ids: Sequence[int]) -> list[Replay]:
            place = prompts.index(list(prompt_ids))
            texts = [[*prompt_ids, *self.plain[place].token_ids]]
            own = drafter_of(
                kinds[place], texts, seed=place, vocabulary=vocabulary.size, special=special
            )
            made.append(own)
            if place in (cancelled or {}):
                return [Hooked(own, cancelled[place], lambda: begun[place].cancelled.set())]
            return [own]

        queued = threading.Event()
        self._engine._core.worker.submit(lambda: queued.wait(20))
        with drafters(make):
            for number in self._numbers:
                options = {**arguments(number), "speculation": ALWAYS}
                answer = options.pop("response_format")
                begun.append(self._engine._begin(self._prompt(number), answer, options))
            queued.set()
            results = [one.result(60) for one in begun]
        assert [problem for drafter in made for problem in drafter.problems] == []
        return results


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=7, unique=True),
    st.lists(st.sampled_from(KINDS), min_size=7, max_size=7),
)
@settings(max_examples=7)
def test_rows_with_different_drafters_do_not_change_each_other(
    engine: InferenceEngine, numbers: list[int], kinds: list[str]
) -> None:
    requests = Requests(engine, numbers)
    for result, plain in zip(requests.run(kinds), requests.plain, strict=True):
        assert outcome(result) == outcome(plain)


@given(
    st.lists(st.integers(0, 60), min_size=3, max_size=6, unique=True),
    st.lists(st.sampled_from(("right", "mistaken", "ending")), min_size=6, max_size=6),
    st.dictionaries(st.integers(0, 5), st.integers(1, 4), min_size=1, max_size=3),
)
@settings(max_examples=6)
def test_cancelled_requests_with_drafts_do_not_change_others(
    engine: InferenceEngine, numbers: list[int], kinds: list[str], cancelled: dict[int, int]
) -> None:
    requests = Requests(engine, numbers)
    results = requests.run(kinds, cancelled)
    for place, (result, plain) in enumerate(zip(results, requests.plain, strict=True)):
        if result.finish_reason == "cancelled":
            assert place in cancelled
            assert result.token_ids == plain.token_ids[: len(result.token_ids)]
        else:
            assert outcome(result) == outcome(plain)


def test_rows_of_a_padded_batch_share_the_passes_of_their_drafts(
    tiny_tokenizer: TokenizerWrapper,
) -> None:
    def made() -> InferenceEngine:
        return InferenceEngine(babbling_model(tiny_tokenizer), tiny_tokenizer, batch_size=3)

    with padded(made) as engine:
        requests = Requests(engine, [0, 12, 24])
        results = requests.run(["right", "wrong", "mistaken"])
    for result, plain in zip(results, requests.plain, strict=True):
        assert outcome(result) == outcome(plain)
        assert result.usage.drafted_tokens > 0
    right, wrong, mistaken = (result.usage for result in results)
    assert right.forward_passes <= right.completion_tokens / 3
    assert right.forward_passes <= mistaken.forward_passes < wrong.forward_passes


CACHES: dict[str, CacheOptions] = {
    "plain": CacheOptions(),
    "quantized": CacheOptions(kv_bits=8, kv_group_size=32, quantized_kv_start=0),
    "rotating": CacheOptions(max_kv_size=24),
}


@pytest.mark.parametrize("kind", ["right", "mistaken", "wrong"])
@pytest.mark.parametrize("cache", CACHES)
def test_prompt_cache_after_drafts_holds_the_tokens_of_the_answer(
    tiny_tokenizer: TokenizerWrapper, cache: str, kind: str
) -> None:
    """A second request continues the first one's cache."""
    model = random_llama(320)
    with InferenceEngine(model, tiny_tokenizer, cache=CACHES[cache]) as drafting:
        first = Comparison(drafting, RawPrompt("hello"), max_tokens=12)
        first.run(kind)
        text = first.plain.text[:9]
        longer = drafting.generate(RawPrompt(f"hello{text}! "), max_tokens=12)
    with InferenceEngine(model, tiny_tokenizer, cache=CACHES[cache]) as plain:
        plain.generate(RawPrompt("hello"), max_tokens=12, speculation="off")
        expected = plain.generate(RawPrompt(f"hello{text}! "), max_tokens=12, speculation="off")
    assert longer.token_ids == expected.token_ids
    assert longer.usage.cached_tokens == expected.usage.cached_tokens


@pytest.mark.parametrize("kind", ["right", "mistaken", "wrong"])
def test_slow_masks_do_not_change_answers_with_drafts(
    engine: InferenceEngine, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests(engine, [2, 3, 6, 7])
    monkeypatch.setattr(next_mask, "MASK_STEPS", 0)
    monkeypatch.setattr(next_mask, "SLOW_MASK_STEPS", 0)
    for result, plain in zip(requests.run([kind] * 4), requests.plain, strict=True):
        assert outcome(result) == outcome(plain)
