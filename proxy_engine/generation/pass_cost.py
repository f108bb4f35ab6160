"""The cost of forward passes on the device that runs the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx

from ..runtime.blas import has_fast_blas
from .rollback import must_replay
from .speculation.draft_length import FAST_CPU, GPU, SLOW_CPU, PassCost

_REPLAY_SHARE = 0.25
"""Share of the constant time that is left to drafts where accepted tokens may be processed again.

Simulated with acceptance rates up to 0.95 and a constant time of 5 to 32 tokens: drafts of this
length are at most 5% slower than the best ones, and never slower than none."""


def device_pass_cost(cache: Sequence[Any] = ()) -> PassCost:
    """Return the cost of passes on the default device.

    Args:
        cache: The prompt cache of the model.
    """
    if mx.default_device().type == mx.DeviceType.gpu:
        cost = GPU
    else:
        cost = FAST_CPU if has_fast_blas() else SLOW_CPU
    return replace(cost, base=cost.base * _REPLAY_SHARE) if must_replay(cache) else cost


def most_efficient_count(pending: Sequence[int]) -> int:
    """Return how many tokens per row a padded pass should take, for the most tokens in its time.

    Args:
        pending: Tokens that wait in each row.
    """
    cost = device_pass_cost()

    def speed(count: int) -> float:
        tokens = sum(min(count, length) for length in pending)
        return tokens / cost.of_pass(count * len(pending))

    return max(range(1, max(pending) + 1), key=speed)
