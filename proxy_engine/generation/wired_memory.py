"""Wired memory while a model runs: macOS then keeps the weights where the GPU reaches them.

As mlx-lm's ``wired_limit``, but for any number of engines in one process, whose runs overlap; and
it warns through ``logging``, since standard output may be a protocol's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

__all__ = ["model_bytes", "wired_memory"]

_log = logging.getLogger(__name__)

# As in mlx-lm: from there on models run slowly.
_CLOSE_TO_LIMIT = 0.9

_lock = threading.Lock()
_runs = 0
_limit_before = 0
_warned: set[int] = set()


def model_bytes(model: Module) -> int:
    """Bytes of all of a model's arrays."""
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model))
    return sum(leaf.nbytes for _, leaf in leaves if isinstance(leaf, mx.array))


@contextmanager
def wired_memory(needed: int) -> Iterator[None]:
    """Raise MLX's wired limit to the recommended size while a model of ``needed`` bytes runs.

    The limit is restored when the last run of the process ends, once its work is done: it must not
    change while the device works. Where the device has no recommended size, nothing happens.
    """
    recommended = mx.device_info().get("max_recommended_working_set_size")
    if not isinstance(recommended, int):
        yield
        return
    if needed > _CLOSE_TO_LIMIT * recommended and needed not in _warned:
        _warned.add(needed)
        _log.warning(
            "the model takes %d MB, close to the %d MB that the device recommends as a maximum; "
            "it may run slowly",
            *(needed >> 20, recommended >> 20),
        )
    _begin(recommended)
    try:
        yield
    finally:
        mx.synchronize()
        _end()


def _begin(recommended: int) -> None:
    global _runs, _limit_before
    with _lock:
        if _runs == 0:
            _limit_before = mx.set_wired_limit(recommended)
        _runs += 1


def _end() -> None:
    global _runs
    with _lock:
        _runs -= 1
        if _runs == 0:
            mx.set_wired_limit(_limit_before)
