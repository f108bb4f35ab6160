"""The filters of a sampler: tokens that are excluded by their probability."""

from __future__ import annotations

import mlx.core as mx

from samplers.parameters import SamplingParameters
from samplers.transforms import apply_min_p, apply_top_k, apply_top_p, apply_xtc


def apply_filters(
    logits: mx.array,
    parameters: SamplingParameters,
    excludes: mx.array | None = None,
    is_protected: mx.array | None = None,
) -> mx.array:
    """Apply the filters of a request in mlx-lm's order: top-p → min-p → XTC → top-k.

    Args:
        logits: Shape (..., n), float32. They need not be normalised.
        parameters: The sampling parameters.
        excludes: Whether XTC excludes tokens, bool, shape (); ``None``: it does not.
        is_protected: The tokens that XTC never excludes, bool, shape (n,).

    Returns:
        The logits, with those of excluded tokens at ``-inf``.
    """
    logits = apply_top_p(logits, parameters.top_p)
    logits = apply_min_p(logits, parameters.min_p, parameters.min_tokens_to_keep)
    if excludes is not None:
        rest = apply_xtc(logits, parameters.xtc_threshold, is_protected)
        logits = mx.where(excludes, rest, logits)
    return apply_top_k(logits, parameters.top_k)
