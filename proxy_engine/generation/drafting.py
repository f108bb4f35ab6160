"""The drafters of one sequence, and how often their proposals were accepted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..speculation import Drafter
from .drafts import Draft
from .sequence_state import SequenceState

_log = logging.getLogger(__name__)

_MAX_TOKENS_PER_STEP = 8
"""Tokens of a draft, forced ones included, for each token that may be proposed."""


class Drafting:
    """Makes the drafts of one sequence.

    Args:
        drafters: In the order in which they are asked.
        max_draft_tokens: Maximum number of proposed tokens of a draft.

    Attributes:
        drafted_tokens: Proposed tokens that the model has verified.
        accepted_tokens: Those of them that were accepted.
    """

    def __init__(self, drafters: Sequence[Drafter], max_draft_tokens: int) -> None:
        self.drafted_tokens = 0
        self.accepted_tokens = 0
        self._drafters = list(drafters)
        self._max_draft_tokens = max_draft_tokens

    def expects_draft(self, sequence: SequenceState) -> bool:
        """Whether a draft is likely once the next token is known."""
        for drafter in list(self._drafters):
            try:
                drafter.update(sequence.tokens)
                if drafter.expects_draft(sequence.matcher):
                    return True
            except Exception as error:
                self._drop(drafter, error)
        return False

    def draft(self, sequence: SequenceState) -> Draft | None:
        """Return a draft behind the sequence's pending tokens, if there is one."""
        draft = Draft(sequence)
        limit = _MAX_TOKENS_PER_STEP * self._max_draft_tokens
        for drafter in list(self._drafters):
            try:
                drafter.update(sequence.tokens)
            except Exception as error:
                self._drop(drafter, error)
        while not draft.is_closed and len(draft.tokens) < limit:
            # A drafter goes on behind the proposal of another, and behind forced tokens.
            if not any(self._extend(draft, drafter) for drafter in list(self._drafters)):
                break
        draft.cut(limit)
        return draft if draft.steps else None

    def record(self, draft: Draft, accepted: int) -> None:
        """Take the result of a verification.

        Args:
            draft: The draft.
            accepted: How many of its proposed tokens were accepted.
        """
        self.drafted_tokens += len(draft.steps)
        self.accepted_tokens += accepted

    def _extend(self, draft: Draft, drafter: Drafter) -> bool:
        """Append what a drafter proposes; return whether there is anything."""
        at_most = self._max_draft_tokens - len(draft.steps)
        if at_most <= 0:
            return False
        state = draft.state
        try:
            proposed = list(drafter.propose(state.tokens, state.matcher, at_most))[:at_most]
        except Exception as error:
            self._drop(drafter, error)
            return False
        before = len(draft.steps)
        while proposed and draft.append(proposed[0], drafter.name):
            own = draft.steps[-1].forced
            forced, proposed = proposed[1 : 1 + len(own)], proposed[1 + len(own) :]
            if tuple(forced) != own[: len(forced)]:
                break
        return len(draft.steps) > before

    def _drop(self, drafter: Drafter, error: Exception) -> None:
        _log.warning("the drafter %s is disabled for a request: %r", drafter.name, error)
        self._drafters.remove(drafter)
