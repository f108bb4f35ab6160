"""The composition of all transforms, with its own random key."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from samplers.draws import RandomKeys, draw_rows, verify_draft
from samplers.logprobs import log_sum
from samplers.parameters import InvalidSamplingParameterError, SamplingParameters
from samplers.transforms import (
    adjust_logits,
    apply_filters,
    apply_temperature,
    take_candidates,
)


class Sampler:
    """Selects the tokens of one request. Not safe to share between threads.

    The order is that of mlx-lm: (mask) → logit bias → penalties → top-p → min-p → XTC → top-k →
    temperature. The caller applies the mask before the call, with :func:`~samplers.apply_mask`, so
    probabilities are over allowed tokens, and a token at ``-inf`` is never selected while another
    logit is finite. Filters use the model's own probabilities, before temperature.

    Every call but a greedy one takes the next of the request's random keys: equal seeds and equal
    logits give equal tokens, independent of other requests. mlx's global random state is neither
    read nor changed.

    Args:
        parameters: The sampling parameters.
        stream: Samplers with equal seeds and different streams draw independent numbers. Trailing
            zeros make no difference.
        xtc_special_tokens: Ids of tokens that XTC never excludes, such as line feeds and end
            tokens.

    Attributes:
        parameters: The sampling parameters.
        keys: Its random keys.
        row_parameters: All parameters but the seed; of a greedy sampler, the temperature alone.
            Samplers with equal ones can sample rows of one array together, see
            :func:`~samplers.sample_rows`. ``None``: the sampler cannot.
    """

    def __init__(
        self,
        parameters: SamplingParameters,
        stream: tuple[int, ...] = (),
        xtc_special_tokens: Sequence[int] = (),
    ) -> None:
        self.parameters = parameters
        self._xtc_special_tokens = tuple(xtc_special_tokens)
        self.keys = RandomKeys(parameters.seed, stream)
        self._adjusts = bool(parameters.bias_pairs) or parameters.has_penalties
        self._has_filters = parameters.has_filters
        self._has_xtc = parameters.has_xtc
        names = SamplingParameters.model_fields.keys() - {"seed"}
        if parameters.temperature == 0:
            names = {"temperature"}
        row = tuple(getattr(parameters, name) for name in sorted(names))
        self.row_parameters = None if self._adjusts or self._has_xtc else row

    def __call__(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None = None,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Select a token.

        With ``among``, only these tokens can be selected, at a cost that depends on their number
        only. A single one is returned without using a random key or waiting for the logits. A
        mask instead gives the same distribution, but other tokens for the same seed.

        Args:
            logits: Shape (vocabulary,) or (1, vocabulary), any float type.
            tokens: The token ids so far, for penalties.
            among: Ids of candidates: ascending integers, shape (n,), n > 0. Evaluated if there are
                biases or penalties.
            prompt_tokens: Number of leading ``tokens`` that are the prompt, which presence and
                frequency penalties ignore.

        Returns:
            A token id, uint32, shape () or (1,), not evaluated.

        Raises:
            InvalidSamplingParameterError: ``logit_bias`` has an id outside the vocabulary, or
                ``among`` another shape or type.
        """
        if among is None and not self._adjusts:
            return self._draw(logits.astype(mx.float32))
        if among is None:
            return self._draw(self._adjusted(logits, tokens, None, prompt_tokens))
        few = take_candidates(logits, self.parameters, among)
        return self.sample_among(few, tokens, among, prompt_tokens=prompt_tokens)

    def sample_among(
        self,
        few: mx.array,
        tokens: Sequence[int],
        among: mx.array,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Select a token as a call with ``among`` does, by the logits of the candidates alone.

        Args:
            few: Logits of the candidates, in their order; shape (n,) or (1, n), any float type.
            tokens: As in a call.
            among: As in a call.
            prompt_tokens: As in a call.

        Returns:
            A token id, uint32, shape () or (1,), not evaluated.

        Raises:
            InvalidSamplingParameterError: ``among`` does not have one id for each logit.
        """
        if among.shape != few.shape[-1:]:
            raise InvalidSamplingParameterError(
                "among", f"of shape {among.shape}", f"of shape {few.shape[-1:]}"
            )
        if among.size == 1:
            return among.astype(mx.uint32).reshape(few.shape[:-1])
        adjusted = few.astype(mx.float32)
        if self._adjusts:
            adjusted = adjust_logits(few, self.parameters, tokens, prompt_tokens, among)
        return mx.take(among, self._draw(adjusted, among)).astype(mx.uint32)

    def log_distribution(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None = None,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Return the distribution that a call with these arguments draws from; uses no random key.

        Args:
            logits: As in a call.
            tokens: As in a call.
            among: As in a call.
            prompt_tokens: As in a call.

        Returns:
            Log-probabilities of all tokens, float32, shape (vocabulary,), not evaluated; ``-inf``
            for tokens that are never selected. At temperature 0, one token has probability 1.

        Raises:
            InvalidSamplingParameterError: As in a call.
        """
        adjusted = self._adjusted(logits, tokens, among, prompt_tokens)
        drawn = self._log_draw(adjusted, among)
        if among is None:
            return drawn
        nowhere = mx.full((logits.shape[-1],), -mx.inf)
        return mx.put_along_axis(nowhere, among, drawn, axis=-1)

    def verify(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        drafted: int,
        log_q: mx.array,
        among: mx.array | None = None,
        *,
        prompt_tokens: int = 0,
    ) -> mx.array:
        """Select a token as a call does, and prefer a drafted token (Leviathan et al. 2023).

        The result has the distribution of a call, averaged over drafted tokens that are drawn from
        ``log_q``. It equals the drafted token as often as possible. At temperature 0 it is the
        token of a call. Takes one random key, where a call does.

        Args:
            logits: As in a call.
            tokens: As in a call.
            drafted: The drafted token.
            log_q: The normalised distribution that it was drawn from: log-probabilities, float32,
                shape (vocabulary,).
            among: As in a call.
            prompt_tokens: As in a call.

        Returns:
            A token id, uint32, shape () or (1,), not evaluated.

        Raises:
            InvalidSamplingParameterError: As in a call, or ``log_q`` has another shape.
        """
        if log_q.shape != logits.shape[-1:]:
            raise InvalidSamplingParameterError(
                "log_q", f"of shape {log_q.shape}", f"of shape {logits.shape[-1:]}"
            )
        if self.parameters.temperature == 0 or (among is not None and among.size == 1):
            return self(logits, tokens, among, prompt_tokens=prompt_tokens)
        adjusted = self._adjusted(logits, tokens, among, prompt_tokens)
        ids = mx.arange(logits.shape[-1], dtype=mx.uint32)
        if among is not None:
            ids = among.astype(mx.uint32)
            log_q = mx.take(log_q, ids)
        key = self.keys.next_key()
        index = verify_draft(self._log_draw(adjusted, among), log_q, ids == drafted, key)
        return mx.take(ids, index).reshape(logits.shape[:-1])

    @property
    def random_state(self) -> int:
        """How many random keys were used. Setting an earlier number repeats those behind it."""
        return self.keys.taken

    @random_state.setter
    def random_state(self, taken: int) -> None:
        self.keys.taken = taken

    def scaled_logits(
        self, logits: mx.array, tokens: Sequence[int], *, prompt_tokens: int = 0
    ) -> mx.array:
        """Return the logits after biases and penalties, at the sampler's temperature.

        No filter is applied. A greedy sampler has temperature 1 here.

        Args:
            logits: Shape (..., vocabulary), any float type.
            tokens: The token ids so far, for penalties.
            prompt_tokens: Number of leading ``tokens`` that are the prompt.

        Returns:
            float32, the same shape.
        """
        adjusted = adjust_logits(logits, self.parameters, tokens, prompt_tokens)
        return apply_temperature(adjusted, self.parameters.temperature or 1.0)

    def filtered_options(self, logprobs: mx.array) -> mx.array:
        """Apply the filters to a distribution of whole options, and normalise it.

        Args:
            logprobs: Log-probabilities at the sampler's temperature, float32, shape (options,).

        Returns:
            Log-probabilities of the same shape; ``-inf`` for options that are never chosen.
        """
        logprobs = apply_filters(logprobs, self.parameters)
        return logprobs - mx.logsumexp(logprobs)

    def option_noise(self, count: int) -> mx.array:
        """Return noise by which options are drawn, made with the next random key.

        The option with the largest sum of log-probability and noise is a draw from the distribution
        (Gumbel-max trick). The noise of a greedy sampler is 0.

        Args:
            count: Number of options.

        Returns:
            float32, shape (count,), not evaluated.
        """
        if self.parameters.temperature == 0:
            return mx.zeros((count,))
        key = self.keys.next_key()
        return mx.random.gumbel((count,), key=key)

    def _adjusted(
        self,
        logits: mx.array,
        tokens: Sequence[int],
        among: mx.array | None,
        prompt_tokens: int,
    ) -> mx.array:
        """Return the logits after biases and penalties: of all tokens, or of the candidates."""
        few = logits if among is None else take_candidates(logits, self.parameters, among)
        if not self._adjusts:
            return few.astype(mx.float32)
        return adjust_logits(few, self.parameters, tokens, prompt_tokens, among)

    def _draw(self, logits: mx.array, ids: mx.array | None = None) -> mx.array:
        """Draw a token.

        Args:
            logits: Of the tokens ``ids``, or of all.
            ids: Token ids, shape (n,).

        Returns:
            An index into ``logits``.
        """
        parameters = self.parameters
        if parameters.temperature == 0:
            return mx.argmax(logits, axis=-1)
        keys = RandomKeys.next_keys((self.keys,))
        if not self._has_filters and parameters.temperature == 1:
            return draw_rows(logits.reshape(1, -1), keys).reshape(logits.shape[:-1])
        excludes: mx.array | None = None
        if self._has_xtc:
            keys, other = mx.random.split(keys[0])[:, None]
            excludes = mx.random.uniform(key=other[0]) < parameters.xtc_probability
        scaled = self._filtered(logits, ids, excludes)
        token = draw_rows(scaled.reshape(1, -1), keys)
        return token.reshape(scaled.shape[:-1])

    def _filtered(
        self, logits: mx.array, ids: mx.array | None, excludes: mx.array | None
    ) -> mx.array:
        """Filter and scale the logits of the tokens ``ids``, or of all."""
        if self._has_filters:
            special = self._xtc_special_tokens
            logits = apply_filters(logits, self.parameters, excludes, special, ids)
        return apply_temperature(logits, self.parameters.temperature)

    def _log_draw(self, logits: mx.array, ids: mx.array | None = None) -> mx.array:
        """Return the distribution that :meth:`_draw` draws from, float32, shape (n,)."""
        logits, parameters = logits.reshape(-1), self.parameters
        if parameters.temperature == 0:
            is_best = mx.arange(logits.size) == mx.argmax(logits)
            return mx.where(is_best, mx.array(0.0), -mx.inf)

        def distribution(excludes: mx.array | None) -> mx.array:
            scaled = self._filtered(logits, ids, excludes)
            return scaled - log_sum(scaled)

        if not parameters.has_xtc:
            return distribution(None)
        excluding = distribution(mx.array(True)) + mx.log(mx.array(parameters.xtc_probability))
        other = distribution(None) + mx.log1p(mx.array(-parameters.xtc_probability))
        return mx.logaddexp(excluding, other)


def make_sampler(
    parameters: SamplingParameters | None = None,
    stream: tuple[int, ...] = (),
    xtc_special_tokens: Sequence[int] = (),
) -> Sampler:
    """Return the sampler of a request; greedy without parameters. See :class:`Sampler`."""
    return Sampler(parameters or SamplingParameters(), stream, xtc_special_tokens)
