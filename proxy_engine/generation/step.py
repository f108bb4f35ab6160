"""One step of one sequence: tokens are sampled behind a forward pass, read and verified.

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
from collections.abc import Callable, Iterable
from contextlib import suppress

from state_machines.budgets import step_limit
from state_machines.errors import GrammarBudgetError

from .constraint import SlowMaskError
from .fast_forward import MASK_STEPS
from .forward_pass import NextLogits
from .sampling import NextToken, Proposal
from .sequence import GeneratedSequence
from .sequence_samplers import RandomState
from .speculation.drafts import Draft
from .timings import Work
from .tokens import Token


class Step:
    """A step of one sequence. Its phases are called in order: begin, sample, advance.

    The first position is that behind the pending tokens. Positions are sampled in order, so random
    keys are used as without a draft; those of positions that are not reached are given back.

    Args:
        sequence: The sequence.
        draft: The draft that the last pass has processed, if there is one.

    Attributes:
        sequence: The sequence.
        draft: Its draft, if it has one.
        tokens: The new tokens: accepted ones, the one behind them, and forced ones.
        sampled: The sampled token of each position.
        is_redrawn: Whether the first position was sampled twice.
        accepted: Number of proposed tokens that are accepted.
        error: The sequence failed with this error. Other sequences are not affected.
        is_slow: The mask exceeds the step budget of the model thread. The sequence has to
            :meth:`~Batch.remove` until :meth:`Constraint.compute_slow` has returned.
        work: The kinds of work done, with their times.
    """

    def __init__(self, sequence: GeneratedSequence, draft: Draft | None = None) -> None:
        self.sequence = sequence
        self.draft = draft
        self.tokens: list[Token] = []
        self.sampled: list[NextToken] = []
        self.is_redrawn = False
        self.accepted = 0
        self.error: Exception | None = None
        self.is_slow = False
        self.work: list[Work] = []
        self._logits: NextLogits | None = None
        # The random states before the positions, and behind the last one.
        self._random_states: list[RandomState] = []

    @staticmethod
    def perform(steps: Iterable[Step], phase: Callable[[Step], None]) -> list[Step]:
        """Perform a phase of several steps. An error fails the sequence of its step alone.

        Returns:
            The steps that go on.
        """
        going = []
        for step in steps:
            try:
                phase(step)
                going.append(step)
            except SlowMaskError:
                step.is_slow = True
            except Exception as error:
                step.error = error
                step.sequence.finished = True
                # Its cache is not used any more.
                step.sequence.tail, step.sequence.padding = [], 0
        return going

    @property
    def logits(self) -> NextLogits:
        """Logits of the first position."""
        if self._logits is None:
            raise AssertionError("a sequence without pending tokens has logits")
        return self._logits

    def begin(self) -> None:
        """Compute the mask of the first position, if its logits are there.

        Raises:
            SlowMaskError: It takes too long.
        """
        sequence = self.sequence
        if sequence.processed < len(sequence.tokens) or sequence.finished:
            return
        # A pass that is dispatched before the tokens are read replaces those of the sequence.
        self._logits = sequence.logits
        if not sequence.constraint.has_grammar:
            # Nothing is computed that would be worth measuring.
            drawn, sequence.drawn = sequence.drawn, None
            self.sampled.append(drawn or sequence.next_token())
            return
        started = time.perf_counter()
        self.sampled.append(sequence.next_token())
        self.work.append(("mask", started, time.perf_counter()))

    def sample(self) -> None:
        """Sample all positions.

        Raises:
            Exception: Sampling fails at any position.
        """
        draft, started = self.draft, time.perf_counter()
        if draft is None:
            self.sampled[0].sample(self.logits)
        else:
            proposals = draft.proposals
            self._random_states.append(self.sequence.random_state)
            self._sample(self.sampled[0], self.logits, proposals[0])
            # All later masks together have the budget of one. Positions with a slow mask, and those
            # behind them, are left out: they are sampled once the sequence has reached them.
            with suppress(GrammarBudgetError, SlowMaskError), step_limit(MASK_STEPS):
                for step, logits, proposed in zip(
                    draft.steps, draft.logits, proposals[1:], strict=False
                ):
                    token = step.state.next_token()
                    self._sample(token, logits, proposed)
                    self.sampled.append(token)
        self.work.append(("sample", started, time.perf_counter()))

    def _sample(self, token: NextToken, logits: NextLogits, proposed: Proposal | None) -> None:
        """Sample a position of a draft."""
        token.sample(logits, proposed)
        self._random_states.append(self.sequence.random_state)

    def _check(self) -> None:
        """Sample the first position again if the sequence does not accept its token.

        The text could not be completed within the limit after it. The second mask may have a token
        that the sequence refuses as well, where the search for its completion gives up earlier than
        that for the mask. Then the completion plan has the token.

        Raises:
            InvalidOptionError: A sampler of the caller has returned an invalid token.
        """
        sequence, token = self.sequence, self.sampled[0]
        constraint = sequence.constraint
        if token.returned is not None:
            token.check(self.logits.width)
        if constraint.accepts(token.token_id):
            return
        self.is_redrawn = True
        constraint.refuse(token.token_id)
        if self.draft is not None:
            sequence.random_state = self._random_states[1]
        token = self._sampled_at_once(exact=True)
        token.check(self.logits.width)
        if not constraint.accepts(token.token_id):
            constraint.follow_plan()
            token = self._sampled_at_once()
        self.sampled = [token]
        if self.draft is not None:
            self._random_states[1:] = [sequence.random_state]

    def _sampled_at_once(self, *, exact: bool = False) -> NextToken:
        token = self.sequence.next_token(exact=exact)
        token.sample(self.logits)
        NextToken.read([token])
        return token

    def advance(self) -> None:
        """Advance the sequence by the accepted tokens, the one behind them, and forced tokens.

        Raises:
            GrammarBudgetError: The state after a token exceeds the step budget.
            InvalidOptionError: A sampler of the caller has returned an invalid token.
            SlowMaskError: The sampled token is not accepted, and the mask of the others takes too
                long.
        """
        sequence = self.sequence
        has_grammar = sequence.constraint.has_grammar
        if has_grammar or self.sampled[0].returned is not None:
            self._check()
        if self.draft is None and not has_grammar:
            self.tokens.append(sequence.advance(self.sampled[0]))
            return
        started = time.perf_counter()
        tokens = [sequence.advance(self.sampled[0])]
        tokens += sequence.advance_forced()
        if self.draft is not None:
            self._advance_over(self.draft, tokens)
        self.tokens += tokens
        self.work.append(("advance", started, time.perf_counter()))

    def _advance_over(self, draft: Draft, tokens: list[Token]) -> None:
        """Advance over the accepted tokens of a draft. ``tokens`` begins with the first one."""
        sequence = self.sequence
        proposed = 0
        while self._is_accepted(draft):
            self.accepted += 1
            tokens[proposed] = tokens[proposed]._replace(is_drafted=True)
            proposed = len(tokens)
            if sequence.finished or self.accepted == len(self.sampled):
                break
            number = self.accepted
            sequence.constraint.begin_token()
            if not sequence.constraint.accepts(self.sampled[number].token_id):
                # It is sampled once the sequence has reached it, and refused there.
                del self.sampled[number:], self._random_states[number + 1 :]
                break
            tokens.append(sequence.advance(self.sampled[number]))
            tokens += sequence.advance_forced()
        used = min(self.accepted + 1, len(self._random_states) - 1)
        sequence.random_state = self._random_states[used]

    def _is_accepted(self, draft: Draft) -> bool:
        """Whether the token of the current position is the proposed one, and all before it."""
        number = self.accepted
        if number == len(draft.steps):
            return False
        if self.sampled[number].token_id != draft.steps[number].token_id:
            return False
        # The forced tokens behind it have to be those of the draft, too, but for an end token.
        pending = self.sequence.pending
        length = draft.positions[number] + 1
        is_whole = len(pending) == length or self.sequence.finished
        return is_whole and pending[:length] == draft.tokens[:length]

    @property
    def judged(self) -> int:
        """Number of proposed tokens that are verified. Slow masks end a verification early."""
        return 0 if self.draft is None else min(len(self.sampled), len(self.draft.steps))


def sample_together(steps: Iterable[Step]) -> list[Step]:
    """Sample first positions by operations on several rows at once; return the other steps."""
    rows: dict[object, list[Step]] = {}
    for step in steps:
        kind = None if step.draft else step.sampled[0].row_parameters
        rows.setdefault(kind, []).append(step)
    others = rows.pop(None, [])
    for group in rows.values():
        if len(group) == 1:
            others += group
            continue
        started = time.perf_counter()
        logits = NextLogits.stacked([step.logits for step in group])
        NextToken.sample_together([step.sampled[0] for step in group], logits)
        ended = time.perf_counter()
        for step in group:
            step.work.append(("sample", started, ended))
    return others
