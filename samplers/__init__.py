"""From logits to a token. Plain functions on ``mx.array``; knows neither grammars nor models.

Reading order: ``parameters`` (what a request may ask for), ``transforms`` (one function for each
of it), ``sampler`` (their composition, with a random key of its own), ``logprobs`` (how likely
what was chosen was).
"""

from samplers.logprobs import TopLogprobs, top_logprobs
from samplers.parameters import InvalidSamplingParameterError, SamplingParameters
from samplers.sampler import Sampler, make_sampler
from samplers.transforms import (
    apply_lean,
    apply_logit_bias,
    apply_mask,
    apply_min_p,
    apply_penalties,
    apply_temperature,
    apply_top_k,
    apply_top_p,
)

__all__ = [
    "InvalidSamplingParameterError",
    "Sampler",
    "SamplingParameters",
    "TopLogprobs",
    "apply_lean",
    "apply_logit_bias",
    "apply_mask",
    "apply_min_p",
    "apply_penalties",
    "apply_temperature",
    "apply_top_k",
    "apply_top_p",
    "make_sampler",
    "top_logprobs",
]
