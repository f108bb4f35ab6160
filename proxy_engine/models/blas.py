"""The BLAS of MLX's CPU build, which determines the fastest form of the weights.

MLX's CPU build multiplies quantized matrices with its own kernels, a few tokens a second, and dense
matrices through BLAS. The BLAS that comes with it is the reference implementation, as slow as the
kernels. OpenBLAS in front of it makes prefill about twenty times as fast.
"""

from __future__ import annotations

import sys
from threading import Event

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import dequantize_model

from ..openblas import is_blas_in_front, remedy
from ..progress import OnProgress, announce

_announced = Event()


def has_fast_blas() -> bool:
    """Whether models run on the CPU with a BLAS in front of MLX's own."""
    return _runs_on_cpu() and is_blas_in_front()


def announce_slow_blas(on_progress: OnProgress | None) -> None:
    """Announce, once per process, that models run on the CPU with the reference BLAS."""
    is_slow = sys.platform == "linux" and _runs_on_cpu() and not is_blas_in_front()
    if is_slow and not _announced.is_set():
        _announced.set()
        announce(
            f"MLX runs on the CPU with its slow reference BLAS; faster: {remedy()}", on_progress
        )


def _runs_on_cpu() -> bool:
    return mx.default_device().type == mx.DeviceType.cpu


def dequantized(model: Module) -> Module:
    """Dequantize all weights to float32, in place, as lazy arrays. Takes 4 bytes per weight."""
    dequantized_model: Module = dequantize_model(model)
    return dequantized_model
