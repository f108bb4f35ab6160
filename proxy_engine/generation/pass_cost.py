"""The cost of forward passes on the device that runs the model."""

from __future__ import annotations

import mlx.core as mx

from ..models.blas import has_fast_blas
from ..speculation.draft_length import FAST_CPU, GPU, SLOW_CPU, PassCost


def device_pass_cost() -> PassCost:
    """Return the cost of passes on the default device."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return GPU
    return FAST_CPU if has_fast_blas() else SLOW_CPU
