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
from typing import cast

import mlx.core as mx

from samplers import SamplingParameters
from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from .constraint import SlowMaskError
from .fast_forward import MASK_STEPS
from .forward_pass import NextLogits
from .sequence import Sequence
from .sequence_samplers import RandomState
from .speculation.drafts import Draft
from .token_distribution import TokenDistribution, sample_distributions
from .tokens import Proposal, SampledToken, Token


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
        distribution: The distribution of its token.

    Raises:
        SlowMaskError: The mask of the first position takes too long.
    """

    def __init__(self, sequence: Sequence, draft: Draft | None = None) -> None:
        self.sequence = sequence
        self.draft = draft
        self.accepted = 0
        if sequence.logits is None:
            raise AssertionError("a sequence without pending tokens has logits")
        # A pass that is dispatched before the tokens are read replaces those of the sequence.
        self.logits = sequence.logits
        self._samples: list[SampledToken] = []
        self._random_states: list[RandomState] = []
        self._ids: list[int] = []
        started = time.perf_counter()
        self.distribution = sequence.distribution()
        sequence.timings.add("mask", started, time.perf_counter())

    def take(self, token: mx.array) -> None:
        """Take the token of the first position, shape (1,), sampled from ``distribution``."""
        self._samples.append(SampledToken(token))

    def sample(self) -> None:
        """Sample all positions.

        Raises:
            Exception: Sampling fails at any position.
        """
        draft, started = self.draft, time.perf_counter()
        if draft is None:
            self._samples.append(self.sequence.sample(self.logits, self.distribution))
        else:
            self._random_states.append(self.sequence.random_state)
            proposals = draft.proposals
            self._sample(self.sequence, self.logits, self.distribution, proposals[0])
            # All later masks together have the budget of one. Positions with a slow mask, and those
            # behind them, are left out: they are sampled once the sequence has reached them.
            with suppress(GrammarBudgetError, SlowMaskError), step_limit(MASK_STEPS):
                for step, logits, proposed in zip(
                    draft.steps, draft.logits, proposals[1:], strict=False
                ):
                    self._sample(step.state, logits, step.state.distribution(), proposed)
        self.sequence.timings.add("sample", started, time.perf_counter())

    def _sample(
        self,
        state: Sequence,
        logits: NextLogits,
        distribution: TokenDistribution,
        proposed: Proposal | None,
    ) -> None:
        """Sample a position of a draft.

        Args:
            state: The sequence, or its copy behind a part of the draft.
            logits: Logits of the position.
            distribution: The distribution of the state.
            proposed: The proposed token.
        """
        self._samples.append(state.sample(logits, distribution, proposed))
        self._random_states.append(self.sequence.random_state)

    @property
    def is_sampled(self) -> bool:
        """Whether the first position is sampled."""
        return bool(self._samples)

    @property
    def arrays(self) -> list[mx.array]:
        """Arrays to evaluate."""
        return [array for sampled in self._samples for array in sampled.arrays]

    @property
    def first(self) -> SampledToken:
        """The token of the first position."""
        return self._samples[0]

    @property
    def first_id(self) -> int:
        """The id of the token of the first position, once it is read."""
        return self._ids[0]

    def read(self) -> None:
        """Wait for the tokens."""
        self._ids = [cast(int, sampled.token.item()) for sampled in self._samples]

    def check(self) -> bool:
        """Whether the sequence accepts the token of the first position.

        Raises:
            InvalidOptionError: A sampler of the caller has returned an invalid token.
        """
        self.first.check(self.logits.width)
        return self.sequence.constraint.accepts(self._ids[0])

    def sample_again(self) -> None:
        """Sample the first position again, from the tokens that the sequence accepts.

        The mask of these may have one that the sequence refuses, where the search for its
        completion gives up earlier than that for the mask. Then the completion plan has the token.
        """
        sequence, logits = self.sequence, self.logits
        sequence.constraint.refuse(self._ids[0])
        if self.draft is not None:
            sequence.random_state = self._random_states[1]
        sampled = sequence.sample(logits, sequence.distribution(exact=True))
        sampled.check(logits.width)
        if not sequence.constraint.accepts(cast(int, sampled.token.item())):
            sequence.constraint.follow_plan()
            sampled = sequence.sample(logits, sequence.distribution())
        self._samples = [sampled]
        self._ids = [cast(int, sampled.token.item())]
        if self.draft is not None:
            self._random_states[1:] = [sequence.random_state]

    def advance(self) -> list[Token]:
        """Advance the sequence by the accepted tokens, the one behind them, and forced tokens.

        Raises:
            GrammarBudgetError: The state after a token exceeds the step budget.
        """
        sequence = self.sequence
        tokens = [sequence.advance(self._samples[0], self._ids[0])]
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
            if sequence.finished or self.accepted == len(self._ids):
                break
            number = self.accepted
            sequence.constraint.begin_token()
            if not sequence.constraint.accepts(self._ids[number]):
                # It is sampled once the sequence has reached it, and refused there.
                del self._samples[number:], self._ids[number:], self._random_states[number + 1 :]
                break
            tokens.append(sequence.advance(self._samples[number], self._ids[number]))
            tokens += sequence.advance_forced()
        used = min(self.accepted + 1, len(self._random_states) - 1)
        sequence.random_state = self._random_states[used]

    def _is_accepted(self, draft: Draft) -> bool:
        """Whether the token of the current position is the proposed one, and all before it."""
        number = self.accepted
        if number == len(draft.steps) or self._ids[number] != draft.steps[number].token_id:
            return False
        # The forced tokens behind it have to be those of the draft, too, but for an end token.
        pending = self.sequence.pending
        length = draft.positions[number] + 1
        is_whole = len(pending) == length or self.sequence.finished
        return is_whole and pending[:length] == draft.tokens[:length]

    @property
    def judged(self) -> int:
        """Number of proposed tokens that are verified. Slow masks end a verification early."""
        return 0 if self.draft is None else min(len(self._ids), len(self.draft.steps))

    def settle(self) -> None:
        """End the draft, once the tokens that it shares with the text are committed."""
        sequence, draft = self.sequence, self.draft
        if draft is None:
            return
        if self.accepted and not (sequence.pending or sequence.finished):
            # The next token was not sampled, because a choice is to be scored first.
            sequence.logits = draft.logits[self.accepted - 1]


def sample_together(verifications: Items[Verification]) -> None:
    """Sample the first positions of plain sequences by operations on all rows at once."""
    rows: dict[SamplingParameters, list[Verification]] = {}
    for verification in verifications:
        parameters = None
        if verification.draft is None and verification.sequence.is_sampled_plainly:
            parameters = verification.distribution.row_parameters
        if parameters is not None:
            rows.setdefault(parameters, []).append(verification)
    for group in rows.values():
        if len(group) > 1:
            started = time.perf_counter()
            logits = NextLogits.stacked([verification.logits for verification in group])
            tokens = sample_distributions(
                [verification.distribution for verification in group], logits
            )
            for row, verification in enumerate(group):
                verification.take(tokens[row : row + 1])
                verification.sequence.timings.add("sample", started, time.perf_counter())
