"""With what was kept, a model says what it says without."""

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
from hypothesis import given, settings
from hypothesis import strategies as st
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import ConcatenateKVCache, QuantizedKVCache, RotatingKVCache

from proxy_engine import InvalidOptionError
from proxy_engine.prompt_cache import CacheOptions, PromptCaches
from proxy_engine.prompt_cache.layers import trim_to

ALWAYS_CUT = {"plain", "default"}
NEVER_CUT = {"recurrent", "mixed", "listed"}
LONG = 3 * WINDOW


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, VOCABULARY, length)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_cached_at_first(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    cached, logits, _ = ask(caches, model, text(0, LONG))
    assert cached == 0
    assert is_close(logits, cold(model, text(0, LONG)))
    assert 0 < caches.nbytes <= caches.options.max_bytes


@pytest.mark.parametrize("length", [5, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_shared_prefixes_of_all_lengths(kind: str, length: int) -> None:
    model = model_of(kind)
    for shared in range(length):
        caches = PromptCaches(model)
        ask(caches, model, text(0, length))
        other = [*text(0, shared), (text(0, length)[shared] + 1) % VOCABULARY, *text(1, 6)]
        cached, logits, _ = ask(caches, model, other)
        assert is_close(logits, cold(model, other))
        is_trimmable = kind in ALWAYS_CUT or (kind not in NEVER_CUT and length < WINDOW)
        # Without boundaries, a checkpoint stands before the last token of a prompt.
        expected = shared if is_trimmable or shared == LONG - 1 else 0
        # Chunked layers forget a pass later.
        assert cached == expected or (kind == "chunked" and cached == shared)


@pytest.mark.parametrize("length", [2, 5, LONG])
@pytest.mark.parametrize("kind", KINDS)
def test_the_last_token_is_always_left_to_be_run(kind: str, length: int) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    prompt = text(0, length)
    for turn in range(3):
        cached, logits, _ = ask(caches, model, prompt, count=4)
        known = kind in ALWAYS_CUT or kind not in NEVER_CUT or length == LONG
        assert cached == (length - 1 if turn and known else 0)
        assert is_close(logits, cold(model, prompt))


@pytest.mark.parametrize("kind", KINDS)
def test_conversations_take_turns(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    start = text(9, 20)
    talks = [[*start, *text(talk, 3)] for talk in range(3)]
    for turn in range(3):
        for talk in talks:
            cached, logits, answer = ask(caches, model, talk, count=5, boundaries=[20])
            assert cached >= (20 if turn or talk is not talks[0] else 0)
            assert is_close(logits, cold(model, talk))
            assert answer == ask(PromptCaches(model), model, talk, count=5)[2]
            if turn:
                # All of the turn before, but for what was chosen and never fed.
                assert cached == len(talk) - 4
            talk += [*answer, *text(turn, 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_is_not_changed_by_what_is_done_with_it(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    ask(caches, model, text(0, LONG))
    whole = [*text(0, LONG), *text(1, 3)]
    for seed in range(3):
        started = caches.fetch(whole)
        assert started.cached_tokens == LONG
        read(model, text(seed, 7), started.cache)
        for token in text(seed + 5, 7):
            read(model, [token], started.cache)
    assert is_close(ask(caches, model, whole)[1], cold(model, whole))


@settings(max_examples=25, deadline=None)
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
def test_any_requests_in_any_order(
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


def test_bytes_are_bounded_and_the_least_recently_used_goes() -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, text(0, 20))
    size = caches.nbytes
    caches = PromptCaches(model, CacheOptions(max_bytes=2 * size))
    for seed in (1, 2, 1, 3):
        ask(caches, model, text(seed, 20))
        assert caches.nbytes <= 2 * size
    assert len(caches) == 2
    assert [caches.fetch(text(seed, 20)).cached_tokens for seed in (2, 1, 3)] == [0, 19, 19]
    caches.clear()
    assert len(caches) == caches.nbytes == 0
    assert caches.fetch(text(1, 20)).cached_tokens == 0


def test_a_shorter_text_does_not_hold_the_memory_of_a_longer_one() -> None:
    model = model_of("plain")
    caches = PromptCaches(model)
    ask(caches, model, text(0, 2000))
    started = caches.fetch([*text(0, 10), *text(1, 5)])
    assert started.cached_tokens == 10
    read(model, text(1, 5), started.cache)
    assert sum(layer.nbytes for layer in started.cache) * 4 < caches.nbytes


@pytest.mark.parametrize("kind", ["plain", "sliding"])
def test_only_what_was_run_is_kept(kind: str) -> None:
    model = model_of(kind)
    # More tokens are named than were read, as of a request that was cancelled in its prompt.
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 10))
    read(model, text(0, 6), started.cache)
    assert caches.insert(text(0, 10), started.cache) == 6
    assert caches.fetch(text(0, 10)).cached_tokens == 6
    # Fewer are named, for the last one was fed and never looked at.
    caches = PromptCaches(model)
    started = caches.fetch(text(0, 10))
    read(model, text(0, 10), started.cache)
    assert caches.insert(text(0, 8), started.cache) == 8
    cached, logits, _ = ask(caches, model, [*text(0, 8), *text(1, 3)])
    assert cached == 8
    assert is_close(logits, cold(model, [*text(0, 8), *text(1, 3)]))


@pytest.mark.parametrize("kind", ["recurrent", "mixed", "listed"])
def test_recurrent_layers_rely_on_what_was_run(kind: str) -> None:
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


def test_what_cannot_be_brought_back_is_given_up() -> None:
    model = model_of("sliding")
    caches = PromptCaches(model)
    started = caches.fetch(text(0, LONG))
    read(model, text(0, LONG), started.cache)
    assert caches.insert(text(0, LONG - 1), started.cache) == 0
    assert len(caches) == 0


def test_a_forward_pass_that_failed_halfway_leaves_what_all_layers_have_read() -> None:
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


def test_arrays_that_cannot_be_computed_are_given_up() -> None:
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


def test_nothing_is_kept_of_nothing() -> None:
    model = model_of("recurrent")
    caches = PromptCaches(model)
    assert caches.fetch([]).cached_tokens == caches.fetch([1]).cached_tokens == 0
    assert caches.insert([], caches.fetch([]).cache) == 0
    caches = PromptCaches(model, CacheOptions(max_bytes=0))
    ask(caches, model, text(0, LONG), boundaries=[20])
    assert len(caches) == 0
    assert caches.checkpoint_lengths(text(0, LONG), [20]) == ()


def test_checkpoints_are_made_where_a_cache_cannot_be_cut() -> None:
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
    # The answer may become too long for going back to the prompt.
    assert sliding.checkpoint_lengths(prompt[:4], [2], max_tokens=2) == ()
    assert not sliding.needs_checkpoints(WINDOW - 1)
    assert sliding.needs_checkpoints(WINDOW)
    for most, expected in ((0, ()), (1, (40,)), (2, (20, 40)), (3, (20, 30, 40))):
        some = PromptCaches(model_of("recurrent"), CacheOptions(max_checkpoints=most))
        assert some.checkpoint_lengths(prompt, [20, 30, 40]) == expected


@pytest.mark.parametrize("kind", ["sliding", *sorted(NEVER_CUT)])
def test_a_conversation_that_parts_at_a_boundary_goes_on_from_there(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model)
    ask(caches, model, text(0, 60), count=5, boundaries=[20, 50])
    for shared, cached in ((19, 0), (20, 20), (49, 20), (55, 50)):
        # As many tokens in common as ``shared``; those of another conversation after them.
        other = [*text(0, shared), (text(0, 60)[shared] + 1) % VOCABULARY, *text(shared, 9)]
        found, logits, _ = ask(PromptCachesView(caches), model, other)
        assert found == cached
        assert is_close(logits, cold(model, other))


class PromptCachesView(PromptCaches):
    """The same caches, to which nothing is added."""

    def __init__(self, caches: PromptCaches) -> None:
        vars(self).update(vars(caches))

    def keep(self, token_ids: object, cache: object, *, run: object = None) -> int:
        return 0

    def checkpoint(self, token_ids: object, cache: object) -> None:
        return None


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_quantized_keys_and_values(bits: int) -> None:
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
    # Read again from every length at which it is quantized already: the same numbers.
    for shared in (20, 25, 29):
        again = caches.fetch(prompt[: shared + 1])
        assert again.cached_tokens == shared
        assert np.abs(read(model, prompt[shared:], again.cache) - expected).max() < 1e-3


@pytest.mark.parametrize("kind", ["plain", "default"])
def test_a_cache_of_bounded_size(kind: str) -> None:
    model = model_of(kind)
    caches = PromptCaches(model, CacheOptions(max_kv_size=WINDOW))
    assert all(isinstance(layer, RotatingKVCache) for layer in caches.fetch([1]).cache)
    prompt = text(0, 40)
    _, expected, _ = ask(caches, model, prompt, boundaries=[20])
    cached, logits, _ = ask(caches, model, prompt)
    # Which tokens are remembered depends on how a text is read; here it is read alike.
    assert cached == 20
    assert is_close(logits, expected)
    # Short texts can be cut.
    ask(caches, model, text(1, WINDOW - 2))
    assert caches.fetch(text(1, WINDOW - 4)).cached_tokens == WINDOW - 5
    assert max(layer.size() for layer in caches.fetch(prompt).cache) <= WINDOW


@pytest.mark.parametrize("kind", ["sliding", "recurrent", "listed", "chunked"])
def test_a_model_with_caches_of_its_own_has_no_other_size(kind: str) -> None:
    with pytest.raises(InvalidOptionError, match="determines the size") as caught:
        PromptCaches(model_of(kind), CacheOptions(max_kv_size=100))
    assert caught.value.option == "max_kv_size"


@pytest.mark.parametrize(
    ("kind", "group_size"), [("sliding", 32), ("recurrent", 64), ("listed", 64), ("plain", 128)]
)
def test_what_cannot_be_quantized_is_refused_at_once(kind: str, group_size: int) -> None:
    with pytest.raises(InvalidOptionError, match="cannot be quantized") as caught:
        PromptCaches(model_of(kind), CacheOptions(kv_bits=8, kv_group_size=group_size))
    assert caught.value.option == "kv_bits"


def test_concatenated_keys_are_really_cut() -> None:
    layer = ConcatenateKVCache()
    numbers = mx.arange(6, dtype=mx.float32).reshape(1, 1, 6, 1)
    layer.update_and_fetch(numbers, numbers)
    trim_to([layer], 2)
    keys, _ = layer.update_and_fetch(numbers[..., 5:, :], numbers[..., 5:, :])
    assert keys.reshape(-1).tolist() == [0, 1, 5]


def test_a_text_is_read_in_far_less_work(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("plain")
    run: list[int] = []
    original = type(model).__call__

    def counting(self: Module, inputs: mx.array, cache: object = None) -> mx.array:
        run.append(inputs.size)
        result: mx.array = original(self, inputs, cache)
        return result

    monkeypatch.setattr(type(model), "__call__", counting)
    caches = PromptCaches(model)
    ask(caches, model, text(0, 100))
    run.clear()
    ask(caches, model, [*text(0, 80), *text(1, 20)])
    assert sum(run) == 20
