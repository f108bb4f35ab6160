"""The state of one sequence: its tokens, the mask of the next token, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import cast

import mlx.core as mx

from samplers import Sampler, apply_mask
from state_machines import Matcher, Vocabulary
from state_machines.budgets import step_budget
from state_machines.completion import Guard
from state_machines.errors import GrammarBudgetError, TokenRejectedError
from state_machines.grammar.finite_choices import ChoiceOption, finite_choice
from state_machines.grammar.node import Node
from state_machines.repetition import RepetitionDetector
from state_machines.root import Part, RootMatcher

from ..results.generation import ScoredChoice
from .device_masks import DeviceMasks
from .fast_forward import FastForward, must_end
from .forward_pass import NextLogits
from .next_mask import NextMask
from .open_choices import DrawnOption, OpenChoice
from .sampler_schedule import Deadline, RandomState
from .sequence_options import (
    DraftCounts,
    Schedule,
    SequenceOptions,
    own_schedule,
)
from .timings import Timings
from .token_distribution import TokenDistribution
from .token_weights import KnownWeights, TokenWeights
from .tokens import Cut, Proposal, SampledToken, Token

ADVANCE_STEPS = 20_000
"""Step budget for advancing by one token and planning the completion, about 0.1 s."""


class SequenceState:
    """One sequence while it is generated. It takes logits and yields tokens, and knows no model.

    Args:
        prompt_ids: The prompt.
        options: Limits and end tokens.
        matcher: The grammar's matcher; ``None`` for unconstrained text.
        schedule: Chooses the sampler of each token.
        masks: Masks on the device, shared by the sequences of a model.
        guard: Keeps the answer completable within ``max_tokens``; it advances the matcher.
        fast_forward: Tokenizes forced text; ``None``: every token is sampled.
        choices: Tokenizes the options of finite choices, which are drawn from their exact
            distribution; ``None``: they are sampled token by token.
        drafting: Makes the sequence's drafts.
        deadline: When to stop.
        timings: Records times.

    Attributes:
        tokens: Prompt and generated tokens.
        prompt_tokens: Length of the prompt.
        pending: The last of ``tokens``, which the model has not processed yet.
        logits: Logits of the next token.
        finished: Whether the last token has been generated.
        weights: The importance weights of the generated tokens, if they are recorded.
        group: Identifies the sequences that were forked from the same one.
        masks: Masks on the device.
        scored_choices: The finite choices that were drawn so far.
        inexact_choice_tokens: Tokens of finite choices that could not be scored.
        forced_text: The text at the end of the output whose tokens had no alternative.
        cut: Where a limit first changed the output; ``None``: it has not.
        drafting: Makes the sequence's drafts; ``None``: it takes one token per pass.
        forward_passes: Passes after the prompt in which the sequence took part.
        rope_delta: Position of the next token minus its index, see ``PromptInputs``.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        options: SequenceOptions,
        *,
        matcher: Matcher | None,
        schedule: Schedule,
        masks: DeviceMasks,
        guard: Guard | None = None,
        fast_forward: FastForward | None = None,
        choices: FastForward | None = None,
        drafting: DraftCounts | None = None,
        deadline: Deadline | None = None,
        timings: Timings | None = None,
    ) -> None:
        self.tokens = list(prompt_ids)
        self.prompt_tokens = len(self.tokens)
        self.pending: list[int] = []
        self.logits: NextLogits | None = None
        self.finished = False
        self.timings = timings or Timings()
        self.guard = guard
        self.weights = TokenWeights() if options.weighs else None
        self.group = object()
        self._options = options
        self._matcher = matcher
        self.masks = masks
        self.scored_choices: list[ScoredChoice] = []
        self.inexact_choice_tokens = 0
        self.forced_text = b""
        self.cut: Cut | None = None
        self.drafting = drafting
        self.forward_passes = 0
        self.rope_delta = 0
        self._schedule = schedule
        self._fast_forward = None if options.samples_all else fast_forward
        self._choices = choices
        self._deadline = deadline
        # The number of tokens at which a choice was looked for, and the choice.
        self._open_choice: tuple[int, OpenChoice | None] | None = None
        self._mask = NextMask(options, matcher, guard, masks, forces=self._fast_forward is not None)
        self._repetition: RepetitionDetector | None = None
        if options.stop_repetition and matcher is not None:
            self._repetition = RepetitionDetector(matcher.vocabulary)

    @property
    def matcher(self) -> Matcher | None:
        """The grammar's matcher; ``None`` for unconstrained text."""
        return self._matcher

    @property
    def expects_fast_forward(self) -> bool:
        """Whether forced text is likely to follow the next token."""
        return self._mask.expects_fast_forward

    @property
    def needs_pass(self) -> bool:
        """Whether the model has to process more tokens: of a finished sequence, to weigh them."""
        return not self.finished or not (self.weights is None or self.weights.is_complete)

    @property
    def part_name(self) -> str:
        """The part of a composed answer that comes next."""
        return str(getattr(self._part(), "name", ""))

    @property
    def is_scripted(self) -> bool:
        """Whether the next token is determined by a choice that was drawn."""
        return self._mask.is_scripted

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.tokens) - self.prompt_tokens

    @property
    def processed(self) -> int:
        """Tokens that the model has processed."""
        return len(self.tokens) - len(self.pending)

    @property
    def is_limited(self) -> bool:
        """Whether a limit has changed the output."""
        return self.cut is not None and self.cut.reason != "repetition"

    @property
    def may_reject(self) -> bool:
        """Whether :meth:`accepts` may refuse a sampled token."""
        return self.guard is not None

    @property
    def is_at_limit(self) -> bool:
        """Whether the next token is certainly the last one."""
        return self.generated + 1 >= self._options.max_tokens

    @property
    def written_bytes(self) -> int:
        """Length of the output so far, in bytes; special tokens by their names."""
        if self._matcher is None:
            return 0
        return sum(map(len, map(self._written, self.tokens[self.prompt_tokens :])))

    def _written(self, token_id: int) -> bytes:
        if self._matcher is None:
            return b""
        form = self._matcher.vocabulary.token_bytes[token_id] or b""
        return form.removeprefix(Vocabulary.SPECIAL_MARK)

    @property
    def is_at_choice(self) -> bool:
        """Whether a finite choice comes next that is to be drawn exactly, and logits are there."""
        is_ready = self.logits is not None and not (self.pending or self.finished)
        return is_ready and self.has_choice

    @property
    def has_choice(self) -> bool:
        """Whether the next tokens write an option of a finite choice that is to be drawn exactly.

        Not while end tokens are masked or boosted: that distribution is defined for tokens only.
        """
        matcher, options = self._matcher, self._options
        if self._choices is None or matcher is None:
            return False
        if self._mask.is_scripted or matcher.is_finished:
            return False
        soft = options.soft_max_tokens
        if self.generated < options.min_tokens or (soft is not None and self.generated >= soft):
            return False
        return finite_choice(matcher.state) is not None

    def open_choice(self) -> OpenChoice | None:
        """Return the finite choice that comes next, if it is to be drawn exactly.

        It is decided once for each position whether a choice can be drawn: work that exceeds its
        budget the first time may not do so again.
        """
        if not self.has_choice:
            return None
        if self._open_choice is None or self._open_choice[0] != len(self.tokens):
            self._open_choice = len(self.tokens), self._find_choice()
        return self._open_choice[1]

    def _find_choice(self) -> OpenChoice | None:
        # The schedule may change the limits and the state.
        sampler = self._schedule.next_sampler(self.generated)
        if self._matcher is None or self._choices is None or not isinstance(sampler, Sampler):
            return None
        return OpenChoice.at(self._matcher, self.guard, sampler, self._choices, self.tokens)

    def take_option(self, drawn: DrawnOption) -> list[Token]:
        """Narrow the grammar to an option, and append the tokens that this forces.

        If every token is to be sampled, nothing is appended, and the option's tokens are the next
        ones that :meth:`sample` returns.
        """
        if self._matcher is None:
            raise AssertionError("a sequence with a choice has a matcher")
        with step_budget(ADVANCE_STEPS):
            (self.guard or self._matcher).narrow(drawn.option.state)
        self.scored_choices.append(drawn.record)
        if self._fast_forward is None:
            self._mask.script(drawn.tokens)
        start = len(self.tokens)
        appended = self.advance_forced()
        if self.weights is not None and self.logits is not None:
            own = tuple(token.token_id for token in appended[: len(drawn.tokens)])
            if drawn.log_score is not None and own == drawn.tokens and not self._mask.is_scripted:
                # The whole score is known: with the first token, so that particles are not compared
                # by the beginnings of their options.
                self.weights.settle(len(own), drawn.log_score - drawn.log_proposal)
                self.weights.add_factor(-drawn.log_mass)
            else:
                self.weights.add_factor(-drawn.log_proposal)
            self.weights.weigh(self.logits.all(), start - 1, self.tokens, self.prompt_tokens, {})
        return appended

    @property
    def random_state(self) -> RandomState:
        """The random keys of the samplers, which can be set back to an earlier state."""
        return own_schedule(self._schedule).random_state

    @random_state.setter
    def random_state(self, state: RandomState) -> None:
        own_schedule(self._schedule).random_state = state

    def begin_token(self) -> None:
        """Set the limits of the next token. :meth:`sample` does this as well."""
        self._schedule.next_sampler(self.generated)

    def sample(
        self, logits: NextLogits, *, exact: bool = False, proposed: Proposal | None = None
    ) -> SampledToken:
        """Sample the next token on the device, without waiting for it.

        Args:
            logits: Logits of the token.
            exact: Allow only tokens that :meth:`accepts` accepts.
            proposed: A proposed token. The sampled token equals it exactly if it is accepted.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        distribution = self._distribution(self._mask, logits.width, exact=exact)
        mask = distribution.mask
        without_limit = self._mask.without_limit
        with self.timings.during("sample"):
            top, vectors = self._options.logprobs, self._options.logprob_vectors
            # Before the token is sampled, so that it takes its logits from these.
            every = logits.all() if vectors or top is not None else None
            if self.weights is None:
                sampled = distribution.sample(logits, proposed)
            else:
                wide = None if without_limit is None else self.masks.on_device(without_limit)
                sampled = distribution.sample_weighted(logits, is_redrawn=exact, wide=wide)
            if mask is not None and mask.count == 1:
                sampled = replace(sampled, has_alternatives=False)
            if every is None:
                return sampled
            masked = every if mask is None else apply_mask(every, mask.mask)
            return sampled.with_logprobs(every, masked, top, vectors=vectors)

    def propose(self, logits: NextLogits, key: mx.array) -> tuple[mx.array, mx.array | None]:
        """Draw the next token of a draft from the logits of a draft model.

        The logits are masked, penalised and filtered as in :meth:`sample`. With a seed, the token
        is drawn with the random key that :meth:`sample` would use, and takes it.

        Args:
            logits: Logits of the token.
            key: The random key of a token without a seed.

        Returns:
            The lazy token, shape (1,), and ``log_q`` of :class:`Proposal`.

        Raises:
            SlowMaskError: The mask takes too long. The state is unchanged.
        """
        # The mask is computed again for verification, so its state must not change here.
        distribution = self._distribution(copy(self._mask), logits.width, exact=False)
        return distribution.propose(logits, key)

    def _distribution(self, next_mask: NextMask, width: int, *, exact: bool) -> TokenDistribution:
        """Return the distribution of the next token.

        Args:
            next_mask: Computes the mask.
            width: Size of the vocabulary.
            exact: Allow only tokens that :meth:`accepts` accepts.
        """
        with self.timings.during("mask"):
            sampler = self._schedule.next_sampler(self.generated)
            allowed = next_mask.allowed(self.generated, width, exact=exact)
            boost = next_mask.end_boost(self.generated, allowed)
        mask = None if allowed is None else self.masks.on_device(allowed)
        return TokenDistribution(sampler, boost, mask, self.tokens, self.prompt_tokens)

    def compute_mask(self) -> None:
        """Compute the mask that was too slow for the model thread, so that :meth:`sample` finds it.

        Callable on any thread while the sequence is not used otherwise.

        Raises:
            GrammarBudgetError: The mask exceeds the step budget, and there is no guard.
        """
        self._mask.compute_slow()

    def follow_plan(self) -> None:
        """Let the next token be that of the completion plan, which is always accepted."""
        self._mask.follow_plan()

    def accepts(self, token_id: int) -> bool:
        """Whether the text can still be completed in time after a sampled token.

        A rejected token has to be sampled again, with ``exact=True``.
        """
        return self.guard is None or self.guard.accepts(token_id)

    def refuse(self, token_id: int) -> None:
        """Record a sampled token for which a limit leaves too few tokens.

        A limit does not change text that the grammar forces: other tokens spell it.
        """
        guard, matcher = self.guard, self._matcher
        if self.is_limited or guard is None or matcher is None:
            return
        state = guard.state_after(token_id)
        form = matcher.vocabulary.token_bytes[token_id] or b""
        if state is not None and not matcher.forced_bytes().startswith(form):
            self._refuse(guard, state, 1, form)

    def choice_without_limit(self, choice: OpenChoice) -> OpenChoice | None:
        """Return the choice of :meth:`open_choice` among all options, if they can be scored."""
        if self._matcher is None or self._choices is None:
            return None
        return choice.without_limit(self._matcher.vocabulary, self._choices, self.tokens)

    def refuse_option(self, option: ChoiceOption) -> None:
        """Record that an option would be drawn if it did not exceed a limit."""
        if self.guard is not None:
            self._refuse(self.guard, option.state, 0, option.text)

    def _refuse(self, guard: Guard, state: Node, used: int, refused: bytes) -> None:
        """Record that a limit refuses a text, if it does.

        Args:
            guard: The guard.
            state: A state behind the next tokens.
            used: The number of these tokens.
            refused: The text.
        """
        if not guard.exceeds(state, guard.left - used):
            return
        is_late = (
            self._deadline is not None
            and own_schedule(self._schedule).is_bound_by_time
            and not guard.exceeds(state, guard.total - used)
        )
        self._cut(refused.replace(Vocabulary.SPECIAL_MARK, b""), is_late=is_late)

    def _cut(self, refused: bytes, *, is_late: bool) -> None:
        self.cut = Cut(self.written_bytes, refused, "max_seconds" if is_late else "max_tokens")
        self._mask.follows_limit = True

    def advance(self, sampled: SampledToken, token_id: int) -> Token:
        """Append a sampled token.

        Raises:
            GrammarBudgetError: The state after the token exceeds the step budget.
        """
        if sampled.without_limit is not None:
            self.refuse(cast(int, sampled.without_limit.item()))
        if self.weights is not None and sampled.log_weight is not None:
            self.weights.add(sampled.log_weight)
            self.weights.read()
        written = self._written(token_id)
        self.forced_text = b"" if sampled.has_alternatives else self.forced_text + written
        with step_budget(ADVANCE_STEPS):
            return self._append(token_id, is_forced=False, sampled=sampled)

    def advance_forced(self) -> list[Token]:
        """Append the tokens that need no sampling: forced text, and a forced end."""
        if self._matcher is None or self.finished:
            return []
        appended: list[Token] = []
        if self._fast_forward is not None:
            for token_id in self._fast_forward.tokens(self._matcher, self.tokens):
                if not self.accepts(token_id):
                    # The text needs a tokenization with fewer tokens than the tokenizer's.
                    break
                appended.append(self._append_forced(token_id))
                if self.finished:
                    return appended
        if must_end(self._matcher.state) and not self._options.samples_all:
            appended.append(self._append_forced(self._options.end_token_ids[0]))
        return appended

    def weigh_forced(self, logits: mx.array, known: KnownWeights) -> None:
        """Weigh the forced tokens that follow the tokens of a forward pass.

        Args:
            logits: The pass's logits, shape (tokens, vocabulary). Its tokens are the last ones that
                were processed.
            known: The weights that are known by these logits, which is extended.
        """
        if self.weights is not None:
            start = self.processed - logits.shape[0]
            self.weights.weigh(logits, start, self.tokens, self.prompt_tokens, known)

    def fork(self, stream: int) -> SequenceState:
        """Return a copy that is continued independently.

        Args:
            stream: The copy's random stream, which no other sequence of the group has.
        """
        twin = self._copy()
        # Drafters belong to one sequence.
        twin.drafting = None
        twin.timings = self.timings.copy()
        twin.scored_choices = list(self.scored_choices)
        twin.weights = None if self.weights is None else self.weights.copy()
        twin._schedule = own_schedule(self._schedule).fork(twin._matcher, twin.guard, stream)
        return twin

    def after_proposed(self, token_id: int) -> tuple[SequenceState, tuple[int, ...]] | None:
        """Return a copy behind a proposed token, and the forced tokens that follow it.

        The copy shares the samplers, and so their random keys. It is to be sampled from, and not
        to be continued.

        Returns:
            ``None`` if the token ends the sequence or is refused.
        """
        if token_id in self._options.end_token_ids or not self._is_usable(token_id):
            return None
        twin = self._copy()
        schedule = own_schedule(self._schedule)
        twin._schedule = schedule.ahead(twin._matcher, twin.guard, self.generated)
        # The limits of a token are set before its mask is computed.
        twin._schedule.next_sampler(twin.generated)
        if not twin.accepts(token_id):
            return None
        try:
            with step_budget(ADVANCE_STEPS):
                twin._append(token_id, is_forced=False)
            appended = twin.advance_forced()
        except (GrammarBudgetError, TokenRejectedError):
            return None
        ends = self._options.end_token_ids
        return twin, tuple(one.token_id for one in appended if one.token_id not in ends)

    def _copy(self) -> SequenceState:
        """Return a copy whose tokens and grammar are independent."""
        twin = copy(self)
        twin.tokens = list(self.tokens)
        twin.pending = list(self.pending)
        twin._open_choice = None
        twin.guard = None if self.guard is None else self.guard.copy()
        if twin.guard is not None:
            twin._matcher = twin.guard.matcher
        elif self._matcher is not None:
            twin._matcher = self._matcher.copy()
        twin._mask = self._mask.fork(twin._matcher, twin.guard)
        twin._repetition = None if self._repetition is None else self._repetition.copy()
        return twin

    def _is_usable(self, token_id: int) -> bool:
        """Whether a token is one that unconstrained text may contain; grammars check their own."""
        usable = self._options.usable_tokens
        width = 0 if self.logits is None else self.logits.width
        return 0 <= token_id < width and (usable is None or bool(usable[token_id]))

    def _append_forced(self, token_id: int) -> Token:
        if self.weights is not None:
            ends = self._options.end_token_ids
            # All end tokens write the same text.
            ids = ends if token_id in ends else (token_id,)
            sampler = own_schedule(self._schedule).current_sampler()
            self.weights.expect(len(self.tokens), ids, sampler)
        self.forced_text += self._written(token_id)
        return self._append(token_id, is_forced=True)

    def _append(
        self, token_id: int, *, is_forced: bool, sampled: SampledToken | None = None
    ) -> Token:
        part = self._part()
        self.tokens.append(token_id)
        self.pending.append(token_id)
        if self.guard is not None:
            self.guard.advance(token_id)
        elif self._matcher is not None:
            self._matcher.advance(token_id)
        if self._repetition is not None and self._matcher is not None:
            self._watch(self._repetition, self._matcher, token_id)
        is_end = token_id in self._options.end_token_ids
        is_last = not is_end and (
            self.generated >= self._options.max_tokens or (self._is_late() and self._may_stop())
        )
        self.finished = is_end or is_last
        if (
            is_last
            and not self.is_limited
            and not (self._matcher and must_end(self._matcher.state))
        ):
            self._cut(b"", is_late=self.generated < self._options.max_tokens)
        return Token(
            token_id,
            "stop" if is_end else "length" if is_last else None,
            is_forced,
            part,
            None if sampled is None else sampled.logprobs(),
            logprob_vectors=None if sampled is None else sampled.logprob_vectors(),
        )

    def _watch(self, repetition: RepetitionDetector, matcher: Matcher, token_id: int) -> None:
        """Let the next tokens end a value that repeats itself."""
        repetition.advance(self._written(token_id), matcher)
        self._mask.closing_token = repetition.closing_token
        if self.cut is None and repetition.unit is not None:
            self.cut = Cut(self.written_bytes, repetition.unit, "repetition")

    def _part(self) -> Part | None:
        if isinstance(self._matcher, RootMatcher):
            return next(iter(self._matcher.parts), None)
        return None

    def _is_late(self) -> bool:
        return self._deadline is not None and self._deadline.is_over

    def _may_stop(self) -> bool:
        return self._matcher is None or self._matcher.is_accepting
