"""Tokens of texts without a grammar, which are drawn before the tokens in front of them are read.

The mask of such a token depends on the number of tokens alone. So a pass and the draw of the tokens
behind it are dispatched together, and the device never waits for the CPU. The CPU learns one step
late that a text has ended: a pass and a draw are in vain then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx

from .forward_pass import NextLogits, position_arguments
from .sampling import NextToken
from .sequence import Sequence as GeneratedSequence
from .step import Step
from .timings import Work


class Lookahead:
    """Draws the next tokens of a batch's sequences; each has one row, in the same order.

    Args:
        sequences: The sequences.
        tokens: Their next tokens, which are not sampled, with equal ``row_parameters``.

    Attributes:
        sequences: The sequences.
        arguments: The arguments of a pass that set its positions.
        drawn: The last tokens that were drawn, which may be unread: a lazy array, shape (rows,).
    """

    def __init__(self, sequences: Sequence[GeneratedSequence], tokens: Sequence[NextToken]) -> None:
        self.sequences = sequences
        self.arguments: Mapping[str, Any] = position_arguments(
            [sequence.rope_delta for sequence in sequences]
        )
        self._steps = [Step(sequence) for sequence in sequences]
        self._set_tokens(tokens)
        self.draw(NextLogits.stacked([sequence.next_logits for sequence in sequences]))
        # Apart from the pass behind them: first tokens are read as soon as possible.
        mx.async_eval(self.drawn)

    @classmethod
    def of(cls, sequences: Sequence[GeneratedSequence]) -> Lookahead | None:
        """Draw the next tokens of sequences.

        Returns:
            ``None`` if a token depends on those before it by more than its logits, or if the
            tokens cannot be sampled together.
        """
        if not all(sequence.is_ready and sequence.is_free for sequence in sequences):
            return None
        tokens = [sequence.next_token() for sequence in sequences]
        parameters = tokens[0].row_parameters
        if parameters is None or any(token.row_parameters != parameters for token in tokens[1:]):
            return None
        return cls(sequences, tokens)

    def draw(self, logits: mx.array) -> None:
        """Draw the next tokens, without waiting for the device.

        Args:
            logits: Their logits, shape (rows, vocabulary).
        """
        if self._draws == 0:
            self._set_tokens([sequence.next_token(unread=1) for sequence in self.sequences], 1)
        NextToken.sample_together(self._tokens, logits)
        self._draws -= 1
        self.drawn = self._tokens[0].drawn

    def _set_tokens(self, tokens: Sequence[NextToken], unread: int = 0) -> None:
        self._tokens = tokens
        # The draws before a mask changes, because a text has its least number of tokens.
        missing = [sequence.constraint.missing_tokens - unread for sequence in self.sequences]
        self._draws = min((count for count in missing if count > 0), default=math.inf)

    def read(self, drawn: mx.array, dispatch: Work) -> list[Step]:
        """Wait for drawn tokens, and append them to their sequences.

        Args:
            drawn: The tokens, whose pass is dispatched.
            dispatch: The time of that.

        Returns:
            The steps of the sequences, until the next tokens are read.
        """
        started = time.perf_counter()
        mx.eval(drawn)
        ids: Any = drawn.tolist()
        ended = time.perf_counter()
        work: tuple[Work, ...] = (dispatch, ("wait", started, ended))
        for step, token_id in zip(self._steps, ids, strict=True):
            sequence = step.sequence
            step.tokens = [sequence.append_processed(token_id)]
            timings = sequence.timings
            if timings.first_token is None:
                timings.first_token = ended
            timings.add_all(work)
            timings.step += 1
        return self._steps

    def hand_over(self) -> None:
        """Let the steps of the sequences continue with the tokens that were drawn last."""
        for sequence, token in zip(self.sequences, self._tokens, strict=True):
            sequence.drawn = token
