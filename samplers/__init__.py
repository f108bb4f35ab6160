"""Selects a token from logits. Functions on ``mx.array``; independent of grammars and models.

Reading order: ``parameters`` (the parameters of a request), ``transforms`` (one function for each
parameter), ``adjustments`` (biases and penalties), ``filters``, ``sampler`` (the composition, with
its own random key), ``rows`` (several samplers at once), ``verification`` (of drafted tokens),
``logprobs`` (probabilities of chosen and of most likely tokens).

``samplers.parameters`` can be imported without mlx; the other names load it at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from samplers.parameters import InvalidSamplingParameterError, SamplingParameters

if TYPE_CHECKING:
    from samplers.logprobs import TopLogprobs, log_sum, top_logprobs
    from samplers.rows import can_sample_together, sample_rows
    from samplers.sampler import Sampler, WeightedToken, make_sampler
    from samplers.transforms import (
        apply_logit_bias,
        apply_mask,
        apply_min_p,
        apply_penalties,
        apply_temperature,
        apply_token_boost,
        apply_top_k,
        apply_top_p,
        apply_xtc,
    )

__all__ = [
    "InvalidSamplingParameterError",
    "Sampler",
    "SamplingParameters",
    "TopLogprobs",
    "WeightedToken",
    "apply_logit_bias",
    "apply_mask",
    "apply_min_p",
    "apply_penalties",
    "apply_temperature",
    "apply_token_boost",
    "apply_top_k",
    "apply_top_p",
    "apply_xtc",
    "can_sample_together",
    "log_sum",
    "make_sampler",
    "sample_rows",
    "top_logprobs",
]

_MODULE_OF = {
    "Sampler": "sampler",
    "TopLogprobs": "logprobs",
    "WeightedToken": "sampler",
    "can_sample_together": "rows",
    "log_sum": "logprobs",
    "make_sampler": "sampler",
    "sample_rows": "rows",
    "top_logprobs": "logprobs",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"samplers.{_MODULE_OF.get(name, 'transforms')}")
    value = globals()[name] = getattr(module, name)
    return value
