"""Passes and draws that are dispatched before the tokens in front of them are read.

The mask of a token of a text without a grammar depends on the number of tokens alone. So a pass and
the draw of the tokens behind it are dispatched together, and the device never waits for the CPU.
The CPU learns one step late that a text has ended: a pass and a draw are in vain then. Where there
is a grammar, the pass alone is dispatched early.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import mlx.core as mx

from .batch_rows import BatchRows
from .cache_layers import can_trim
from .forward_pass import NextLogits, PassOutput, position_arguments
from .sampling import NextToken
from .sequence import GeneratedSequence
from .speculation.drafting import BatchDrafts
from .step import Step
from .timings import Work

RunPass: TypeAlias = Callable[[mx.array, Mapping[str, Any]], PassOutput]
"""Runs a pass over tokens, shape (rows, 1), with arguments of the model's call."""


class Lookahead:
    """Performs the steps of a batch whose sequences have no grammar; tells which passes run early.

    Args:
        rows: The sequences with their cache.
        drafts: Their drafts. Where a draft is expected, the token in front of it is read first.
    """

    def __init__(self, rows: BatchRows[GeneratedSequence], drafts: BatchDrafts) -> None:
        # Whether the last :meth:`step` performed none because drafts are expected.
        self._awaits_drafts = False
        self._rows = rows
        self._drafts = drafts
        self._draws: _Draws | None = None
        # Sequences whose tokens cannot be drawn ahead.
        self._unfit: Sequence[GeneratedSequence] | None = None

    def step(self, run: RunPass) -> list[Step] | None:
        """Dispatch a pass over drawn tokens and the next draw, then read the tokens.

        Args:
            run: Runs the pass.

        Returns:
            The steps of the sequences, until the next call; ``None`` if a token has to be read
            before the next pass or the next draw.
        """
        if not self._may_step():
            return None
        draws = self._draws = self._draws or _Draws.of(self._rows.sequences)
        if draws is None:
            self._unfit = self._rows.sequences
            return None
        started = time.perf_counter()
        drawn = draws.drawn
        output = run(drawn[:, None], draws.arguments)
        draws.draw(output.behind_rows())
        mx.async_eval(draws.drawn)
        return draws.read(drawn, ("dispatch", started, time.perf_counter()))

    def clear(self) -> None:
        """Release the sequences, which have left the batch."""
        self._draws = self._unfit = None

    def hand_over(self) -> bool:
        """Let the steps of the sequences begin with the tokens that were drawn last.

        Returns:
            Whether there are such tokens.
        """
        draws, self._draws = self._draws, None
        if draws is not None:
            draws.hand_over()
        return draws is not None

    def may_run_ahead(self) -> bool:
        """Whether to dispatch the next pass before the sampled tokens are read.

        Where :meth:`step` performed no step.
        """
        rows, may_refuse, may_draft, is_at_limit = self._rows, False, False, True
        if self._drafts.in_flight:
            return False
        for sequence in rows.sequences:
            constraint = sequence.constraint
            if constraint.has_grammar:
                if constraint.expects_fast_forward:
                    return False
                may_refuse = True
            may_draft = may_draft or sequence.drafting is not None
            is_at_limit = is_at_limit and sequence.is_at_limit
        if is_at_limit or self._awaits_drafts:
            return False
        if may_draft and self._drafts.are_expected():
            return False
        return not may_refuse or rows.is_plain or can_trim(rows.cache, 1)

    def _may_step(self) -> bool:
        sequences, draws = self._rows.sequences, self._draws
        self._awaits_drafts = False
        if self._drafts.in_flight or self._unfit is sequences:
            return False
        if draws is None:
            if self._drafts.read_states:
                return False
        elif draws.sequences is not sequences:
            return False
        is_at_limit = True
        for sequence in sequences:
            if sequence.constraint.has_grammar:
                return False
            is_at_limit = is_at_limit and sequence.is_at_limit
        if is_at_limit:
            return False
        self._awaits_drafts = self._drafts.are_expected()
        return not self._awaits_drafts


class _Draws:
    """Draws the next tokens of sequences; each has one row, in the same order.

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
        self.arguments = position_arguments([sequence.rope_delta for sequence in sequences])
        self._steps = [Step(sequence) for sequence in sequences]
        self._set_tokens(tokens)
        self.draw(NextLogits.stacked([sequence.next_logits for sequence in sequences]))
        # Apart from the pass behind them: first tokens are read as soon as possible.
        mx.async_eval(self.drawn)

    @classmethod
    def of(cls, sequences: Sequence[GeneratedSequence]) -> _Draws | None:
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
        if self._left == 0:
            self._set_tokens([sequence.next_token(unread=1) for sequence in self.sequences], 1)
        NextToken.sample_together(self._tokens, logits)
        self._left -= 1
        self.drawn = self._tokens[0].drawn

    def _set_tokens(self, tokens: Sequence[NextToken], unread: int = 0) -> None:
        self._tokens = tokens
        # The draws before a mask changes, because a text has its least number of tokens.
        missing = [sequence.constraint.missing_tokens - unread for sequence in self.sequences]
        self._left = min((count for count in missing if count > 0), default=math.inf)

    def read(self, drawn: mx.array, dispatch: Work) -> list[Step]:
        """Wait for drawn tokens, and append them to their sequences.

        Args:
            drawn: The tokens, whose pass is dispatched.
            dispatch: The time of that.
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
        """Give each sequence the token that was drawn last."""
        for sequence, token in zip(self.sequences, self._tokens, strict=True):
            sequence.drawn = token
