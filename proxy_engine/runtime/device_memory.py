"""Memory of the device: wired while a model runs, so that macOS keeps the weights resident.

Same as mlx-lm's ``wired_limit``, for any number of engines in one process whose runs overlap. It
warns through ``logging``, since a protocol may own standard output.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

_log = logging.getLogger(__name__)

# mlx-lm's threshold: larger models run slowly.
_WARNING_RATIO = 0.9

_lock = threading.Lock()
_runs = 0
_limit_before = 0
_warned: set[int] = set()

_unwired = threading.Event()
if os.environ.get("PROXY_ENGINE_WIRED_MEMORY", "").lower() in ("0", "false", "no", "off"):
    _unwired.set()


def leave_unwired() -> None:
    """Leave the wired limit alone from now on: it belongs to the process, not to a model."""
    _unwired.set()


def model_bytes(model: Module) -> int:
    """Return the size of a model's arrays in bytes."""
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model))
    return sum(leaf.nbytes for _, leaf in leaves if isinstance(leaf, mx.array))


def clear_cache() -> None:
    """Return the memory of freed arrays to the system. Other threads run meanwhile.

    On the CPU, MLX waits for the work that is dispatched. ``mx.clear_cache`` holds the global
    interpreter lock while it waits, which never ends if a rank of a distributed run has failed.
    """
    if mx.default_device() == mx.Device(mx.cpu):
        mx.synchronize()
    mx.clear_cache()


@contextmanager
def wired_memory(needed: int) -> Iterator[None]:
    """Raise MLX's wired limit to the device's recommended size inside the block.

    The limit must not change while the device works. It is restored when the last run of the
    process has ended and its work is done. A device without a recommended size is left alone, and
    every device after :func:`leave_unwired`, or with ``PROXY_ENGINE_WIRED_MEMORY=0``.

    Args:
        needed: The model's size in bytes.
    """
    recommended = mx.device_info().get("max_recommended_working_set_size")
    if _unwired.is_set() or not isinstance(recommended, int):
        yield
        return
    if needed > _WARNING_RATIO * recommended and needed not in _warned:
        _warned.add(needed)
        _log.warning(
            "the model takes %d MB, close to the device's recommended maximum of %d MB; "
            "it may run slowly",
            *(needed >> 20, recommended >> 20),
        )
    global _runs, _limit_before
    with _lock:
        if _runs == 0:
            _limit_before = mx.set_wired_limit(recommended)
        _runs += 1
    try:
        yield
    finally:
        mx.synchronize()
        with _lock:
            _runs -= 1
            if _runs == 0:
                mx.set_wired_limit(_limit_before)
