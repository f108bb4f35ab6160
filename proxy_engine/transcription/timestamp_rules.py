"""Which tokens may follow when Whisper writes timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_audio.stt.models.whisper.decoding import ApplyTimestampRules


class TimestampRules(ApplyTimestampRules):  # type: ignore[misc]
    """The rules of OpenAI's decoder: timestamps come in pairs and never decrease.

    In OpenAI's ``whisper/decoding.py``, probabilities are compared after the rules have excluded
    tokens, and a timestamp is never smaller than the last one. mlx-audio 0.6.2 compares before,
    which can exclude all tokens, so that it writes token 0 (``!``), and it compares timestamps with
    the index of the last one.
    """

    def apply(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """Exclude tokens.

        Args:
            logits: Shape (1, vocabulary).
            tokens: The tokens so far, shape (1, tokens).

        Returns:
            The logits, ``-inf`` for excluded tokens.
        """
        first = self.tokenizer.timestamp_begin
        written = cast(list[int], tokens[0, self.sample_begin :].tolist())
        allowed = np.zeros(logits.shape[-1], np.float32)
        allowed[self._excluded(written, len(allowed))] = -np.inf
        logits = logits + mx.array(allowed)
        of_text = logits[:, :first].max(axis=-1, keepdims=True)
        of_times = mx.logsumexp(logits[:, first:], axis=-1, keepdims=True)
        # The probability of all timestamps together decides between text and a timestamp.
        text = mx.where(of_times > of_text, -mx.inf, logits[:, :first])
        return mx.concatenate([text, logits[:, first:]], axis=-1)

    def _excluded(self, written: Sequence[int], width: int) -> npt.NDArray[np.bool_]:
        """Return the mask of the tokens that must not come next, shape (vocabulary,)."""
        first = self.tokenizer.timestamp_begin
        excluded = np.zeros(width, np.bool_)
        if self.tokenizer.no_timestamps is not None:
            excluded[self.tokenizer.no_timestamps] = True
        if not written:
            excluded[:first] = True
            if self.max_initial_timestamp_index is not None:
                excluded[first + self.max_initial_timestamp_index + 1 :] = True
            return excluded
        opens = written[-1] >= first and (len(written) < 2 or written[-2] >= first)
        closes = written[-1] >= first and not opens
        if opens:
            excluded[first:] = True
        if closes:
            excluded[: self.tokenizer.eot] = True
        times = [token for token in written if token >= first]
        # A segment that is not empty takes some time.
        smallest = times[-1] if closes else times[-1] + 1
        excluded[first:smallest] = True
        return excluded
