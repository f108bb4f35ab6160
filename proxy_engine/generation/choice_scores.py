"""Score the options of a finite choice: the probability of each option's tokens.

The score of an option is the probability of its tokens times the mass that the grammar leaves to
the token behind them. So the closing quote, the separator or the end counts, and ``cat`` is not
preferred because ``catfish`` begins with it.

Options are rows of a batch behind one copy of the prompt's keys and values. mlx-lm's models take
positions from the cache, one for each row, so options cannot share a row. Options with a long
common beginning share the pass over it: the keys and values of that beginning are the prefix of a
second pass.

The probability of a row's first token is known before the pass, and bounds the scores of the row's
options. An option is drawn by the largest sum of its log-score and Gumbel noise, which is a draw
from the distribution of the scores. Rows are processed in descending order of bound and noise, so
the draw is certain, and exact, as soon as no bound exceeds the best sum (Maddison et al., "A*
sampling", NeurIPS 2014). Where all scores are needed, rows are processed until the remaining bounds
add up to less than :data:`NEGLIGIBLE` of the mass that was found.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

from .cache_layers import padded_tokens
from .forward_pass import run_model
from .sampling import DeviceMasks
from .shared_prefix import Layers, prefix_caches, row_layers

NEGLIGIBLE = 1e-6
"""Fraction of the options' mass that may remain unscored."""

_MIN_SHARED_TOKENS = 12
"""Minimum number of saved tokens for a separate pass over the common prefix of several options."""

_MAX_ROWS = 32
_MAX_TOKENS_ON_CPU = 96
_MAX_TOKENS_ON_GPU = 512
"""Tokens of one pass, with padding; a single row may have more."""

_FEW_TOKENS_ON_CPU = 64
"""The same on a CPU if not all scores are needed. A token takes a tenth of the time of a pass."""

_TOLERANCE = 0.01
"""Fraction of the options' mass that may be estimated once the draw is certain."""

_MAX_SCORED_TOKENS_ON_CPU = 64
_MAX_SCORED_TOKENS_ON_GPU = 2048
"""Tokens, with padding, from which on a larger fraction is estimated."""

_MAX_PREFIX_BYTES = 1 << 28
"""Bytes of one layer's keys, repeated for each row."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An option as tokens.

    Attributes:
        tokens: The tokens that spell the option, without final ones that depend on what follows.
            They may be none.
        allowed: The mask of the token behind them: bool, shape (vocabulary,).
    """

    tokens: tuple[int, ...]
    allowed: npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Prefix:
    """Tokens whose pass has run.

    Attributes:
        layers: Keys and values up to the last of them.
        tokens: The tokens behind the prompt and the generated ones.
        logprob: Their log-probability.
        logits: Tempered logits of the next token, float32, shape (vocabulary,).
        total: The logsumexp of ``logits``.
    """

    layers: Layers
    tokens: tuple[int, ...]
    logprob: float
    logits: mx.array
    total: float


@dataclass(slots=True)
class _Row:
    """A row of a pass: tokens that begin one option, or all options of a group."""

    prefix: _Prefix
    tokens: tuple[int, ...]
    options: list[int]
    bound: float = 0.0


class ChoiceScores(NamedTuple):
    """The scores of the options.

    Attributes:
        log_scores: Natural logarithms of the scores, float64, shape (options,); ``-inf`` for
            options that were not scored, because they are negligible or cannot be drawn.
        log_estimates: The same, with estimates for options that were not scored: their bounds,
            multiplied by the ratio of scores to bounds of the others.
    """

    log_scores: npt.NDArray[np.float64]
    log_estimates: npt.NDArray[np.float64]


Temper = Callable[[mx.array, Sequence[int]], mx.array]
"""From logits, shape (vocabulary,), and the tokens behind the generated ones to tempered logits."""


class ChoiceScorer:
    """Scores the options of one choice of one sequence.

    Args:
        model: The model.
        masks: Masks on the device.
        temper: Returns the logits of the distribution that options are scored by.
        depends_on_tokens: Whether ``temper`` reads the tokens. Otherwise it is called with the
            logits of a whole pass, shape (rows, tokens, vocabulary).
        arguments: Other arguments of the model's call.
    """

    def __init__(
        self,
        model: Module,
        masks: DeviceMasks,
        temper: Temper,
        *,
        depends_on_tokens: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = model
        self._masks = masks
        self._temper = temper
        self._depends_on_tokens = depends_on_tokens
        self._arguments = arguments or {}

    def scores(
        self,
        candidates: Sequence[Candidate],
        layers: Layers,
        logits: mx.array,
        noise: npt.NDArray[np.float64] | None = None,
    ) -> ChoiceScores:
        """Score the options. Waits for the device.

        Args:
            candidates: The options.
            layers: Keys and values of the tokens before the choice.
            logits: The model's logits of the next token, shape (1, vocabulary).
            noise: Numbers that are added to the log-scores, shape (options,). Only options that may
                have the largest sum need to be scored. ``None``: all options are scored that are
                not negligible.
        """
        self._candidates, self._noise = candidates, noise
        self._found = np.full(len(candidates), -np.inf)
        # Rows that wait, in descending order of their bounds.
        self._queue: list[tuple[float, int, _Row]] = []
        # Options whose rows were processed, and the bounds of these rows.
        self._leaves: list[int] = []
        self._log_bounds: list[float] = []
        self._tokens = 0
        scaled = self._temper(logits.reshape(-1), ())
        total = cast(float, mx.logsumexp(scaled).item())
        self._open(_Prefix(layers, (), 0.0, scaled, total), range(len(candidates)))
        while not self._is_decided:
            self._pass(self._next_rows())
        return ChoiceScores(self._found, self._estimates())

    # The queue.

    @property
    def _is_decided(self) -> bool:
        """Whether no row that waits can change the draw, or the scores by more than allowed."""
        if not self._queue:
            return True
        found = _log_sum(self._found)
        waiting = _log_sum([row.bound for _, _, row in self._queue])
        if self._noise is None or -self._queue[0][0] > (self._found + self._noise).max():
            return waiting < found + math.log(NEGLIGIBLE)
        limit = _MAX_SCORED_TOKENS_ON_GPU if _is_on_gpu() else _MAX_SCORED_TOKENS_ON_CPU
        return self._tokens >= limit or waiting < found + math.log(_TOLERANCE)

    def _next_rows(self) -> list[_Row]:
        """Take the rows of the next pass from the queue; all of them have one prefix."""
        first = self._queue[0][2]
        max_tokens = _MAX_TOKENS_ON_GPU
        if not _is_on_gpu():
            max_tokens = _MAX_TOKENS_ON_CPU if self._noise is None else _FEW_TOKENS_ON_CPU
        largest = max(layer.keys.nbytes for layer in first.prefix.layers)
        max_rows = min(_MAX_ROWS, max(1, _MAX_PREFIX_BYTES // max(1, largest)))
        rows: list[_Row] = []
        others = []
        longest = 0
        while self._queue and len(rows) < max_rows:
            entry = heapq.heappop(self._queue)
            row = entry[2]
            if row.prefix is not first.prefix:
                others.append(entry)
                continue
            longest = max(longest, len(row.tokens))
            if rows and longest * (len(rows) + 1) > max_tokens:
                others.append(entry)
                break
            rows.append(row)
        for entry in others:
            heapq.heappush(self._queue, entry)
        leaves = [row for row in rows if len(row.options) == 1]
        self._leaves += [row.options[0] for row in leaves]
        self._log_bounds += [row.bound for row in leaves]
        self._tokens += longest * len(rows)
        return rows

    def _estimates(self) -> npt.NDArray[np.float64]:
        """Return the scores, with estimates for the options whose rows still wait."""
        estimates = self._found.copy()
        scored = [leaf for leaf in self._leaves if np.isfinite(self._found[leaf])]
        ratio = min(0.0, _log_sum(self._found[scored]) - _log_sum(self._log_bounds))
        for _, _, row in self._queue:
            estimate = row.bound - math.log(len(row.options)) + (ratio if scored else 0.0)
            estimates[row.options] = estimate
        return estimates

    # Passes.

    def _open(self, prefix: _Prefix, options: Sequence[int]) -> None:
        """Score the options that end at a prefix; queue rows for all other options."""
        candidates = self._candidates
        ended = [option for option in options if candidates[option].tokens == prefix.tokens]
        if ended:
            masses = self._masses(
                prefix.logits[None], [candidates[option].allowed for option in ended]
            )
            for option, mass in zip(ended, masses, strict=True):
                self._found[option] = prefix.logprob + mass - prefix.total
        rows = _rows(prefix, [option for option in options if option not in ended], candidates)
        if not rows:
            return
        firsts = mx.take(prefix.logits, mx.array([row.tokens[0] for row in rows])) - prefix.total
        for row, logprob in zip(rows, cast("list[float]", firsts.tolist()), strict=True):
            key = row.bound = prefix.logprob + logprob
            if self._noise is not None:
                key += float(self._noise[row.options].max())
            heapq.heappush(self._queue, (-key, row.options[0], row))

    def _pass(self, rows: Sequence[_Row]) -> None:
        """Process rows with one prefix; score their options, or queue the rows behind them."""
        prefix, candidates = rows[0].prefix, self._candidates
        caches = prefix_caches(prefix.layers)
        longest = max(len(row.tokens) for row in rows)
        tokens = padded_tokens([row.tokens for row in rows])
        logits = run_model(self._model, tokens, caches, self._arguments)
        tempered = self._tempered(logits, rows)
        totals = mx.logsumexp(tempered, axis=-1)
        lengths = mx.array([len(row.tokens) for row in rows])
        places = mx.arange(len(rows)), lengths - 1
        ends, end_totals = tempered[places], totals[places]
        following = mx.take_along_axis(tempered[:, :-1], tokens[:, 1:, None], axis=-1)[..., 0]
        is_token = mx.arange(longest - 1)[None] < lengths[:, None] - 1
        logprobs = mx.where(is_token, following - totals[:, :-1], 0).sum(axis=-1)
        leaves = [number for number, row in enumerate(rows) if len(row.options) == 1]
        masses = self._masses(
            ends[mx.array(leaves)] if leaves else ends,
            [candidates[rows[number].options[0]].allowed for number in leaves],
        )
        mass_of = dict(zip(leaves, masses, strict=True))
        mx.eval(logprobs, end_totals)
        for number, row in enumerate(rows):
            logprob = row.bound + cast(float, logprobs[number].item())
            total = cast(float, end_totals[number].item())
            if number in mass_of:
                (option,) = row.options
                self._found[option] = logprob + mass_of[number] - total
                continue
            layers = row_layers(prefix.layers, caches, number, len(row.tokens))
            inner = _Prefix(layers, prefix.tokens + row.tokens, logprob, ends[number], total)
            self._open(inner, row.options)

    def _tempered(self, logits: mx.array, rows: Sequence[_Row]) -> mx.array:
        if not self._depends_on_tokens:
            return self._temper(logits, ())
        return mx.stack(
            [
                mx.stack(
                    [
                        self._temper(logits[number, at], row.prefix.tokens + row.tokens[: at + 1])
                        for at in range(logits.shape[1])
                    ]
                )
                for number, row in enumerate(rows)
            ]
        )

    def _masses(self, logits: mx.array, allowed: Sequence[npt.NDArray[np.bool_]]) -> list[float]:
        """Return the logarithm of the mass, not normalised, that each row's mask leaves.

        Args:
            logits: Shape (rows, vocabulary), or (1, vocabulary) for all rows.
            allowed: The masks of the rows.
        """
        by_mask: dict[int, list[int]] = {}
        for number, mask in enumerate(allowed):
            by_mask.setdefault(id(mask), []).append(number)
        masses = [0.0] * len(allowed)
        for numbers in by_mask.values():
            on_device = self._masks.on_device(allowed[numbers[0]])
            chosen = logits if len(logits) == 1 else logits[mx.array(numbers)]
            if on_device.ids is not None:
                kept = mx.take(chosen, on_device.ids, axis=-1)
            else:
                kept = mx.where(on_device.mask, chosen, -mx.inf)
            values = mx.broadcast_to(mx.logsumexp(kept, axis=-1), (len(numbers),))
            for number, value in zip(numbers, cast("list[float]", values.tolist()), strict=True):
                masses[number] = value
        return masses


def _rows(prefix: _Prefix, options: Sequence[int], candidates: Sequence[Candidate]) -> list[_Row]:
    """Return the rows behind a prefix; options share one where that saves enough tokens."""
    depth = len(prefix.tokens)
    by_first: dict[int, list[int]] = {}
    for option in options:
        by_first.setdefault(candidates[option].tokens[depth], []).append(option)
    rows = []
    for group in by_first.values():
        tokens = [candidates[option].tokens[depth:] for option in group]
        shared = _common_length(tokens)
        if shared * (len(group) - 1) >= _MIN_SHARED_TOKENS:
            rows.append(_Row(prefix, tokens[0][:shared], group))
        else:
            rows += [
                _Row(prefix, rest, [option]) for rest, option in zip(tokens, group, strict=True)
            ]
    return rows


def _common_length(texts: Sequence[tuple[int, ...]]) -> int:
    first, last = min(texts), max(texts)
    shortest = min(map(len, texts))
    return next((at for at in range(shortest) if first[at] != last[at]), shortest)


def _is_on_gpu() -> bool:
    return mx.default_device().type == mx.DeviceType.gpu


def _log_sum(values: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Return the logarithm of the sum of numbers given by their logarithms."""
    return float(np.logaddexp.reduce(np.asarray(values, np.float64))) if len(values) else -math.inf
