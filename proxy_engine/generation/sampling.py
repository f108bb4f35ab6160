"""The next token of a sequence: its sampler, its mask, and the token sampled on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import mlx.core as mx
import numpy as np

from samplers import (
    Sampler,
    TopLogprobs,
    apply_mask,
    log_sum,
    sample_rows,
    top_logprobs,
)

from ..errors import InvalidOptionError
from ..results.parts import Logprob, LogprobVectors, TokenLogprobs
from .device_masks import DeviceMask
from .forward_pass import NextLogits
from .sequence_samplers import CustomSampler

_UNSAMPLED = mx.array([])


@dataclass(frozen=True, slots=True)
class Proposal:
    """A drafted token.

    Attributes:
        token_id: Its id.
        log_q: The distribution that it was drawn from, as log-probabilities: float32, shape
            (vocabulary,). ``None``: the token is a function of the past and the random key.
    """

    token_id: int
    log_q: mx.array | None = None


@dataclass(slots=True, eq=False)
class NextToken:
    """The next token of a sequence: a sampler under a mask, then a token that is sampled by it.

    Attributes:
        sampler: Applies biases, penalties, filters and temperature.
        mask: The allowed tokens; ``None``: all of them.
        tokens: The tokens so far.
        prompt_tokens: Length of the prompt.
        top: How many of the most likely tokens are reported, before and after the mask; ``None``:
            not even the token's own log-probability.
        vectors: Whether the log-probabilities of all tokens are reported.
        drawn: The ids of tokens that are sampled together, as a lazy array of shape (rows,).
        row: The row of this token.
        token_id: Its id, once it is :meth:`read`.
        returned: The id that a sampler of the caller returned, as a lazy array of shape (1,). It
            differs from the token if it is invalid.
    """

    sampler: Sampler | CustomSampler
    mask: DeviceMask | None
    tokens: Sequence[int]
    prompt_tokens: int
    top: int | None = None
    vectors: bool = False
    drawn: mx.array = _UNSAMPLED
    row: int = 0
    token_id: int = -1
    returned: mx.array | None = None
    _logprobs: _LazyLogprobs | None = None
    _vectors: tuple[mx.array, ...] = ()

    @property
    def has_alternatives(self) -> bool:
        """Whether several tokens are allowed."""
        return self.mask is None or self.mask.count != 1

    @property
    def is_drawn(self) -> bool:
        """Whether it is sampled."""
        return self.drawn is not _UNSAMPLED

    @property
    def row_parameters(self) -> object:
        """Tokens with equal values can be sampled by :meth:`sample_together`.

        ``None``: it cannot. The few logits of a small mask are computed for the sequence alone.
        """
        is_plain = not self.vectors and self.top is None
        is_small = self.mask is not None and self.mask.ids is not None
        if is_small or not is_plain or not isinstance(self.sampler, Sampler):
            return None
        return self.sampler.row_parameters

    def sample(self, logits: NextLogits, proposed: Proposal | None = None) -> None:
        """Sample the token on the device, without waiting for it.

        Args:
            logits: Logits of the token.
            proposed: A proposed token. The sampled token equals it exactly if it is accepted.
        """
        # Before the token is sampled, so that it takes its logits from these.
        every = logits.all() if self.vectors or self.top is not None else None
        self.drawn = self._sampled(logits, self.mask, proposed)
        if every is not None:
            self._add_logprobs(every)

    def draw_draft(self, logits: NextLogits, key: mx.array) -> tuple[mx.array, mx.array | None]:
        """Draw the token for a draft, from the logits of a draft model.

        With a seed, the token is drawn with the random key that :meth:`sample` would use, and
        takes it.

        Args:
            logits: Logits of the token.
            key: The random key of a token without a seed.

        Returns:
            The lazy token, shape (1,), and ``log_q`` of :class:`Proposal`.
        """
        sampler = self._plain_sampler
        parameters = sampler.parameters
        if parameters.temperature == 0 or parameters.seed is not None:
            return self._sampled(logits, self.mask), None
        masked, among = self._masked(logits, self.mask)
        log_q = sampler.log_distribution(
            masked, self.tokens, among, prompt_tokens=self.prompt_tokens
        )
        return mx.random.categorical(log_q, key=key).reshape(1), log_q

    # Once it is sampled.

    @staticmethod
    def arrays(tokens: Sequence[NextToken]) -> list[mx.array]:
        """Return the arrays of tokens that are to be evaluated."""
        arrays: list[mx.array] = []
        for token in tokens:
            if arrays and token.drawn is arrays[-1]:
                # Tokens that are sampled together have nothing else.
                continue
            arrays.append(token.drawn)
            if token.returned is not None:
                arrays.append(token.returned)
            arrays += token._vectors
            if token._logprobs is not None:
                arrays += token._logprobs.arrays
        return arrays

    @staticmethod
    def read(tokens: Sequence[NextToken]) -> None:
        """Set the ids of tokens. Waits for the device."""
        drawn: list[mx.array] = []
        for token in tokens:
            if not drawn or token.drawn is not drawn[-1]:
                drawn.append(token.drawn)
        mx.eval(drawn)
        last, ids = None, cast("list[int]", [])
        for token in tokens:
            if token.drawn is not last:
                last = token.drawn
                ids = cast("list[int]", last.tolist())
            token.token_id = ids[token.row]

    @staticmethod
    def joined(tokens: Sequence[NextToken]) -> mx.array:
        """Return the ids of tokens, not evaluated, shape (tokens,)."""
        drawn = tokens[0].drawn
        for row, token in enumerate(tokens):
            if token.drawn is not drawn or token.row != row or len(drawn) != len(tokens):
                break
        else:
            return drawn
        return mx.concatenate([token.drawn[token.row : token.row + 1] for token in tokens])

    def check(self, vocabulary: int) -> None:
        """Check the id that a sampler of the caller returned. Waits for the device.

        Args:
            vocabulary: The number of tokens.

        Raises:
            InvalidOptionError: It is no token, or the mask excludes it.
        """
        if self.returned is None:
            return
        returned = cast(int, self.returned.item())
        if returned == self.token_id:
            return
        reason = "the mask excludes"
        if not 0 <= returned < vocabulary:
            reason = f"is not in the vocabulary of {vocabulary} tokens"
        raise InvalidOptionError(
            f"the sampler returned token {returned}, which {reason}",
            option="sampler",
            hint="Select a token whose log-probability is above -inf.",
        )

    def logprobs(self) -> TokenLogprobs | None:
        """Return the log-probabilities if they were requested. Waits for the device."""
        return None if self._logprobs is None else self._logprobs.read()

    def logprob_vectors(self) -> LogprobVectors | None:
        """Return all log-probabilities if they were requested. Waits for the device."""
        return LogprobVectors(*map(np.array, self._vectors)) if self._vectors else None

    # How it is sampled.

    def _sampled(
        self, logits: NextLogits, mask: DeviceMask | None, proposed: Proposal | None = None
    ) -> mx.array:
        """Return a sampled token, shape (1,)."""
        sampler, count = self.sampler, self.prompt_tokens
        log_q = None if proposed is None else proposed.log_q
        few = None if mask is None or log_q is not None else mask.ids
        if few is not None and isinstance(sampler, Sampler):
            # Only the logits of the allowed tokens are computed.
            token = sampler.sample_among(logits.of(few), self.tokens, few, prompt_tokens=count)
            return token.reshape(1)
        masked, among = self._masked(logits, mask)
        if proposed is None or log_q is None:
            token = sampler(masked, self.tokens, among, prompt_tokens=count)
        else:
            token = self._plain_sampler.verify(
                masked, self.tokens, proposed.token_id, log_q, among, prompt_tokens=count
            )
        if isinstance(sampler, CustomSampler):
            self.returned = sampler.returned
        return token.reshape(1)

    def _add_logprobs(self, unmasked: mx.array) -> None:
        """Add the log-probabilities of the token and of the most likely tokens.

        Args:
            unmasked: Logits as the model computed them, shape (1, vocabulary).
        """
        masked = unmasked if self.mask is None else apply_mask(unmasked, self.mask.mask)
        before, after = (array.reshape(-1).astype(mx.float32) for array in (unmasked, masked))
        if self.top is not None:
            self._logprobs = _LazyLogprobs.of(self.drawn, before, after, self.top)
        if self.vectors:
            self._vectors = before - log_sum(before), after - log_sum(after)

    def _masked(
        self, logits: NextLogits, mask: DeviceMask | None
    ) -> tuple[mx.array, mx.array | None]:
        """Return masked logits, or the logits and the ids of the few allowed tokens."""
        every = logits.all()
        if mask is None or mask.ids is not None:
            return every, None if mask is None else mask.ids
        return apply_mask(every, mask.mask), None

    @property
    def _plain_sampler(self) -> Sampler:
        if not isinstance(self.sampler, Sampler):
            raise AssertionError("the sampler of a sequence with drafts is a Sampler")
        return self.sampler

    @staticmethod
    def sample_together(group: Sequence[NextToken], logits: mx.array) -> None:
        """Sample several tokens with equal ``row_parameters`` by operations on all of them at once.

        Args:
            group: The tokens.
            logits: Their logits, shape (tokens, vocabulary).
        """
        masks = [token.mask for token in group]
        first = masks[0]
        if masks != [first] * len(masks):
            every = mx.ones(logits.shape[-1:], mx.bool_)
            rows = mx.stack([every if mask is None else mask.mask for mask in masks])
            logits = mx.where(rows, logits, -mx.inf)
        elif first is not None:
            logits = apply_mask(logits, first.mask)
        samplers = [cast(Sampler, token.sampler) for token in group]
        sampled = sample_rows(samplers, logits)
        for row, token in enumerate(group):
            token.drawn, token.row = sampled, row


@dataclass(frozen=True, slots=True)
class _LazyLogprobs:
    """Log-probabilities before and after the mask, as lazy arrays."""

    token: mx.array
    before: TopLogprobs
    after: TopLogprobs
    before_of_after: mx.array
    after_of_before: mx.array

    @classmethod
    def of(cls, token: mx.array, before: mx.array, after: mx.array, top: int) -> _LazyLogprobs:
        tops = top_logprobs(before, token, top), top_logprobs(after, token, top)
        # A logit less its log-probability is the logsumexp that normalizes all of them.
        totals = [
            mx.take(array, token) - of.chosen
            for array, of in zip((before, after), tops, strict=True)
        ]
        return cls(
            token,
            *tops,
            before_of_after=mx.take(before, tops[1].ids) - totals[0],
            after_of_before=mx.take(after, tops[0].ids) - totals[1],
        )

    @property
    def arrays(self) -> list[mx.array]:
        return [*self.before, *self.after, self.before_of_after, self.after_of_before]

    def read(self) -> TokenLogprobs:
        before, after = self.before, self.after
        top_after = _read(after.ids, self.before_of_after, after.logprobs)
        return TokenLogprobs(
            _read(self.token, before.chosen, after.chosen)[0],
            tuple(_read(before.ids, before.logprobs, self.after_of_before)),
            tuple(entry for entry in top_after if entry.after_mask > -math.inf),
        )


def _read(ids: mx.array, before: mx.array, after: mx.array) -> Sequence[Logprob]:
    columns = (cast("list[float]", array.tolist()) for array in (ids, before, after))
    return [Logprob(int(i), b, a) for i, b, a in zip(*columns, strict=True)]
