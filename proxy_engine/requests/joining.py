"""Which prompts that wait are read in one pass."""

from __future__ import annotations

from collections.abc import Sequence

from ..generation import (
    Prefill,
    can_join_prefill,
    is_joint_prefill_worthwhile,
    joint_prefill_tokens,
    prefill_step_size,
)
from ..prompt_cache import common_prefix, token_array
from .request import Request

__all__ = ["may_join", "step_size_of"]

_MOST_SHARED = 16
"""Tokens that two prompts which are read together may both begin with, and that are not cached."""


def step_size_of(request: Request) -> int:
    """Return how many tokens of a request's prompt are read a pass."""
    return request.options.prefill_step_size or prefill_step_size()


def may_join(request: Request, known: int, begun: Sequence[Prefill], *, others_wait: bool) -> bool:
    """Whether a prompt should be read in one pass with prompts that have begun.

    Not where it begins with text that one of them is about to read: once that is read, it is
    cached. ``known`` tokens of the prompt are cached already. ``others_wait``: whether other rows
    wait for the pass.
    """
    step_size = step_size_of(request)
    if not all(can_join_prefill(one) and one.step_size == step_size for one in begun):
        return False
    lengths = [len(request.prompt_ids) - known, *(one.left for one in begun)]
    if not is_joint_prefill_worthwhile(
        lengths, joint_prefill_tokens(step_size, others_wait=others_wait)
    ):
        return False
    ids = token_array(request.prompt_ids)
    shared = max(common_prefix(ids, token_array(one.row.tokens)) for one in begun)
    return shared - known <= _MOST_SHARED
