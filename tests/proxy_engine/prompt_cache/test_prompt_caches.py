"""Prompt caching does not change the answers, for every kind of cache."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from cached_models import (
    KINDS,
    VOCABULARY,
    WINDOW,
    ask,
    cold,
    is_close,
    model_of,
    read,
)
from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.models.cache import ConcatenateKVCache, QuantizedKVCache, RotatingKVCache
from schema_strategies import examples

from proxy_engine import InvalidOptionError
from proxy_engine.prompt_cache import CacheOptions
from proxy_engine.prompt_cache.layers import trim_to
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

ALWAYS_TRIMMABLE = {"plain", "default"}
NEVER_TRIMMABLE = {"recurrent", "mixed", "listed", "gated", "hybrid"}
LONG = 3 * WINDOW


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCABULARY, length)]


@pytest.mark.parametrize("length", [5, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_shared_prefix_of_any_length_is_provided(kind: str, length: int) -> None:
    model = model_of(kind)
    around = (0, 4, WINDOW - 1, WINDOW, LONG - 2, LONG - 1)
    for shared in (0, 1, 4) if length == 5 else around:
        caches = PromptCaches(model)
        ask(caches, model, text(0, length))
        other = [*text(0, shared), (text(0, length)[shared] + 1) % VOCABULARY, *text(1, 6)]
        cached, logits, _ = ask(caches, model, other)
        assert is_close(logits, cold(model, other))
        is_trimmable = kind in ALWAYS_TRIMMABLE or (kind not in NEVER_TRIMMABLE and length < WINDOW)
        # Without boundaries, the checkpoint is before the last token of the prompt.
        expected = shared if is_trimmable or shared == LONG - 1 else 0
        # Chunked layers drop tokens one pass later.
        assert cached == expected or (kind == "chunked" and cached == shared)


@pytest.mark.parametrize("kind", KINDS)
def test_alternating_conversations_keep_their_caches(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    start = text(9, 20)
    talks = [[*start, *text(talk, 3)] for talk in range(2)]
    for turn in range(3):
        for talk in talks:
            cached, logits, answer = ask(caches, model, talk, count=5, boundaries=[20])
            assert cached >= (20 if turn or talk is not talks[0] else 0)
            assert is_close(logits, cold(model, talk))
            assert answer == ask(PromptCaches(model), model, talk, count=5)[2]
            if turn:
                # The whole previous turn but its last token, which was never processed.
                assert cached == len(talk) - 4
            talk += [*answer, *text(turn, 3)]


@examples(8)
@given(
    st.sampled_from(KINDS),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=30),
            st.integers(0, 6),
            st.lists(st.integers(0, 30), max_size=3),
        ),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from([0, 20_000, 1 << 30]),
    st.sampled_from([1, 2, 7, 1000]),
)
def test_answers_do_not_depend_on_cached_requests(
    kind: str, requests: list[tuple[list[int], int, list[int]]], max_bytes: int, step: int
) -> None:
    model = model_of(kind)
    caches = PromptCaches(model, CacheOptions(max_bytes=max_bytes))
    for prompt, count, boundaries in requests:
        cached, logits, answer = ask(
            caches, model, prompt, count=count, boundaries=boundaries, step=step
        )
        assert cached < len(prompt)
        assert is_close(logits, cold(model, prompt))
        assert answer == ask(PromptCaches(model), model, prompt, count=count)[2]
        assert caches.nbytes <= max_bytes


def test_trimmed_copy_does_not_retain_the_memory_of_the_longer_text() -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, text(0, 2000))
    started = caches.fetch([*text(0, 10), *text(1, 5)])
    assert started.cached_tokens == 10
    read(model, text(1, 5), started.cache)
    assert sum(layer.nbytes for layer in started.cache) * 4 < caches.nbytes


@pytest.mark.parametrize("kind", ["plain", "sliding"])
def test_only_processed_tokens_are_inserted(kind: str) -> None:
    model = model_of(kind)
    # More tokens are given than were processed: a request that was cancelled in its prefill.
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 10))
    read(model, text(0, 6), started.cache)
    assert caches.insert(text(0, 10), started.cache) == 6
    assert caches.fetch(text(0, 10)).cached_tokens == 6
    # Fewer are given: the last one was processed, but never read.
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 10))
    read(model, text(0, 10), started.cache)
    assert caches.insert(text(0, 8), started.cache) == 8
    cached, logits, _ = ask(caches, model, [*text(0, 8), *text(1, 3)])
    assert cached == 8
    assert is_close(logits, cold(model, [*text(0, 8), *text(1, 3)]))


@pytest.mark.parametrize("kind", sorted(NEVER_TRIMMABLE))
def test_recurrent_cache_is_inserted_only_at_its_exact_length(kind: str) -> None:
    model = model_of(kind)
    for known, run, kept in ((10, 6, 6), (6, 6, 6), (5, 6, 0), (10, 0, 0)):
        caches = PromptCaches(model)
        started = caches.fetch(text(0, 10))
        if run:
            read(model, text(0, run), started.cache)
        assert caches.insert(text(0, known), started.cache, processed=run) == kept
        assert len(caches) == (kept > 0)
        cached, logits, _ = ask(caches, model, text(0, 10))
        assert cached == kept
        assert is_close(logits, cold(model, text(0, 10)))


def test_cache_that_cannot_be_trimmed_back_is_dropped() -> None:
    model = model_of("sliding")
    caches = PromptCaches(model)
    started = caches.fetch(text(0, LONG))
    read(model, text(0, LONG), started.cache)
    assert caches.insert(text(0, LONG - 1), started.cache) == 0
    assert len(caches) == 0


def test_failed_pass_leaves_the_tokens_that_all_layers_hold() -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 12))
    read(model, text(0, 9), started.cache)
    first = started.cache[0]
    first.update_and_fetch(first.keys[..., :2, :], first.values[..., :2, :])
    assert caches.insert(text(0, 12), started.cache) == 9
    cached, logits, _ = ask(caches, model, text(0, 12))
    assert cached == 9
    assert is_close(logits, cold(model, text(0, 12)))


def test_arrays_that_fail_to_evaluate_are_dropped() -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 12))
    read(model, text(0, 9), started.cache)

    class Broken(type(started.cache[0])):  # type: ignore[misc]
        @property
        def state(self) -> mx.array:
            raise RuntimeError("no memory")

    started.cache[0].__class__ = Broken
    assert caches.insert(text(0, 9), started.cache) == 0
    assert len(caches) == 0


def test_empty_text_is_not_inserted() -> None:
    model = model_of("recurrent")
    caches = PromptCaches(model)
    assert caches.fetch([]).cached_tokens == caches.fetch([1]).cached_tokens == 0
    assert caches.insert([], caches.fetch([]).cache) == 0
    caches = PromptCaches(model, CacheOptions(max_bytes=0))
    ask(caches, model, text(0, LONG), boundaries=[20])
    assert len(caches) == 0
    assert caches.checkpoint_lengths(text(0, LONG), [20]) == ()


def test_checkpoints_are_needed_for_caches_that_cannot_be_trimmed() -> None:
    prompt = text(0, 100)
    plain, sliding, recurrent = (
        PromptCaches(model_of(kind)) for kind in ("plain", "sliding", "recurrent")
    )
    assert plain.checkpoint_lengths(prompt, [20, 50], max_tokens=1000) == ()
    assert sliding.checkpoint_lengths(prompt, [20, 50]) == (20, 50)
    assert recurrent.checkpoint_lengths(prompt, [50, 20, 50, 3, 0, 100, 500]) == (20, 50)
    assert recurrent.checkpoint_lengths(prompt, []) == (99,)
    assert recurrent.checkpoint_lengths(prompt[:10], []) == ()
    assert recurrent.checkpoint_lengths(prompt, [20, 30, 40, 50, 60]) == (20, 40, 50, 60)
    # The cache may not be trimmable to the prompt after the longest answer.
    assert sliding.checkpoint_lengths(prompt[:4], [2], max_tokens=2) == ()
    assert not sliding.needs_checkpoints(WINDOW - 1)
    assert sliding.needs_checkpoints(WINDOW)
    for most, expected in ((0, ()), (1, (40,)), (2, (20, 40)), (3, (20, 30, 40))):
        some = PromptCaches(model_of("recurrent"), CacheOptions(max_checkpoints=most))
        assert some.checkpoint_lengths(prompt, [20, 30, 40]) == expected


@pytest.mark.parametrize("kind", ["sliding", *sorted(NEVER_TRIMMABLE)])
def test_conversation_that_diverges_at_a_boundary_starts_from_its_checkpoint(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    ask(caches, model, text(0, 60), count=5, boundaries=[20, 50])
    for shared, cached in ((19, 0), (20, 20), (49, 20), (55, 50)):
        # ``shared`` tokens in common, then those of another conversation.
        other = [*text(0, shared), (text(0, 60)[shared] + 1) % VOCABULARY, *text(shared, 9)]
        found, logits, _ = ask(PromptCachesView(caches), model, other)
        assert found == cached
        assert is_close(logits, cold(model, other))


class PromptCachesView(PromptCaches):
    """The same caches, without insertions."""

    def __init__(self, caches: PromptCaches) -> None:
        vars(self).update(vars(caches))

    def insert(self, token_ids: object, cache: object, *, processed: object = None) -> int:
        return 0

    def insert_copy(self, token_ids: object, cache: object) -> None:
        return None


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_quantized_cache_is_reused(bits: int) -> None:
    model = model_of("plain")
    options = CacheOptions(kv_bits=bits, kv_group_size=32, quantized_kv_start=8)
    caches = PromptCaches(model, options)
    prompt = text(0, 30)
    started = caches.fetch(prompt)
    read(model, prompt[:7], started.cache)
    caches.quantize(started.cache)
    assert not isinstance(started.cache[0], QuantizedKVCache)
    read(model, prompt[7:20], started.cache)
    caches.quantize(started.cache)
    assert all(isinstance(layer, QuantizedKVCache) for layer in started.cache)
    assert all(layer.bits == bits for layer in started.cache)
    expected = read(model, prompt[20:], started.cache)
    assert caches.insert(prompt, started.cache) == 30
    # From every quantized length the logits are the same.
    for shared in (20, 25, 29):
        again = caches.fetch(prompt[: shared + 1])
        assert again.cached_tokens == shared
        assert np.abs(read(model, prompt[shared:], again.cache) - expected).max() < 1e-3


@pytest.mark.parametrize("kind", ["plain", "default"])
def test_cache_of_bounded_size_is_reused(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model, CacheOptions(max_kv_size=WINDOW))
    assert all(isinstance(layer, RotatingKVCache) for layer in caches.fetch([1]).cache)
    prompt = text(0, 40)
    _, expected, _ = ask(caches, model, prompt, boundaries=[20])
    cached, logits, _ = ask(caches, model, prompt)
    # Which tokens a rotating cache holds depends on the passes; here they are the same.
    assert cached == 20
    assert is_close(logits, expected)
    # Short texts can be trimmed.
    ask(caches, model, text(1, WINDOW - 2))
    assert caches.fetch(text(1, WINDOW - 4)).cached_tokens == WINDOW - 5
    assert max(layer.size() for layer in caches.fetch(prompt).cache) <= WINDOW


@pytest.mark.parametrize("kind", ["sliding", "recurrent", "listed", "chunked"])
def test_max_kv_size_is_rejected_for_models_with_their_own_caches(kind: str) -> None:
    with pytest.raises(InvalidOptionError, match="determines the size") as caught:
        PromptCaches(model_of(kind), CacheOptions(max_kv_size=100))
    assert caught.value.option == "max_kv_size"


@pytest.mark.parametrize(
    ("kind", "group_size"), [("sliding", 32), ("recurrent", 64), ("listed", 64), ("plain", 128)]
)
def test_unsupported_quantization_is_rejected_at_construction(kind: str, group_size: int) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be quantized") as caught:
        PromptCaches(model_of(kind), CacheOptions(kv_bits=8, kv_group_size=group_size))
    assert caught.value.option == "kv_bits"


def test_trimmed_concatenated_cache_drops_its_keys() -> None:
    layer = ConcatenateKVCache()
    numbers = mx.arange(6, dtype=mx.float32).reshape(1, 1, 6, 1)
    layer.update_and_fetch(numbers, numbers)
    trim_to([layer], 2)
    keys, _ = layer.update_and_fetch(numbers[..., 5:, :], numbers[..., 5:, :])
    assert keys.reshape(-1).tolist() == [0, 1, 5]
