"""The engines whose requests are compared with each other: kinds of models, caches and drafters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from exact_model import ExactModel
from head_families import FAMILIES
from mixed_requests import IMAGE, Alone, drafting, slow_masks
from mlx_lm.tokenizer_utils import TokenizerWrapper
from vision_models import vision_checkpoint

from proxy_engine import CacheOptions, InferenceEngine
from proxy_engine.generation import Batch
from proxy_engine.requests import continuous_batch
from state_machines import repetition

__all__ = ["ENGINES", "PROMPTS", "engines", "prompts_of"]

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
