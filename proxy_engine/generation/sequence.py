"""A sequence: one text of the batch, with its constraint and its samplers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from state_machines.budgets import step_budget
from state_machines.errors import GrammarBudgetError, TokenRejectedError

from ..results.parts import ScoredChoice
from .batch_rows import CachedText
from .constraint import ADVANCE_STEPS, Constraint
from .device_masks import DeviceMasks
from .fast_forward import FastForward
from .forward_pass import NextLogits
from .sampling import NextToken
from .sequence_samplers import RandomState, SequenceSamplers, TokenSamplers
from .timings import Timings
from .tokens import Token


class DraftCounts(Protocol):
    """The drafted tokens of a sequence; see :class:`Drafting`.

    Attributes:
        drafted: Number of verified draft tokens, by source.
        accepted: Number of accepted draft tokens, by source.
    """

    drafted: Counter[str]
    accepted: Counter[str]

    @property
    def has_model(self) -> bool:
        """Whether a draft model or head may draft."""

    def may_use_model(self, sequence: GeneratedSequence) -> bool:
        """Whether the draft model or head would draft now, by its acceptance rate and cost."""

    def drop_model(self) -> None:
        """Draft without the draft model or head from now on."""


class GeneratedSequence(CachedText):
    """One sequence while it is generated.

    Args:
        prompt_ids: The prompt.
        constraint: Its grammar and limits.
        samplers: Choose its tokens.
        masks: Masks on the device, shared by the sequences of a model.
        choices: Tokenizes the options of finite choices, which are drawn from their exact
            distribution; ``None``: they are sampled token by token.
        drafting: Makes the sequence's drafts; ``None``: it takes one token per pass.
        timings: Records times.

    Attributes:
        tokens: Prompt and generated tokens.
        prompt_tokens: Length of the prompt.
        logits: Logits of the next token, once all tokens are processed.
        drawn: The next token, if it was drawn before the tokens in front of it were read.
        finished: Whether the last token has been generated.
        scored_choices: The finite choices that were drawn so far.
        inexact_choice_tokens: Tokens of finite choices that could not be scored.
        choices: Tokenizes the options of finite choices, if they are drawn exactly.
        unscorable_at: The number of tokens at which a choice could not be scored.
        forward_passes: Passes after the prompt in which the sequence took part.
        rope_delta: Position of the next token minus its index, see ``PromptInputs``.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        constraint: Constraint,
        samplers: TokenSamplers,
        *,
        masks: DeviceMasks,
        choices: FastForward | None = None,
        drafting: DraftCounts | None = None,
        timings: Timings | None = None,
    ) -> None:
        super().__init__(list(prompt_ids))
        self.prompt_tokens = len(self.tokens)
        self.logits: NextLogits | None = None
        self.drawn: NextToken | None = None
        self.finished = False
        self.constraint = constraint
        self.samplers = samplers
        self.masks = masks
        self.drafting = drafting
        self.timings = timings or Timings()
        self.scored_choices: list[ScoredChoice] = []
        self.inexact_choice_tokens = 0
        self.forward_passes = 0
        self.rope_delta = 0
        self.choices = choices
        self.unscorable_at = -1

    # The state of the text.

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def is_at_limit(self) -> bool:
        """Whether the next token is certainly the last one."""
        constraint = self.constraint
        return constraint.generated + 1 >= constraint.options.max_tokens

    @property
    def is_ready(self) -> bool:
        """Whether the next token can be sampled: its logits are there."""
        is_processed = self.processed == len(self.tokens) and not self.finished
        return is_processed and self.logits is not None

    @property
    def is_free(self) -> bool:
        """Whether the next token can be sampled before the tokens in front of it are read.

        Its logits and its sampler decide it alone: there is no grammar.
        """
        return not self.constraint.has_grammar

    # Sampling.

    def next_token(
        self, *, exact: bool = False, constraint: Constraint | None = None, unread: int = 0
    ) -> NextToken:
        """Return the next token, whose mask is computed, to be sampled.

        Args:
            exact: Allow only tokens that the constraint accepts.
            unread: Tokens in front of it that are not appended yet, if the sequence is free.
            constraint: A copy of the constraint, for a token that is drawn for a draft: the mask
                will be computed again for verification. ``None``: the sequence's own.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        constraint = constraint or self.constraint
        logits = self.logits or self.next_logits
        allowed = constraint.mask(logits.width, exact=exact, unread=unread)
        options = constraint.options
        return NextToken(
            self.samplers.sampler(constraint),
            None if allowed is None else self.masks.on_device(allowed),
            self.tokens,
            self.prompt_tokens,
            top=0 if options.logprobs is None and options.confidence else options.logprobs,
            vectors=options.logprob_vectors,
        )

    @property
    def next_logits(self) -> NextLogits:
        """The logits of the next token."""
        if self.logits is None:
            raise AssertionError("a sequence without pending tokens has logits")
        return self.logits

    # Tokens.

    def advance(self, sampled: NextToken) -> Token:
        """Append a sampled token.

        Raises:
            GrammarBudgetError: The state after the token exceeds the step budget.
        """
        if not self.constraint.has_grammar:
            token = self._append(sampled.token_id, has_alternatives=True)
        else:
            with step_budget(ADVANCE_STEPS):
                token = self._append(sampled.token_id, has_alternatives=sampled.has_alternatives)
        if sampled.top is None and not sampled.vectors:
            return token
        logprobs, options = sampled.logprobs(), self.constraint.options
        if options.confidence and logprobs is not None and sampled.has_alternatives:
            token = token._replace(log_probability=logprobs.chosen.after_mask)
        return token._replace(
            logprobs=None if options.logprobs is None else logprobs,
            logprob_vectors=sampled.logprob_vectors(),
        )

    def advance_forced(self) -> list[Token]:
        """Append the tokens that need no sampling: forced text, and a forced end."""
        appended: list[Token] = []
        if self.finished:
            return appended
        for token_id in self.constraint.forced_tokens(self.tokens):
            appended.append(self._append(token_id, has_alternatives=False)._replace(is_forced=True))
            if self.finished:
                break
        return appended

    def _append(self, token_id: int, *, has_alternatives: bool) -> Token:
        part = self.constraint.part
        finish_reason = self.constraint.advance(token_id, has_alternatives=has_alternatives)
        self.tokens.append(token_id)
        self.finished = finish_reason is not None
        return Token(token_id, finish_reason, part=part)

    # Finite choices.

    @property
    def has_choice(self) -> bool:
        """Whether the next tokens write an option of a choice that is to be drawn exactly."""
        return self.choices is not None and self.constraint.has_choice

    @property
    def is_at_choice(self) -> bool:
        """Whether such a choice comes next, and its logits are there."""
        return self.is_ready and self.has_choice

    # Copies.

    @property
    def random_state(self) -> RandomState:
        """The random keys of the samplers, which can be set back to an earlier state."""
        return self._own_samplers.random_state

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        self._own_samplers.random_state = state

    def after_proposed(self, token_id: int) -> tuple[GeneratedSequence, tuple[int, ...]] | None:
        """Return a copy behind a proposed token, and the forced tokens that follow it.

        The copy shares the samplers, and so their random keys. It is to be sampled from, and not
        to be continued.

        Returns:
            ``None`` if the token ends the sequence or is refused.
        """
        ends = self.constraint.options.end_token_ids
        if token_id in ends or not self.constraint.is_usable(token_id, self.next_logits.width):
            return None
        twin = self._copy(self.constraint.draft())
        # The limits of a token are set before its mask is computed.
        twin.constraint.begin_token()
        if not twin.constraint.accepts(token_id):
            return None
        try:
            with step_budget(ADVANCE_STEPS):
                twin._append(token_id, has_alternatives=True)
            appended = twin.advance_forced()
        except (GrammarBudgetError, TokenRejectedError):
            return None
        return twin, tuple(token.token_id for token in appended if token.finish_reason != "stop")

    def _copy(self, constraint: Constraint) -> GeneratedSequence:
        twin = GeneratedSequence.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.constraint = constraint
        twin.tokens = list(self.tokens)
        return twin

    @property
    def _own_samplers(self) -> SequenceSamplers:
        if not isinstance(self.samplers, SequenceSamplers):
            raise AssertionError("a sequence that is drafted has own samplers")
        return self.samplers
