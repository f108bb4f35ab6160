"""A request beside others is answered as alone, whatever the others are.

``PROXY_ENGINE_SOAK_SEED`` is the seed of the long run; each failure prints the steps that lead to it.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

import pytest
from exact_model import ExactModel
from hypothesis import given, settings
from hypothesis import strategies as st
from mixed_requests import DRAFTS, KINDS, Alone, Mixed, Spec, drafting
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import CacheOptions, InferenceEngine
from proxy_engine.generation import Batch
from proxy_engine.requests import continuous_batch

WIDTH = 320
PROMPTS = ["x", "ab", "the red dog, the red fox", "x" * 40 + " abc 12 abc 12", "ab" * 60]
ENGINES = {
    "plain": ("plain", CacheOptions(), False, True),
    "padded": ("plain", CacheOptions(), True, True),
    "uncached": ("plain", CacheOptions(max_bytes=0), False, False),
    "sliding": ("sliding", CacheOptions(), False, True),
    # Once texts are longer, mlx-lm's caches let answers depend on how a prompt is cut into passes.
    "limited": ("plain", CacheOptions(max_kv_size=640), False, False),
    "rotating": ("plain", CacheOptions(max_kv_size=64, max_bytes=0), False, False),
    "recurrent": ("recurrent", CacheOptions(), False, True),
}
"""Kind of model, options of caches, whether rows are padded as on a GPU, whether a model drafts."""

FAULTS = ["choices", "draft"]

specs = st.builds(
    Spec,
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(PROMPTS),
    st.integers(0, 3),
    st.sampled_from(sorted(DRAFTS)),
)
steps = st.one_of(
    st.tuples(st.just("begin"), specs, st.none()),
    st.tuples(st.just("begin"), specs, st.none() | st.integers(1, 20)),
    st.tuples(st.just("rounds"), st.integers(1, 12), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 5), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(FAULTS), st.none()),
)


@contextmanager
def engines(name: str, tokenizer: TokenizerWrapper) -> Iterator[tuple[InferenceEngine, Alone]]:
    """An engine, and the answers that its requests have alone."""
    kind, cache, pads, drafts = ENGINES[name]
    likely = [tokenizer.convert_tokens_to_ids(token) for token in ('"', "}", "]", "a", "<|end|>")]
    model = partial(ExactModel, WIDTH, likely)
    alone_cache = CacheOptions(max_bytes=0, max_kv_size=cache.max_kv_size)
    with ExitStack() as stack:
        if pads:
            stack.enter_context(patch.object(continuous_batch, "Batch", partial(Batch, pads=True)))
        make = partial(InferenceEngine, model(kind=kind), tokenizer, batch_size=4)
        alone = Alone(stack.enter_context(make(cache=alone_cache)))
        stack.enter_context(drafting(alone))
        draft = model(dissent=1.0) if drafts else None
        yield stack.enter_context(make(cache=cache, draft_model=draft)), alone


@pytest.fixture(scope="module", params=ENGINES)
def pair(
    request: pytest.FixtureRequest, tiny_tokenizer: TokenizerWrapper
) -> Iterator[tuple[InferenceEngine, Alone]]:
    with engines(request.param, tiny_tokenizer) as made:
        yield made


def run(pair: tuple[InferenceEngine, Alone], script: list[tuple[object, ...]]) -> Mixed:
    """Run the steps of a script, and check every answer."""
    mixed = Mixed(*pair)
    engine, _ = pair
    with mixed.faults():
        _run(mixed, script)
    drafter = engine._core.drafter
    if mixed.failed and drafter is not None:
        # Neither failure changes what later requests get.
        calls = drafter.model.calls
        later = [("begin", Spec("text", PROMPTS[2], 1, "model"), None)]
        _run(mixed, [*later, ("begin", Spec("exact choices", PROMPTS[0], 0), None)])
        assert drafter.model.calls > calls
    return mixed


def _run(mixed: Mixed, script: list[tuple[object, ...]]) -> None:
    with mixed.held():
        for step in script:
            match step:
                case "begin", Spec() as spec, leaves_after:
                    mixed.begin(spec, leaves_after)  # type: ignore[arg-type]
                case "rounds", int(count), _:
                    for _ in range(count):
                        mixed.round()
                case "cancel", int(number), _:
                    mixed.cancel(number)
                case "fail", str(component), _:
                    mixed.fail_next(component)
        mixed.finish()


@given(st.lists(steps, min_size=4, max_size=14))
@settings(max_examples=12)
def test_requests_beside_others_are_answered_as_alone(
    pair: tuple[InferenceEngine, Alone], script: list[tuple[object, ...]]
) -> None:
    run(pair, script)


def random_script(draw: random.Random) -> list[tuple[object, ...]]:
    """A script of requests of any kinds that arrive, leave and are cancelled at any time."""
    script: list[tuple[object, ...]] = []
    for _ in range(draw.randint(2, 9)):
        spec = Spec(
            draw.choice(sorted(KINDS)),
            draw.choice(PROMPTS),
            draw.randint(0, 3),
            draw.choice(sorted(DRAFTS)),
        )
        script.append(("begin", spec, draw.choice([None, None, None, draw.randint(1, 20)])))
        if draw.random() < 0.6:
            script.append(("rounds", draw.randint(1, 12), None))
        if draw.random() < 0.1:
            script.append(("cancel", draw.randint(0, 5), None))
        if draw.random() < 0.1:
            script.append(("fail", draw.choice(FAULTS), None))
    return script


@pytest.mark.soak
@pytest.mark.parametrize("name", ENGINES)
def test_requests_of_all_kinds_for_a_long_time(name: str, tiny_tokenizer: TokenizerWrapper) -> None:
    seed = os.environ.get("PROXY_ENGINE_SOAK_SEED") or random.SystemRandom().randrange(10**6)
    seconds = float(os.environ.get("PROXY_ENGINE_SOAK_SECONDS", "600")) / len(ENGINES)
    drafted = accepted = 0
    with engines(name, tiny_tokenizer) as pair:
        until, count = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            script = random_script(random.Random(f"{seed} {name} {count}"))
            try:
                mixed = run(pair, script)
            except BaseException:
                print(f"PROXY_ENGINE_SOAK_SEED={seed}, {name}, script {count}: {script}")
                raise
            count += 1
            drafted, accepted = drafted + mixed.drafted, accepted + mixed.accepted
    print(f"seed {seed}, {name}: {count} scripts, {accepted} of {drafted} drafted tokens accepted")
    assert accepted > 0
