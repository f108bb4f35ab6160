"""Random texts under a guard; a text must be complete when its tokens are used up."""

from __future__ import annotations

from random import Random

import numpy as np

from state_machines.completion import Completion, Guard

__all__ = ["random_walk"]


def random_walk(guard: Guard, random: Random, completion: Completion) -> list[int]:
    """Write a random text of allowed tokens that ends as late as possible; return its tokens.

    Asserts in every step that all allowed tokens are accepted, that at least one token is allowed,
    and that the plan fits the remaining tokens.
    """
    matcher, written = guard.matcher, []
    ends = matcher.vocabulary.end_token_ids
    given = guard.left
    while guard.left:
        assert len(guard.plan.tokens) == guard.needed <= guard.left == given - len(written)
        allowed = matcher.allowed_tokens()
        mask = guard.mask(allowed, exact=True)
        assert not (mask & ~allowed).any()
        ids = np.flatnonzero(mask).tolist()
        assert ids
        token_id = random.choice([i for i in ids if i not in ends] or ids)
        assert guard.accepts(token_id), (token_id, guard.needed, guard.left)
        if token_id in ends:
            break
        assert completion.length(matcher.state) == len(completion.plan(matcher.state).tokens)
        guard.advance(token_id)
        written.append(token_id)
    assert matcher.is_accepting
    return written
