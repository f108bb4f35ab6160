"""The filters of a sampler: tokens that are excluded by their probability."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from samplers.parameters import SamplingParameters
from samplers.transforms import apply_min_p, apply_top_k, apply_top_p, apply_xtc


class Filters:
    """Applies the filters of a request in mlx-lm's order: top-p → min-p → XTC → top-k.

    Args:
        parameters: The sampling parameters.
        xtc_special_tokens: Ids of tokens that XTC never excludes.
    """

    def __init__(self, parameters: SamplingParameters, xtc_special_tokens: Sequence[int]) -> None:
        self._parameters = parameters
        self._xtc_special_tokens = tuple(xtc_special_tokens)

    def apply(
        self, logits: mx.array, ids: mx.array | None = None, excludes: mx.array | None = None
    ) -> mx.array:
        """Return log-probabilities, with those of excluded tokens at ``-inf``.

        Args:
            logits: Logits of the tokens ``ids``, or of all; shape (n,) or (1, n).
            ids: Token ids, shape (n,).
            excludes: Whether XTC excludes tokens, bool, shape (); ``None``: it does not.

        Returns:
            The shape and type of ``logits``. Normalised before the filters.
        """
        parameters = self._parameters
        logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        logprobs = apply_top_p(logprobs, parameters.top_p)
        logprobs = apply_min_p(logprobs, parameters.min_p, parameters.min_tokens_to_keep)
        if excludes is not None:
            protected = self._protected(mx.arange(logits.shape[-1]) if ids is None else ids)
            rest = apply_xtc(logprobs, parameters.xtc_threshold, protected)
            logprobs = mx.where(excludes, rest, logprobs)
        return apply_top_k(logprobs, parameters.top_k)

    def _protected(self, ids: mx.array) -> mx.array | None:
        """Return which tokens XTC never excludes, bool, shape (n,); ``None``: none of them."""
        if not self._xtc_special_tokens:
            return None
        special = mx.array(self._xtc_special_tokens, ids.dtype)
        return (ids[:, None] == special).any(axis=-1)
