"""A request beside others is answered as alone, whatever the others are.

A script of requests is drawn from a seed, and runs round by round, so that a failure can be repeated:
it prints the seed, the engine, and the script. ``PROXY_ENGINE_SOAK_SEED`` is the seed of the long run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from engine_parts import core_of
from exact_model import ExactModel
from head_families import FAMILIES
from mixed_requests import DRAFTS, IMAGE, KINDS, Alone, Mixed, Spec, drafting, slow_masks
from mlx_lm.tokenizer_utils import TokenizerWrapper
from vision_models import vision_checkpoint

from proxy_engine import CacheOptions, InferenceEngine
from proxy_engine.generation import Batch
from proxy_engine.generation.speculation.draft_model import DraftModel
from proxy_engine.requests import continuous_batch
from state_machines import repetition

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
    "slow masks": ("plain", CacheOptions(), False, True),
    "vision": ("", CacheOptions(), False, False),
    # Half of them pad their rows.
    **{
        family: ("", CacheOptions(), number % 2 == 0, True)
        for number, family in enumerate(FAMILIES)
    },
}
"""Kind of model, options of caches, whether rows are padded as on a GPU, whether a model drafts."""

FAULTS = ["choices", "draft"]
Script = list[tuple[Any, ...]]

HEADS = ("qwen3_5_mtp", "nemotron_h_mtp", "eagle3", "gemma4_assistant", "qwen3_dflash")
"""Families of the short run: a chain with states, a model that drafts one text at a time, states of
several layers, a head that reads the model's keys, a block. ``test_draft_heads.py`` compares all."""

SCRIPTS, HEAD_SCRIPTS = 4, 2
"""Scripts of each engine in the short run. The packages of heads have more between them."""


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
        if name == "slow masks":
            stack.enter_context(slow_masks())
        if name == "vision":
            directory = Path(stack.enter_context(TemporaryDirectory()))
            make = partial(InferenceEngine, vision_checkpoint("qwen2_vl", directory), batch_size=4)
        elif name in FAMILIES:
            target, head = FAMILIES[name]()
            make = partial(InferenceEngine, target, tokenizer, batch_size=4)
        else:
            make = partial(InferenceEngine, model(kind=kind), tokenizer, batch_size=4)
        alone = Alone(stack.enter_context(make(cache=alone_cache)))
        stack.enter_context(drafting(alone))
        stack.enter_context(patch.multiple(repetition, _PROBE=3, ITEM_BYTES=8, REPEATS=3, BYTES=8))
        draft = head if name in FAMILIES else model(dissent=1.0) if drafts else None
        yield stack.enter_context(make(cache=cache, draft_model=draft)), alone


def prompts_of(name: str) -> list[str]:
    """The prompts of an engine's requests."""
    return [*PROMPTS[:3], f"{IMAGE}ab", f"{IMAGE}the red fox"] if name == "vision" else PROMPTS


def run(pair: tuple[InferenceEngine, Alone], script: Script) -> Mixed:
    """Run the steps of a script, and check every answer."""
    mixed = Mixed(*pair)
    engine, _ = pair
    with mixed.faults():
        _run(mixed, script)
    drafter = core_of(engine).drafter
    if mixed.failed and isinstance(drafter, DraftModel):
        # Neither failure changes what later requests get.
        calls = drafter.model.calls
        later = [("begin", Spec("text", PROMPTS[2], 1, "model"), None)]
        _run(mixed, [*later, ("begin", Spec("exact choices", PROMPTS[0], 0), None)])
        assert drafter.model.calls > calls
    return mixed


def _run(mixed: Mixed, script: Script) -> None:
    with mixed.held():
        for step in script:
            match step:
                case "begin", Spec() as spec, leaves_after:
                    mixed.begin(spec, leaves_after)
                case "rounds", int(count), _:
                    for _ in range(count):
                        mixed.round()
                case "cancel", int(number), _:
                    mixed.cancel(number)
                case "fail", str(component), _:
                    mixed.fail_next(component)
        mixed.finish()


def random_script(name: str, draw: random.Random) -> Script:
    """A script of requests of any kinds that arrive, leave and are cancelled at any time."""
    script: Script = []
    for _ in range(draw.randint(2, 9)):
        spec = Spec(
            draw.choice(sorted(KINDS)),
            draw.choice(prompts_of(name)),
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


@pytest.mark.parametrize(
    "name", [name for name in ENGINES if name not in FAMILIES or name in HEADS]
)
def test_requests_beside_others_are_answered_as_alone(
    name: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    scripts = HEAD_SCRIPTS if name in HEADS else SCRIPTS
    with engines(name, tiny_tokenizer) as pair:
        check(name, pair, seed="steady", until=lambda count: count == scripts)


def check(
    name: str,
    pair: tuple[InferenceEngine, Alone],
    *,
    seed: object,
    until: Callable[[int], bool],
) -> None:
    """Run random scripts until a condition on their number holds.

    Drafts must have been accepted by then, or the scripts would show nothing about them.
    """
    accepted = count = 0
    while not until(count):
        script = random_script(name, random.Random(f"{seed} {name} {count}"))
        try:
            accepted += run(pair, script).accepted
        except Exception:
            print(f"PROXY_ENGINE_SOAK_SEED={seed}, {name}, script {count}: {script}")
            print("which fails without the other steps as", shrunk(pair, script))
            raise
        count += 1
    print(f"seed {seed}, {name}: {count} scripts, {accepted} drafted tokens accepted")
    assert accepted > 0


def shrunk(pair: tuple[InferenceEngine, Alone], script: Script) -> Script:
    """Return a script that still fails, without steps that its failure does not need."""
    for step in list(script):
        shorter = [one for one in script if one is not step]
        try:
            run(pair, shorter)
        except Exception:
            script = shorter
    return script


@pytest.mark.soak
@pytest.mark.parametrize("name", ENGINES)
def test_requests_of_all_kinds_for_a_long_time(name: str, tiny_tokenizer: TokenizerWrapper) -> None:
    seed = os.environ.get("PROXY_ENGINE_SOAK_SEED") or random.SystemRandom().randrange(10**6)
    seconds = float(os.environ.get("PROXY_ENGINE_SOAK_SECONDS", "600")) / len(ENGINES)
    with engines(name, tiny_tokenizer) as pair:
        end = time.monotonic() + seconds
        check(name, pair, seed=seed, until=lambda _: time.monotonic() > end)
