"""What a cache depends on: the model in memory, not the name it was loaded by."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, cast

import mlx.core as mx
import mlx_lm
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

__all__ = ["ModelIdentity"]

_NOTHING = "none"
_UNSIGNED = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint32}


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What two models have in common if one of them can go on with the other's cache.

    * ``architecture``: the kind of model and its arguments, as a digest.
    * ``quantization``: how many modules have packed weights, of which kinds.
    * ``adapter``: the low-rank adapters and their strengths, as a digest.
    * ``weights``: a checksum of all numbers of the model. It tells a fine-tuned model from the one
      it was made of; it is no protection against forgery.
    * ``mlx_lm``: the version that knows what a saved cache means.
    """

    architecture: str
    quantization: str
    adapter: str
    weights: str
    mlx_lm: str

    @classmethod
    def of(cls, model: Module) -> ModelIdentity:
        """Look at a model in memory, in the time it takes to read all of its weights once.

        To be called on the thread that runs the model.
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
        arguments = getattr(model, "args", None)
        return cls(
            architecture=_digest([type(model).__module__, arguments]),
            quantization="; ".join(kinds) or _NOTHING,
            adapter=_digest(adapters) if adapters else _NOTHING,
            weights=_digest(_checksums(model)),
            mlx_lm=mlx_lm.__version__,
        )

    def to_dict(self) -> dict[str, str]:
        """All of it by name."""
        return asdict(self)


def _checksums(model: Module) -> dict[str, Any]:
    """By name: shape, type, and two sums of an array's bits, the second by places in its rows."""
    found: dict[str, Any] = {}
    for name, array in cast("list[tuple[str, Any]]", tree_flatten(model)):
        if not isinstance(array, mx.array):
            continue
        facts: list[Any] = [list(array.shape), str(array.dtype)]
        if array.size:
            rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
            bits = rows if rows.dtype == mx.bool_ else rows.view(_UNSIGNED[rows.itemsize])
            columns = mx.sum(bits, axis=0).astype(mx.uint32)
            places = mx.arange(1, columns.size + 1, dtype=mx.uint32)
            # Array by array, so that no more than one is worked on at a time.
            facts.append(mx.stack([mx.sum(columns), mx.sum(columns * places)]).tolist())
        found[name] = facts
    return found


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Objects by what they hold; what holds nothing by its type, for addresses change."""
    held = getattr(value, "__dict__", None)
    return {"": type(value).__qualname__, **(held or {})}
