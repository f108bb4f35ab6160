"""Identity of a model in memory, by its weights: a saved cache belongs to one model."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, cast

import mlx.core as mx
import mlx_lm
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

_NOTHING = "none"
_UNSIGNED = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint32}


def model_identity(model: Module) -> dict[str, str]:
    """Return the properties that two models must share for one to use the other's cache.

    Reads all weights once. To be called on the thread that runs the model.

    Returns:
        ``architecture``, a digest of the model type and its arguments; ``quantization``, the number
        of quantized modules by bits, group size and mode; ``adapter``, a digest of the low-rank
        adapters and their scales; ``weights``, a checksum of all weights, which detects
        fine-tuning, not forgery; ``mlx_lm``, the version that defines the format of a saved cache.
    """
    adapters = {}
    packings: Counter[str] = Counter()
    for name, module in model.named_modules():
        if any(key.startswith("lora_") for key in module):
            adapters[name] = [type(module).__qualname__, getattr(module, "scale", None)]
        if hasattr(module, "bits"):
            mode = getattr(module, "mode", "affine")
            packings[f"{module.bits} bits in groups of {module.group_size}, {mode}"] += 1
    kinds = (f"{kind}: {count} modules" for kind, count in sorted(packings.items()))
    return {
        "architecture": _digest([type(model).__module__, getattr(model, "args", None)]),
        "quantization": "; ".join(kinds) or _NOTHING,
        "adapter": _digest(adapters) if adapters else _NOTHING,
        "weights": _digest(_checksums(model)),
        "mlx_lm": mlx_lm.__version__,
    }


def _checksums(model: Module) -> dict[str, Any]:
    """Return shape, dtype and two sums of each array's bits, the second weighted by column."""
    found: dict[str, Any] = {}
    for name, array in cast("list[tuple[str, Any]]", tree_flatten(model)):
        if not isinstance(array, mx.array):
            continue
        facts: list[Any] = [list(array.shape), str(array.dtype)]
        if array.size:
            rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
            bits = rows if rows.dtype == mx.bool_ else rows.view(_UNSIGNED[rows.itemsize])
            columns = mx.sum(bits, axis=0).astype(mx.uint32)
            weights = mx.arange(1, columns.size + 1, dtype=mx.uint32)
            # tolist() evaluates here, so that one array at a time is in use.
            facts.append(mx.stack([mx.sum(columns), mx.sum(columns * weights)]).tolist())
        found[name] = facts
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Represent an object by its type and attributes, without its address."""
    attributes = getattr(value, "__dict__", None)
    return {"": type(value).__qualname__, **(attributes or {})}
