"""The BLAS of MLX's CPU build, which determines the fastest form of the weights.

MLX's CPU build multiplies quantized matrices with its own kernels, a few tokens a second, and dense
matrices through BLAS. The BLAS that comes with it is the reference implementation, as slow as the
kernels. An optimized one, loaded in front of it, makes prefill about twenty times as fast.
"""

from __future__ import annotations

import ctypes
from functools import cache

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import dequantize_model


@cache
def _is_openblas_loaded() -> bool:
    return hasattr(ctypes.CDLL(None), "openblas_get_config")


def has_fast_blas() -> bool:
    """Whether models run on the CPU with OpenBLAS in front of MLX's own BLAS.

    ``LD_PRELOAD`` has to name it: only then are its functions global in the process.
    """
    if mx.default_device().type != mx.DeviceType.cpu:
        return False
    return _is_openblas_loaded()


def dequantized(model: Module) -> Module:
    """Dequantize all weights to float32, in place, as lazy arrays. Takes 4 bytes per weight."""
    dequantized_model: Module = dequantize_model(model)
    return dequantized_model
