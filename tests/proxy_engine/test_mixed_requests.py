"""A request beside others is answered as alone, whatever the others are.

A script of requests is drawn from a seed, and runs round by round, so that a failure can be repeated:
it prints the seed, the engine, and the script. ``PROXY_ENGINE_SOAK_SEED`` is the seed of the long run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from engine_parts import core_of
from head_families import FAMILIES
from mixed_engines import ENGINES, PROMPTS, engines, prompts_of
from mixed_requests import DRAFTS, KINDS, Alone, Mixed, Spec
from mlx_lm.tokenizer_utils import TokenizerWrapper
from recorded_requests import differences, specs

from proxy_engine import InferenceEngine
from proxy_engine.generation.speculation.draft_model import DraftModel

FAULTS = ["choices", "draft"]
Script = list[tuple[Any, ...]]

HEADS = ("qwen3_5_mtp", "nemotron_h_mtp", "eagle3", "gemma4_assistant", "qwen3_dflash")
"""Families of the short run: a chain with states, a model that drafts one text at a time, states of
several layers, a head that reads the model's keys, a block. ``test_draft_heads.py`` compares all."""

SCRIPTS, HEAD_SCRIPTS = 4, 2
"""Scripts of each engine in the short run. The packages of heads have more between them."""


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


def test_requests_have_the_tokens_of_the_record(tiny_tokenizer: TokenizerWrapper) -> None:
    with engines("plain", tiny_tokenizer) as pair:
        assert differences(pair[1]) == {}
        # Beside each other, with all drafters.
        mixed = run(pair, [("begin", spec, None) for spec in specs()])
    assert mixed.accepted > 0


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
