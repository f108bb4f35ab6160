"""Sampling and verification: the tokens of one sequence behind one forward pass.

Without a draft, that is one token. With a draft, a token is sampled at every position of it, each
from the target distribution given the draft so far. A proposed token is accepted if the same token
is sampled, and the first other token ends the verification. This is the rule of Leviathan et al.
(2023, "Fast Inference from Transformers via Speculative Decoding") where a proposal is a function
of the past: q is 1 for the proposed token, so it is accepted with probability p, and the residual
distribution is p without it. For a proposal that was drawn from a distribution q,
:meth:`samplers.Sampler.verify` samples a token that equals the proposed one exactly if it is
accepted. So the tokens have the distribution that they have without drafts, and for a proposal
without q they are the same tokens.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Items
from contextlib import suppress
from dataclasses import replace

import mlx.core as mx

from samplers import SamplingParameters
from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from .constraint import SlowMaskError
from .fast_forward import MASK_STEPS
from .forward_pass import NextLogits
from .sampling import NextToken, Proposal
from .sequence import Sequence
from .sequence_samplers import RandomState
from .speculation.drafts import Draft
from .tokens import Token


class Verification:
    """The sampled tokens of one sequence, one for each position of its draft.

    The first position is that behind the pending tokens. Positions are sampled in order, so random
    keys are used as without a draft; those of positions that are not reached are given back.

    Args:
        sequence: A sequence with logits.
        draft: The draft that the last pass has processed, if there is one.

    Attributes:
        sequence: The sequence.
        draft: Its draft, if it has one.
        accepted: Number of proposed tokens that are accepted.
        logits: Logits of the first position.

    Raises:
        SlowMaskError: The mask of the first position takes too long.
    """

    def __init__(self, sequence: Sequence, draft: Draft | None = None) -> None:
        self.sequence = sequence
        self.draft = draft
        self.accepted = 0
        # A pass that is dispatched before the tokens are read replaces those of the sequence.
        self.logits = sequence.next_logits
        # The random states before the positions, and behind the last one.
        self._random_states: list[RandomState] = []
        started = time.perf_counter()
        self._tokens = [sequence.next_token()]
        sequence.timings.add("mask", started, time.perf_counter())

    @property
    def first(self) -> NextToken:
        """The token of the first position."""
        return self._tokens[0]

    @property
    def arrays(self) -> list[mx.array]:
        """Arrays to evaluate."""
        return [array for token in self._tokens for array in token.arrays]

    def sample(self) -> None:
        """Sample all positions.

        Raises:
            Exception: Sampling fails at any position.
        """
        draft, started = self.draft, time.perf_counter()
        if draft is None:
            self.first.sample(self.logits)
        else:
            proposals = draft.proposals
            self._random_states.append(self.sequence.random_state)
            self._sample(self.first, self.logits, proposals[0])
            # All later masks together have the budget of one. Positions with a slow mask, and those
            # behind them, are left out: they are sampled once the sequence has reached them.
            with suppress(GrammarBudgetError, SlowMaskError), step_limit(MASK_STEPS):
                for step, logits, proposed in zip(
                    draft.steps, draft.logits, proposals[1:], strict=False
                ):
                    token = step.state.next_token()
                    self._sample(token, logits, proposed)
                    self._tokens.append(token)
        self.sequence.timings.add("sample", started, time.perf_counter())

    def _sample(self, token: NextToken, logits: NextLogits, proposed: Proposal | None) -> None:
        """Sample a position of a draft."""
        token.sample(logits, proposed)
        self._random_states.append(self.sequence.random_state)

    def read(self) -> None:
        """Wait for the tokens."""
        mx.eval([token.token for token in self._tokens])

    def check(self) -> bool:
        """Whether the sequence accepts the token of the first position.

        Raises:
            InvalidOptionError: A sampler of the caller has returned an invalid token.
        """
        self.first.check(self.logits.width)
        return self.sequence.constraint.accepts(self.first.token_id)

    def sample_again(self) -> None:
        """Sample the first position again, from the tokens that the sequence accepts.

        The mask of these may have one that the sequence refuses, where the search for its
        completion gives up earlier than that for the mask. Then the completion plan has the token.
        """
        sequence, logits = self.sequence, self.logits
        sequence.constraint.refuse(self.first.token_id)
        if self.draft is not None:
            sequence.random_state = self._random_states[1]
        token = sequence.next_token(exact=True)
        token.sample(logits)
        token.check(logits.width)
        if not sequence.constraint.accepts(token.token_id):
            sequence.constraint.follow_plan()
            token = sequence.next_token()
            token.sample(logits)
        self._tokens = [token]
        if self.draft is not None:
            self._random_states[1:] = [sequence.random_state]

    def advance(self) -> list[Token]:
        """Advance the sequence by the accepted tokens, the one behind them, and forced tokens.

        Raises:
            GrammarBudgetError: The state after a token exceeds the step budget.
        """
        sequence = self.sequence
        tokens = [sequence.advance(self.first)]
        tokens += sequence.advance_forced()
        if self.draft is not None:
            self._advance_over(self.draft, tokens)
        return tokens

    def _advance_over(self, draft: Draft, tokens: list[Token]) -> None:
        """Advance over the accepted tokens of a draft. ``tokens`` begins with the first one."""
        sequence = self.sequence
        proposed = 0
        while self._is_accepted(draft):
            self.accepted += 1
            tokens[proposed] = replace(tokens[proposed], is_drafted=True)
            proposed = len(tokens)
            if sequence.finished or self.accepted == len(self._tokens):
                break
            number = self.accepted
            sequence.constraint.begin_token()
            if not sequence.constraint.accepts(self._tokens[number].token_id):
                # It is sampled once the sequence has reached it, and refused there.
                del self._tokens[number:], self._random_states[number + 1 :]
                break
            tokens.append(sequence.advance(self._tokens[number]))
            tokens += sequence.advance_forced()
        used = min(self.accepted + 1, len(self._random_states) - 1)
        sequence.random_state = self._random_states[used]

    def _is_accepted(self, draft: Draft) -> bool:
        """Whether the token of the current position is the proposed one, and all before it."""
        number = self.accepted
        if number == len(draft.steps):
            return False
        if self._tokens[number].token_id != draft.steps[number].token_id:
            return False
        # The forced tokens behind it have to be those of the draft, too, but for an end token.
        pending = self.sequence.pending
        length = draft.positions[number] + 1
        is_whole = len(pending) == length or self.sequence.finished
        return is_whole and pending[:length] == draft.tokens[:length]

    @property
    def judged(self) -> int:
        """Number of proposed tokens that are verified. Slow masks end a verification early."""
        return 0 if self.draft is None else min(len(self._tokens), len(self.draft.steps))


def sample_together(verifications: Items[Verification]) -> list[Verification]:
    """Sample first positions by operations on several rows at once; return the others."""
    rows: dict[SamplingParameters | None, list[Verification]] = {}
    for verification in verifications:
        parameters = None if verification.draft else verification.first.row_parameters
        rows.setdefault(parameters, []).append(verification)
    others = rows.pop(None, [])
    for group in rows.values():
        if len(group) == 1:
            others += group
            continue
        started = time.perf_counter()
        logits = NextLogits.stacked([verification.logits for verification in group])
        NextToken.sample_together([verification.first for verification in group], logits)
        for verification in group:
            verification.sequence.timings.add("sample", started, time.perf_counter())
    return others
