"""Random texts under a guard, which must be complete when their tokens are used up."""

from __future__ import annotations

from random import Random

import numpy as np

from state_machines.completion import Completion, Guard

__all__ = ["random_walk"]


def random_walk(guard: Guard, random: Random, completion: Completion) -> list[int]:
    """Write a text out of what the guard allows, ending it as late as may be; return its tokens.

    Asserts on the way that nothing is offered that is not accepted, that there is always
    something, and that the plan never takes more tokens than are left.
    """
    matcher, written = guard.matcher, []
    ends = matcher.vocabulary.end_token_ids
    given = guard.left
    while guard.left:
        assert len(guard.plan) == guard.needed <= guard.left == given - len(written)
        allowed = matcher.allowed_tokens()
        mask = guard.mask(allowed, exact=True)
        assert not (mask & ~allowed).any()
        ids = np.flatnonzero(mask).tolist()
        assert ids
        token_id = random.choice([i for i in ids if i not in ends] or ids)
        assert guard.accepts(token_id), (token_id, guard.needed, guard.left)
        if token_id in ends:
            break
        assert completion.length(matcher.state) == len(completion.plan(matcher.state))
        guard.advance(token_id)
        written.append(token_id)
    assert matcher.is_accepting
    return written
