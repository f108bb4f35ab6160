"""Unpacking quantized weights where that is faster.

MLX's CPU build multiplies quantized matrices with kernels of its own, a few tokens a second, and
dense ones through BLAS. The BLAS that comes with it is the reference implementation, as slow as
those kernels; an optimised one in front of it reads prompts some twenty times faster.
"""

from __future__ import annotations

import ctypes

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import dequantize_model

__all__ = ["has_fast_blas", "unpacked"]


def has_fast_blas() -> bool:
    """Whether models run on the CPU, and OpenBLAS was loaded in front of MLX's own BLAS.

    That is so where ``LD_PRELOAD`` names it: only then are its functions global in the process.
    """
    if mx.default_device().type != mx.DeviceType.cpu:
        return False
    return hasattr(ctypes.CDLL(None), "openblas_get_config")


def unpacked(model: Module) -> Module:
    """The model with float32 in place of packed weights; the numbers are the same ones.

    Takes 4 bytes a weight, and changes ``model`` in place. Evaluated on return.
    """
    model = dequantize_model(model)
    mx.eval(model.parameters())
    return model
