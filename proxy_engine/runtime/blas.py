"""The fastest form of the weights on a CPU, which depends on the BLAS of MLX's CPU build.

Processors compute in 32 bits, and MLX converts each 16-bit operand of its CPU kernels in software.
MLX's CPU build multiplies quantized matrices with its own kernels, a few tokens a second, and dense
matrices through BLAS. The BLAS that comes with it is the reference implementation, as slow as the
kernels. OpenBLAS in its place makes prefill about twenty times as fast.
"""

from __future__ import annotations

import logging
import os
import sys
from threading import Event
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedEmbedding, QuantizedLinear
from mlx.utils import tree_flatten, tree_unflatten

from .openblas import remedy, uses_reference_blas
from .process_runtime import OnProgress, announce

_log = logging.getLogger(__name__)

_HALF_PRECISION = (mx.float16, mx.bfloat16)

_MEMORY_SHARE = 0.75
"""Share of the memory that weights in float32 may take."""

_announced = Event()


def has_fast_blas() -> bool:
    """Whether models run on the CPU of Linux with another BLAS than MLX's own."""
    return sys.platform == "linux" and _runs_on_cpu() and not uses_reference_blas()


def announce_slow_blas(on_progress: OnProgress | None) -> None:
    """Announce, once per process, that models run on the CPU with the reference BLAS."""
    if _runs_on_cpu() and uses_reference_blas() and not _announced.is_set():
        _announced.set()
        announce(
            f"MLX runs on the CPU with its slow reference BLAS; faster: {remedy()}", on_progress
        )


def _runs_on_cpu() -> bool:
    return mx.default_device().type == mx.DeviceType.cpu


def widen_on_cpu(model: Module, name: str) -> None:
    """Cast a model's 16-bit arrays to float32 if it runs on the CPU, in place, as lazy arrays.

    The numbers stay the same, and passes take a fraction of the time. Quantized weights stay as
    they are; their scales and biases are cast. A model whose weights in float32 would not fit into
    memory is left alone.

    Args:
        model: The model.
        name: Its name in the log.
    """
    if not _runs_on_cpu():
        return
    leaves = cast("list[tuple[str, Any]]", tree_flatten(model))
    arrays = [value for _, value in leaves if isinstance(value, mx.array)]
    size = sum(4 * a.size if a.dtype in _HALF_PRECISION else a.nbytes for a in arrays)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > _MEMORY_SHARE * memory:
        _log.warning(
            "%r computes in 16 bits, which is slow on a CPU: in float32 it takes %.1f of %.1f GB "
            "of memory",
            name,
            size / 1e9,
            memory / 1e9,
        )
        return
    # Private arrays as well, such as masks and positions, which modules do not count as parameters.
    model.apply(_widened, lambda _, __, value: isinstance(value, dict | list | mx.array))


def dequantize(model: Module) -> None:
    """Replace the quantized layers of a model by dense layers with equal values, as lazy arrays.

    Args:
        model: The model, which is changed. Its quantized layers are linear ones or embeddings.
    """
    layers: list[tuple[str, Any]] = model.named_modules()
    dense: list[tuple[str, Module]] = []
    for name, layer in layers:
        if not isinstance(layer, QuantizedLinear | QuantizedEmbedding):
            continue
        weight = mx.dequantize(
            layer.weight, layer.scales, layer.biases, layer.group_size, layer.bits, layer.mode
        )
        rows, width = weight.shape
        if isinstance(layer, QuantizedEmbedding):
            plain: Any = Embedding(rows, width)
        else:
            plain = Linear(width, rows, bias="bias" in layer)
            if "bias" in layer:
                plain.bias = layer.bias
        plain.weight = weight
        dense.append((name, plain))
    model.update_modules(tree_unflatten(dense))


def _widened(value: Any) -> Any:
    is_half = isinstance(value, mx.array) and value.dtype in _HALF_PRECISION
    return value.astype(mx.float32) if is_half else value
