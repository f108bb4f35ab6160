"""Verification of drafted tokens (Leviathan et al. 2023, "Fast inference from transformers via
speculative decoding", theorem 1).

A token x that was drawn from a distribution q is accepted with probability min(1, p(x) / q(x)).
Otherwise a token is drawn from the residual distribution, max(p - q, 0) normalised. The result has
the distribution p, and equals the drafted token with probability 1 - TV(p, q), which is the largest
possible one.

Distributions are arrays of log-probabilities in float32, of equal shapes (n,); ``-inf`` marks a
token with probability 0. Results are not evaluated.
"""

from __future__ import annotations

import mlx.core as mx


def residual_logits(log_p: mx.array, log_q: mx.array) -> mx.array:
    """Return logits of the distribution that replaces a rejected token.

    If p does not exceed q anywhere, which rounding can cause if both are equal, or if either has
    NaNs, it is p.

    Args:
        log_p: The target's distribution.
        log_q: The distribution that the rejected token was drawn from.

    Returns:
        log(max(p - q, 0)), not normalised; float32, shape (n,).
    """
    excess = mx.maximum(mx.exp(log_p) - mx.exp(log_q), 0.0)
    return mx.where(mx.sum(excess) > 0, mx.log(excess), log_p)


def verify_draft(log_p: mx.array, log_q: mx.array, is_drafted: mx.array, key: mx.array) -> mx.array:
    """Accept a drafted token, or draw another one from the residual distribution.

    Args:
        log_p: The target's distribution.
        log_q: The distribution that the token was drawn from.
        is_drafted: Whether a position is that of the drafted token; bool, shape (n,). True at most
            once; if nowhere, p of the token is 0, and it is rejected.
        key: A random key.

    Returns:
        The position of the resulting token, uint32, shape (). A rejected token is not returned,
        unless p has to replace the residual distribution.
    """
    uniform_key, residual_key = mx.random.split(key)
    log_uniform = mx.log(mx.random.uniform(key=uniform_key))
    # Comparisons with NaN are false. Where this one is, log_p <= log_q, so the residual is 0.
    is_accepted = mx.any(is_drafted & (log_uniform + log_q < log_p))
    other = mx.random.categorical(residual_logits(log_p, log_q), key=residual_key)
    return mx.where(is_accepted, mx.argmax(is_drafted), other)
