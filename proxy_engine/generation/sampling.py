"""Masks on the device, and the tokens that are sampled under them."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from samplers import (
    Sampler,
    TopLogprobs,
    apply_mask,
    log_sum,
    sample_rows,
    top_logprobs,
)
from state_machines import Vocabulary
from state_machines.caches import LruCache
from state_machines.root import Part

from ..results.parts import Logprob, LogprobVectors, TokenLogprobs
from .forward_pass import NextLogits

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper

MAX_MASKS = 256
"""Masks that are cached; one over 150,000 tokens takes 150 KB."""

_MAX_REDUCED = 16
"""Masks without end tokens that are cached."""

Mask = npt.NDArray[np.bool_]

_Reduction = tuple[int, tuple[int, ...], int]

SMALL_MASK_TOKENS = 64
"""A mask with at most this many allowed tokens is small: sampling reads only their logits."""

TextEnd: TypeAlias = Literal["stop", "length"]
"""An end token, or a limit."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMask:
    """A mask with its copy on the device.

    Attributes:
        source: The mask on the CPU, bool, shape (vocabulary,). The reference keeps its ``id`` from
            being reused while the mask is cached.
        count: How many tokens are allowed.
        ids: The allowed tokens of a small mask, int32, ascending; otherwise ``None``.
    """

    source: Mask
    count: int
    ids: mx.array | None
    _copies: list[mx.array]

    @property
    def mask(self) -> mx.array:
        """The mask on the device, copied on first use: bool, shape (vocabulary,)."""
        if not self._copies:
            self._copies.append(mx.array(self.source))
        return self._copies[0]

    @property
    def row(self) -> mx.array:
        """The same as a row of a pass: shape (1, vocabulary)."""
        if len(self._copies) < 2:
            self._copies[:] = self.mask, self.mask[None]
        return self._copies[1]


class DeviceMasks:
    """LRU cache of one model's masks. Grammar states share mask arrays, so masks recur.

    To be used on the model thread.
    """

    def __init__(self) -> None:
        self._masks: OrderedDict[int, DeviceMask] = OrderedDict()
        # With the original, whose reference keeps its ``id`` from being reused.
        self._reduced: LruCache[_Reduction, tuple[Mask | None, Mask]] = LruCache(_MAX_REDUCED)

    def __len__(self) -> int:
        return len(self._masks)

    def without(self, mask: Mask | None, ids: tuple[int, ...], size: int) -> Mask:
        """Remove tokens from a mask; a mask that allows no other token is returned unchanged.

        Args:
            mask: A mask that never changes, or ``None``: all tokens are allowed.
            ids: The tokens.
            size: The size of the mask.
        """
        key = id(mask), ids, size
        known = self._reduced.get(key)
        if known is not None:
            return known[1]
        others = np.ones(size, np.bool_) if mask is None else mask.copy()
        others[list(ids)] = False
        reduced = others if mask is None or others.any() else mask
        return self._reduced.put(key, (mask, reduced))[1]

    def on_device(self, mask: Mask) -> DeviceMask:
        """Return the device copy of a mask, bool, shape (vocabulary,), that never changes."""
        known = self._masks.get(id(mask))
        if known is not None:
            self._masks.move_to_end(id(mask))
            return known
        count = int(np.count_nonzero(mask))
        is_small = 0 < count <= SMALL_MASK_TOKENS
        ids = mx.array(np.flatnonzero(mask).astype(np.int32)) if is_small else None
        if len(self._masks) == MAX_MASKS:
            self._masks.popitem(last=False)
        made = self._masks[id(mask)] = DeviceMask(mask, count, ids, [])
        return made


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


@dataclass(frozen=True, slots=True)
class ReportedLogprobs:
    """Which log-probabilities of the tokens of a sequence are reported.

    Attributes:
        logprobs: Number of most likely tokens that are reported; ``None``: no log-probabilities.
        vectors: Whether those of all tokens are reported.
        confidence: Whether those of sampled tokens among the allowed ones are recorded.
    """

    logprobs: int | None = None
    vectors: bool = False
    confidence: bool = False

    @classmethod
    def of(
        cls, *, logprobs: int | None, vectors: bool, confidence: bool
    ) -> ReportedLogprobs | None:
        """Return what a request asks for; ``None``: nothing."""
        if logprobs is None and not (vectors or confidence):
            return None
        return cls(logprobs, vectors, confidence)

    @property
    def samples_all(self) -> bool:
        """Whether forced tokens are sampled, too, since their logits are needed under a mask."""
        return self.logprobs is not None or self.vectors


class Token(NamedTuple):
    """A generated token.

    Attributes:
        token_id: Its id in the vocabulary.
        finish_reason: Set on the last token of a sequence: ``"stop"`` for an end token,
            ``"length"`` where a limit was reached.
        is_forced: The grammar left one continuation, so the token was not sampled.
        part: The part of a composed answer that the token most likely belongs to.
        logprobs: Log-probabilities, where the request asks for them.
        is_drafted: The token was drafted and accepted.
        logprob_vectors: Log-probabilities of all tokens, where the request asks for them.
        log_probability: Of the token among the allowed ones, where the request records it and
            several were allowed.
    """

    token_id: int
    finish_reason: TextEnd | None = None
    is_forced: bool = False
    part: Part | None = None
    logprobs: TokenLogprobs | None = None
    is_drafted: bool = False
    logprob_vectors: LogprobVectors | None = None
    log_probability: float | None = None


@dataclass(slots=True, eq=False)
class NextToken:
    """A sampled token, which is on the device until it is :meth:`read`.

    Attributes:
        logits: The logits that it was sampled from.
        drawn: The ids of tokens that are sampled together, as a lazy array of shape (rows,).
        row: The row of this token.
        token_id: Its id, once it is read.
        has_alternatives: Whether several tokens were allowed.
        logprobs: Its log-probabilities, if they are reported.
    """

    logits: NextLogits
    drawn: mx.array
    row: int = 0
    token_id: int = -1
    has_alternatives: bool = True
    logprobs: LazyLogprobs | None = None

    @staticmethod
    def arrays(tokens: Sequence[NextToken]) -> list[mx.array]:
        """Return the arrays of tokens that are to be evaluated."""
        arrays: list[mx.array] = []
        for token in tokens:
            if arrays and token.drawn is arrays[-1]:
                # Tokens that are sampled together have nothing else.
                continue
            arrays.append(token.drawn)
            if token.logprobs is not None:
                arrays += token.logprobs.arrays
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


def masked_logits(logits: NextLogits, mask: DeviceMask | None) -> tuple[mx.array, mx.array | None]:
    """Return masked logits of all tokens; for a small mask, unmasked logits and the allowed ids.

    Returns:
        The logits, shape (1, vocabulary), and the ids, shape (n,), or ``None``.
    """
    every = logits.all()
    if mask is None or mask.ids is not None:
        return every, None if mask is None else mask.ids
    return apply_mask(every, mask.mask), None


def sample_tokens(
    samplers: Sequence[Sampler],
    masks: Sequence[DeviceMask | None],
    logits: Sequence[NextLogits],
) -> list[NextToken]:
    """Sample a token for each of several rows by operations on all of them at once.

    Args:
        samplers: Their samplers, with equal ``row_parameters``.
        masks: Their masks.
        logits: Their logits.
    """
    every, first = NextLogits.stacked(logits), masks[0]
    if any(mask is not first for mask in masks):
        full = mx.ones((1, every.shape[-1]), mx.bool_)
        rows = mx.concatenate([full if mask is None else mask.row for mask in masks])
        every = mx.where(rows, every, -mx.inf)
    elif first is not None:
        every = apply_mask(every, first.mask)
    drawn = sample_rows(samplers, every)
    tokens = []
    for row, (of_row, mask) in enumerate(zip(logits, masks, strict=True)):
        tokens.append(
            NextToken(of_row, drawn, row, has_alternatives=mask is None or mask.count > 1)
        )
    return tokens


@dataclass(frozen=True, slots=True)
class LazyLogprobs:
    """Log-probabilities of a token before and after the mask, as lazy arrays.

    Attributes:
        token: The token, shape (1,).
        tops: Of the token, and of the most likely tokens; none if these are not reported.
        others: Of the most likely tokens after the mask before it, and the reverse.
        vectors: Of all tokens, shape (vocabulary,); none if these are not reported.
    """

    token: mx.array
    tops: tuple[TopLogprobs, ...]
    others: tuple[mx.array, ...]
    vectors: tuple[mx.array, ...]

    @classmethod
    def of(
        cls,
        token: mx.array,
        logits: mx.array,
        mask: DeviceMask | None,
        reports: ReportedLogprobs,
    ) -> LazyLogprobs:
        """Return the log-probabilities of a sampled token.

        Args:
            token: The token, shape (1,).
            logits: Logits as the model computed them, shape (1, vocabulary).
            mask: The mask of the token.
            reports: Which of them are reported.
        """
        masked = logits if mask is None else apply_mask(logits, mask.mask)
        both = tuple(array.reshape(-1).astype(mx.float32) for array in (logits, masked))
        tops: tuple[TopLogprobs, ...] = ()
        others: tuple[mx.array, ...] = ()
        if reports.logprobs is not None or reports.confidence:
            top = reports.logprobs or 0
            tops = tuple(top_logprobs(array, token, top) for array in both)
            # A logit less its log-probability is the logsumexp that normalizes all of them.
            totals = [
                mx.take(array, token) - of.chosen for array, of in zip(both, tops, strict=True)
            ]
            others = (
                mx.take(both[0], tops[1].ids) - totals[0],
                mx.take(both[1], tops[0].ids) - totals[1],
            )
        of_all = tuple(array - log_sum(array) for array in both) if reports.vectors else ()
        return cls(token, tops, others, of_all)

    @property
    def arrays(self) -> list[mx.array]:
        """The arrays that are to be evaluated."""
        arrays = [*self.vectors, *self.others]
        for of_tokens in self.tops:
            arrays += of_tokens
        return arrays

    def read(self) -> TokenLogprobs | None:
        """Return the log-probability of the token, and the largest. Waits for the device."""
        if not self.tops:
            return None
        (before, after), (before_of_after, after_of_before) = self.tops, self.others
        top_after = _read(after.ids, before_of_after, after.logprobs)
        return TokenLogprobs(
            _read(self.token, before.chosen, after.chosen)[0],
            tuple(_read(before.ids, before.logprobs, after_of_before)),
            tuple(entry for entry in top_after if entry.after_mask > -math.inf),
        )

    def read_vectors(self) -> LogprobVectors | None:
        """Return the log-probabilities of all tokens. Waits for the device."""
        return LogprobVectors(*map(np.array, self.vectors)) if self.vectors else None


def _read(ids: mx.array, before: mx.array, after: mx.array) -> Sequence[Logprob]:
    columns = (cast("list[float]", array.tolist()) for array in (ids, before, after))
    return [Logprob(int(i), b, a) for i, b, a in zip(*columns, strict=True)]


def end_token_ids(vocabulary: Vocabulary, tokenizer: TokenizerWrapper) -> tuple[int, ...]:
    """Return the end tokens, the tokenizer's own first."""
    preferred = tokenizer.eos_token_id
    ends = sorted(vocabulary.end_token_ids, key=lambda token_id: (token_id != preferred, token_id))
    return tuple(ends)


def text_token_mask(vocabulary: Vocabulary) -> Mask | None:
    """Return the mask of unconstrained text: text and end tokens.

    Returns:
        Bool, shape (vocabulary,); ``None`` if all tokens are allowed.
    """
    usable = np.array(
        [
            form is not None and not form.startswith(Vocabulary.SPECIAL_MARK)
            for form in vocabulary.token_bytes
        ]
    )
    usable[list(vocabulary.end_token_ids)] = True
    return None if usable.all() else usable
