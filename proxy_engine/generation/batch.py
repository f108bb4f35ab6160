"""The loop: rows that are written together, a token each a step, each under a mask of its own.

A step has two halves that run at the same time. The forward pass for the next token is handed to
the device as soon as the last token is *described*, before anyone knows which one it is; while
the device works on it, the token is read, the matcher advances, and the next mask is computed on
the CPU. Only then is the mask laid over the logits, and sampling added to the work in flight. A
logits processor inside mlx-lm's own loop cannot do this: there the mask is asked for between two
passes, when the device has nothing to do.

Text that the grammar forces is not sampled at all: its tokens are run in one pass. Where it is
likely that some follows in any row, the pass waits for the last tokens to be read, so that all go
together; masks are computed while it runs, then too. Caches that cannot take more of one row than
of another, sliding windows and recurrent states, get it token by token.

A single row is a batch of one, with the caches that mlx-lm has for a single text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mlx.core as mx
from mlx.nn.layers.base import Module

from .batch_probe import BatchProbe
from .cache_layers import (
    can_be_merged,
    can_be_spread,
    can_forget,
    extended,
    extracted,
    forget,
    merged,
    only_rows,
    spread,
    without_padding,
)
from .sampled_token import SampledToken
from .sequence_state import SequenceState, SlowMaskError
from .tokens import Token

__all__ = ["Batch", "Step"]

_STEPS_BETWEEN_CACHE_CLEARINGS = 256
_MOST_PADDING = 64
"""Columns of padding in all rows, from which on it is worth a copy to drop them."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step has come to for one row: its new tokens, or what went wrong with it alone.

    ``is_slow``: the row's mask was not there in time. It has to :meth:`~Batch.leave`, until
    :meth:`SequenceState.compute_mask` has returned.
    """

    row: SequenceState
    tokens: list[Token]
    error: Exception | None = None
    is_slow: bool = False


class Batch:
    """Rows that are run through one model together. To be used by one thread.

    ``quantize`` is called with the caches after every pass; caches that it quantized cannot be
    put together with others. Rows of a model whose logits in a batch differ from those of a row
    alone are run one at a time; ``probe`` finds that out, and may be shared by batches of a model.

    ``spreads``: whether rows may go on by different numbers of tokens in one pass, as wide as the
    longest of them asks for. ``None``: on a GPU, where a pass costs little more for its width; a
    CPU pays for padding as for tokens.
    """

    def __init__(
        self,
        model: Module,
        *,
        quantize: Callable[[list[Any]], None] | None = None,
        spreads: bool | None = None,
        probe: BatchProbe | None = None,
    ) -> None:
        self._model = model
        self._probe = probe or BatchProbe(model)
        if spreads is None:
            spreads = mx.default_device().type == mx.DeviceType.gpu
        self._spreads = spreads
        self._quantize = quantize
        self._layers: list[Any] = []
        self._rows: list[SequenceState] = []
        # One row is held in caches of its own kind; several, and what is left of them, in others.
        self._is_merged = False
        self._steps = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Sequence[SequenceState]:
        """The rows, in the order in which they came."""
        return tuple(self._rows)

    def takes(self, layers: Sequence[Any]) -> bool:
        """Whether a row with such caches can join."""
        if not self._rows:
            return True
        can_grow = self._is_merged or can_be_merged(self._layers)
        can_join = self._quantize is None and can_grow and can_be_merged(layers)
        return can_join and self._probe.can_decode

    @property
    def takes_padding(self) -> bool:
        """Whether the model can read several prompts in one pass."""
        return self._quantize is None and self._probe.can_pad

    def join(self, row: SequenceState, layers: list[Any]) -> None:
        """Take a row whose prompt has been read: it has ``logits``. The caches are the batch's."""
        if not self._rows:
            self._layers = layers
            self._is_merged = False
        elif self._is_merged:
            self._layers = extended(self._layers, merged([layers]))
        else:
            self._layers = merged([self._layers, layers])
            self._is_merged = True
        self._rows.append(row)

    def join_several(self, rows: Sequence[SequenceState], layers: list[Any]) -> None:
        """Take rows whose prompts have been read together, with their batch caches."""
        if not self._rows:
            self._layers = layers
        elif self._is_merged:
            self._layers = extended(self._layers, layers)
        else:
            self._layers = extended(merged([self._layers]), layers)
        self._is_merged = True
        self._rows += rows

    def leave(self, row: SequenceState, *, wants_layers: bool = True) -> list[Any] | None:
        """Let a row go, and return its caches, if they are wanted.

        They have read ``row.fed`` tokens, or one more.
        """
        index = self._rows.index(row)
        layers = None
        if not self._is_merged:
            layers, self._layers = self._layers, []
        else:
            if wants_layers:
                layers = extracted(self._layers, index)
            others = [n for n in range(len(self._rows)) if n != index]
            if others:
                only_rows(self._layers, others)
            else:
                self._layers = []
        del self._rows[index]
        return layers

    def settle(self) -> None:
        """Hold a row that is left alone as a single one, which is quicker.

        To be called where no other is about to join.
        """
        if self._is_merged and len(self._rows) == 1:
            self._layers = extracted(self._layers, 0)
            self._is_merged = False

    def step(self) -> list[Step]:
        """Choose a token for every row that has logits, and take it, and what is forced by it.

        Rows that are finished then should :meth:`leave`; then the others go on: :meth:`feed`.
        Whatever is raised concerns all rows.
        """
        choices, others = self._choices()
        runs_ahead = len(choices) == len(self._rows) and self._may_run_ahead()
        arrays = [array for choice in choices.values() for array in choice.arrays]
        before = {row: row.logits for row in choices}
        # By themselves: what one call evaluates is there when all of it is, and tokens are read
        # while the next pass runs.
        mx.async_eval(*arrays)
        if runs_ahead:
            tokens = mx.concatenate([choice.token for choice in choices.values()])
            self._forward(tokens[:, None], [1] * len(self._rows))
        token_ids = self._read(choices)
        for row in list(token_ids):
            try:
                if row.accepts(token_ids[row]):
                    continue
                # What it begins would take more tokens than there are.
                if runs_ahead:
                    forget(self._layers, 1)
                    runs_ahead = False
                choices[row] = row.choose(_given(before[row]), exact=True)
            except Exception as error:
                others.append(_failed(row, error))
                del token_ids[row]
            else:
                token_ids |= self._read({row: choices[row]})
        taken = [
            self._take(row, choices[row], token_id, was_fed=runs_ahead)
            for row, token_id in token_ids.items()
        ]
        return others + taken

    def feed(self) -> None:
        """Give the model what was taken, unless some row has logits to be sampled from first.

        To be called after every step.
        """
        if not self._rows or not all(row.pending for row in self._rows):
            return
        # What does not fit into this pass is left for the next ones.
        most = None if self._may_differ() else 1
        given = [row.pending[:most] for row in self._rows]
        for row, tokens in zip(self._rows, given, strict=True):
            del row.pending[: len(tokens)]
        lengths = [len(tokens) for tokens in given]
        longest = max(lengths)
        padded = mx.array([[*tokens, *[0] * (longest - len(tokens))] for tokens in given])
        if min(lengths) == longest:
            self._forward(padded, lengths)
        else:
            with spread(self._layers, lengths):
                self._forward(padded, lengths)
            mx.async_eval([layer.state for layer in self._layers])
            most_fed = max(row.fed for row in self._rows)
            without_padding(self._layers, most_fed, at_least=_MOST_PADDING)

    def _may_differ(self) -> bool:
        """Whether rows may go on by different numbers of tokens in one pass."""
        if not self._is_merged:
            return True
        return self._spreads and can_be_spread(self._layers) and self._probe.can_pad

    def _choices(self) -> tuple[dict[SequenceState, SampledToken], list[Step]]:
        """Describe a choice for each row that has logits, unless that fails or takes too long.

        A row where it fails is finished.
        """
        choices: dict[SequenceState, SampledToken] = {}
        others = []
        for row in self._rows:
            if row.pending:
                continue
            try:
                choices[row] = row.choose(_given(row.logits))
            except SlowMaskError:
                others.append(Step(row, [], is_slow=True))
            except Exception as error:
                others.append(_failed(row, error))
        return choices, others

    def _take(
        self, row: SequenceState, choice: SampledToken, token_id: int, *, was_fed: bool
    ) -> Step:
        try:
            with row.timings.during("advance"):
                tokens = [row.take(choice, token_id)]
                if was_fed:
                    row.pending.clear()
                return Step(row, tokens + row.take_forced())
        except Exception as error:
            return _failed(row, error)

    def _may_run_ahead(self) -> bool:
        rows = self._rows
        if any(row.expects_forced for row in rows) or all(row.is_at_limit for row in rows):
            return False
        return can_forget(self._layers, 1) or not any(row.may_be_refused for row in rows)

    def _read(self, choices: Mapping[SequenceState, SampledToken]) -> dict[SequenceState, int]:
        """Wait for tokens."""
        started = time.perf_counter()
        found = {row: cast(int, choice.token.item()) for row, choice in choices.items()}
        ended = time.perf_counter()
        for row in self._rows:
            row.timings.add("wait", started, ended)
            if row.timings.first_token is None and row in choices:
                row.timings.first_token = ended
        return found

    def _forward(self, tokens: mx.array, lengths: Sequence[int]) -> None:
        """Describe a pass over ``tokens``, shape (rows, longest length), and begin with it.

        Each row gets the logits after its last token.
        """
        started = time.perf_counter()
        logits: mx.array = self._model(tokens, cache=self._layers)
        if self._quantize is not None:
            self._quantize(self._layers)
        if min(lengths) == tokens.shape[1]:
            last = logits[:, -1, :]
        else:
            last = logits[mx.arange(len(lengths)), mx.array([length - 1 for length in lengths])]
        mx.async_eval(last)
        ended = time.perf_counter()
        for index, row in enumerate(self._rows):
            row.logits = last if len(self._rows) == 1 else last[index : index + 1]
            row.timings.add("dispatch", started, ended)
            row.timings.step += 1
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_CACHE_CLEARINGS == 0:
            mx.clear_cache()


def _failed(row: SequenceState, error: Exception) -> Step:
    row.finished = True
    return Step(row, [], error)


def _given(logits: mx.array | None) -> mx.array:
    if logits is None:
        raise AssertionError("a row without pending tokens has logits")
    return logits
