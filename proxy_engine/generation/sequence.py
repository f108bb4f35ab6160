"""A sequence: one text of the batch, with its status, its constraint and its samplers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import cast

import mlx.core as mx

from samplers import Sampler

from ..errors import InvalidOptionError
from ..results.parts import ScoredChoice
from .batch_rows import CachedText
from .constraint import Constraint
from .fast_forward import FastForward
from .forward_pass import NextLogits
from .sampling import (
    DeviceMask,
    DeviceMasks,
    LazyLogprobs,
    NextToken,
    Proposal,
    ReportedLogprobs,
    TextEnd,
    Token,
    masked_logits,
)
from .sequence_samplers import CustomSampler, RandomState, SequenceSamplers
from .speculation.drafting import Drafting
from .speculation.drafts import Draft
from .timings import Timings


class Status(Enum):
    """Where a sequence is in its life.

    Attributes:
        WAITING: It has not begun, or it has left the batch until other threads have computed a
            slow mask.
        PREFILL: Its prompt is being processed.
        RUNNING: It is in the batch.
        DONE: The last token has been generated, or it has failed.
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    RUNNING = "running"
    DONE = "done"


class GeneratedSequence(CachedText):
    """One sequence while it is generated.

    Args:
        prompt_ids: The prompt.
        constraint: Its grammar and limits.
        samplers: Choose its tokens.
        masks: Masks on the device, shared by the sequences of a model.
        choices: Tokenizes the options of finite choices, which are drawn from their exact
            distribution; ``None``: they are sampled token by token.
        reports: Which log-probabilities are reported; ``None``: none.
        drafting: Makes the sequence's drafts; ``None``: it takes one token per pass.
        timings: Records times.

    Attributes:
        tokens: Prompt and generated tokens.
        prompt_tokens: Length of the prompt.
        output: The generated tokens with what is known about them.
        status: Where it is in its life.
        error: It has failed with this error.
        logits: Logits of the next token, once all tokens are processed.
        sampled: The tokens that are sampled behind the last pass and not read: the next one, and
            those behind the tokens of a draft.
        is_free: There is no grammar. The next token can be sampled before the tokens in front of it
            are read: its logits and its sampler decide it alone.
        drawn_ahead: The next token, if it was drawn before the tokens in front of it were read.
        draft: The draft whose pass is dispatched and not verified; ``None``: there is none.
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
        samplers: SequenceSamplers,
        *,
        masks: DeviceMasks,
        choices: FastForward | None = None,
        reports: ReportedLogprobs | None = None,
        drafting: Drafting | None = None,
        timings: Timings | None = None,
    ) -> None:
        super().__init__(list(prompt_ids))
        self.prompt_tokens = len(self.tokens)
        self.output: list[Token] = []
        self.status = Status.WAITING
        self.error: Exception | None = None
        self.logits: NextLogits | None = None
        self.sampled: list[NextToken] = []
        self.drawn_ahead: NextToken | None = None
        self.draft: Draft | None = None
        self.constraint = constraint
        self.is_free = not constraint.has_grammar
        self.samplers = samplers
        self.masks = masks
        self.reports = reports
        self.drafting = drafting
        self.timings = timings or Timings()
        self.scored_choices: list[ScoredChoice] = []
        self.inexact_choice_tokens = 0
        self.forward_passes = 0
        self.rope_delta = 0
        self.choices = choices
        self.unscorable_at = -1
        # How the next token is sampled; set by :meth:`prepare`.
        self.mask: DeviceMask | None
        self.sampler: Sampler | CustomSampler

    # The state of the text.

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def finished(self) -> bool:
        """Whether it needs no further pass."""
        return self.status is Status.DONE

    @property
    def is_at_limit(self) -> bool:
        """Whether the next token is certainly the last one."""
        constraint = self.constraint
        return constraint.generated + 1 >= constraint.max_tokens

    @property
    def is_ready(self) -> bool:
        """Whether the next token can be sampled: its logits are there."""
        return (
            self.processed == len(self.tokens)
            and self.logits is not None
            and self.status is Status.RUNNING
        )

    def fail(self, error: Exception) -> None:
        """End with an error. Other sequences are not affected."""
        self.error, self.status = error, Status.DONE
        # Its cache is not used any more.
        self.tail, self.padding = [], 0

    # Sampling.

    @property
    def next_logits(self) -> NextLogits:
        """The logits of the next token."""
        if self.logits is None:
            raise AssertionError("a sequence without pending tokens has logits")
        return self.logits

    def prepare(self, constraint: Constraint | None = None, *, unread: int = 0) -> None:
        """Compute the mask of the next token, and choose its sampler.

        Args:
            constraint: The constraint behind tokens of a draft; ``None``: the sequence's own.
            unread: Tokens in front of it that are not appended yet, if the sequence is free.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        constraint = constraint or self.constraint
        allowed = constraint.mask(unread=unread)
        self.mask = None if allowed is None else self.masks.on_device(allowed)
        self.sampler = self.samplers.sampler(constraint)

    @property
    def row_parameters(self) -> object:
        """Sequences with equal values can be sampled by :func:`sample_together`.

        ``None``: it cannot. Draws from the few tokens of a small mask take other random numbers.
        """
        sampler = self.sampler
        if self.reports is not None or not isinstance(sampler, Sampler):
            return None
        if self.reads_few_logits and sampler.parameters.temperature > 0:
            return None
        return sampler.row_parameters

    @property
    def reads_few_logits(self) -> bool:
        """Whether only the logits of the few allowed tokens have to be computed."""
        return self.mask is not None and self.mask.ids is not None

    def sample(
        self,
        logits: NextLogits,
        proposed: Proposal | None = None,
        tokens: Sequence[int] | None = None,
    ) -> NextToken:
        """Sample the next token on the device, without waiting for it.

        Args:
            logits: Logits of the token.
            proposed: A proposed token. The sampled token equals it exactly if it is accepted.
            tokens: The tokens before it, those of a draft included; ``None``: the sequence's.
        """
        mask, reports = self.mask, self.reports
        # Before the token is sampled, so that it takes its logits from these.
        every = None if reports is None else logits.all()
        has_alternatives = mask is None or mask.count > 1
        token = NextToken(
            logits,
            self._sampled(logits, proposed, tokens or self.tokens),
            has_alternatives=has_alternatives,
        )
        if every is not None and reports is not None:
            token.logprobs = LazyLogprobs.of(token.drawn, every, mask, reports)
        return token

    def _sampled(
        self, logits: NextLogits, proposed: Proposal | None, tokens: Sequence[int]
    ) -> mx.array:
        """Return a sampled token, shape (1,)."""
        sampler, mask, count = self.sampler, self.mask, self.prompt_tokens
        log_q = None if proposed is None else proposed.log_q
        few = None if mask is None or log_q is not None else mask.ids
        if few is not None and isinstance(sampler, Sampler):
            # Only the logits of the allowed tokens are computed.
            token = sampler.sample_among(logits.of(few), tokens, few, prompt_tokens=count)
            return token.reshape(1)
        masked, among = masked_logits(logits, mask)
        if proposed is None or log_q is None:
            return sampler(masked, tokens, among, prompt_tokens=count).reshape(1)
        return self._plain_sampler.verify(
            masked, tokens, proposed.token_id, log_q, among, prompt_tokens=count
        ).reshape(1)

    def draw_draft(
        self, logits: NextLogits, key: mx.array, tokens: Sequence[int]
    ) -> tuple[mx.array, mx.array | None]:
        """Draw the next token of a draft, from the logits of a draft model.

        With a seed, the token is drawn with the random key that :meth:`sample` would use, and
        takes it.

        Args:
            logits: Logits of the token.
            key: The random key of a token without a seed.
            tokens: The tokens before it.

        Returns:
            The lazy token, shape (1,), and ``log_q`` of :class:`Proposal`.
        """
        sampler = self._plain_sampler
        parameters = sampler.parameters
        if parameters.temperature == 0 or parameters.seed is not None:
            return self._sampled(logits, None, tokens), None
        masked, among = masked_logits(logits, self.mask)
        log_q = sampler.log_distribution(masked, tokens, among, prompt_tokens=self.prompt_tokens)
        return mx.random.categorical(log_q, key=key).reshape(1), log_q

    @property
    def _plain_sampler(self) -> Sampler:
        if not isinstance(self.sampler, Sampler):
            raise AssertionError("the sampler of a sequence with drafts is a Sampler")
        return self.sampler

    def check(self, token: NextToken) -> None:
        """Check the id that a sampler of the caller returned. Waits for the device.

        Raises:
            InvalidOptionError: It is no token, or the mask excludes it.
        """
        sampler = self.sampler
        if not isinstance(sampler, CustomSampler) or sampler.returned is None:
            return
        returned, width = cast(int, sampler.returned.item()), token.logits.width
        if returned == token.token_id:
            return
        reason = "the mask excludes"
        if not 0 <= returned < width:
            reason = f"is not in the vocabulary of {width} tokens"
        raise InvalidOptionError(
            f"the sampler returned token {returned}, which {reason}",
            option="sampler",
            hint="Select a token whose log-probability is above -inf.",
        )

    # Tokens.

    def advance(self, sampled: NextToken) -> Token:
        """Take a sampled token.

        Raises:
            GrammarBudgetError: The state after the token exceeds the step budget.
        """
        part, has_alternatives = self.constraint.part, sampled.has_alternatives
        end = self._take(sampled.token_id, has_alternatives=has_alternatives)
        lazy, reports = sampled.logprobs, self.reports
        if lazy is None or reports is None:
            return Token(sampled.token_id, end, part=part)
        logprobs, own = lazy.read(), None
        if reports.confidence and logprobs is not None and has_alternatives:
            own = logprobs.chosen.after_mask
        return Token(
            sampled.token_id,
            end,
            part=part,
            logprobs=None if reports.logprobs is None else logprobs,
            logprob_vectors=lazy.read_vectors(),
            log_probability=own,
        )

    def advance_forced(self) -> list[Token]:
        """Take the tokens that need no sampling: forced text, and a forced end."""
        taken: list[Token] = []
        if self.status is Status.DONE:
            return taken
        for token_id in self.constraint.forced_tokens(self.tokens):
            part = self.constraint.part
            end = self._take(token_id, has_alternatives=False)
            taken.append(Token(token_id, end, is_forced=True, part=part))
            if end is not None:
                break
        return taken

    def _take(self, token_id: int, *, has_alternatives: bool) -> TextEnd | None:
        end = self.constraint.advance(token_id, has_alternatives=has_alternatives)
        self.tokens.append(token_id)
        if end is not None:
            self.status = Status.DONE
        return end

    # Finite choices.

    @property
    def has_choice(self) -> bool:
        """Whether the next tokens write an option of a choice that is to be drawn exactly."""
        return self.choices is not None and self.constraint.has_choice

    @property
    def is_at_choice(self) -> bool:
        """Whether such a choice comes next, and its logits are there."""
        return self.is_ready and self.has_choice

    # Drafts.

    def begin_draft(self) -> Draft:
        """Return an empty draft behind the tokens."""
        return Draft(
            self.tokens,
            self.constraint,
            self.next_logits.width,
            ends_before_choice=self.choices is not None,
        )

    @property
    def random_state(self) -> RandomState:
        """The random keys of the samplers, which can be set back to an earlier state."""
        return self.samplers.random_state

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        self.samplers.random_state = state
