"""Forward passes whose logits are computed on demand.

A pass is dispatched up to the input of the output layer. While the device computes it, the CPU
computes the masks of the next tokens. Then, where a mask allows few tokens, only their logits are
computed. The other positions of the pass share one matrix product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module

from ..results.parts import Logprob, TokenLogprobs
from .output_layer import OutputLayer

PASS_TOKENS = 128
"""Tokens of a pass of ``following_logprobs``. All of its logits are in memory together."""


class ForwardPass:
    """Runs the forward passes of one model. To be used on the thread that runs the model.

    Args:
        model: The model.
        state_layers: Layers whose outputs are the hidden states of a pass, in ascending order;
            none: the hidden states are the inputs of the output layer.

    Attributes:
        model: The model.
    """

    def __init__(self, model: Module, state_layers: Sequence[int] = ()) -> None:
        self.model = model
        self._state_layers = tuple(state_layers)
        self._output_layer: OutputLayer | None = None
        self._is_checked = False

    @classmethod
    def of(cls, model: Module | ForwardPass) -> ForwardPass:
        """Return the argument, or the passes of a model."""
        return model if isinstance(model, ForwardPass) else cls(model)

    def split_output_layer(self) -> OutputLayer | None:
        """Return the model's output layer; ``None`` if it cannot be split off.

        With an output layer, the logits of a token cost nothing unless they are used. The first
        call runs the model on two tokens.
        """
        if not self._is_checked:
            self._is_checked = True
            self._output_layer = OutputLayer.of(self.model, self._state_layers)
        return self._output_layer

    def __call__(self, tokens: mx.array, cache: list[Any], **arguments: Any) -> PassOutput:
        """Run a pass. Nothing is evaluated.

        Args:
            tokens: Shape (rows, tokens).
            cache: The cache, which is updated.
            **arguments: Other arguments of the model's call, such as input embeddings.
        """
        layer = self._output_layer if self._is_checked else self.split_output_layer()
        if layer is None:
            return PassOutput(run_model(self.model, tokens, cache, arguments))
        hidden, logits, states = layer.forward(tokens, cache, arguments)
        return PassOutput(logits, hidden, layer, states)


def run_model(
    model: Module, tokens: mx.array, cache: Sequence[Any], arguments: Mapping[str, Any]
) -> mx.array:
    """Run a pass that computes all logits. Nothing is evaluated.

    Args:
        model: The model.
        tokens: Shape (rows, tokens).
        cache: The cache, which is updated.
        arguments: Other arguments of the model's call.

    Returns:
        Shape (rows, tokens, vocabulary).
    """
    logits: mx.array = model(tokens, cache=cache, **arguments)
    return logits


def position_arguments(rope_deltas: Sequence[int]) -> dict[str, mx.array]:
    """Return the argument of a model's call that sets the positions of its tokens.

    Args:
        rope_deltas: The rope delta of each row, see ``PromptInputs``.

    Returns:
        ``rope_deltas``, int32, shape (rows, 1); nothing if all are 0, as they are for text.
    """
    if not any(rope_deltas):
        return {}
    return {"rope_deltas": mx.array(list(rope_deltas), mx.int32)[:, None]}


class PassOutput:
    """The output of a forward pass, not evaluated.

    Args:
        logits: Logits behind all tokens, shape (rows, tokens, vocabulary).
        hidden: The output layer's inputs, shape (rows, tokens, hidden).
        layer: The output layer. Without it, all logits are computed with the pass.
        states: The hidden states, shape (rows, tokens, width), if they are not ``hidden``.

    Attributes:
        logits: Logits behind all tokens.
    """

    def __init__(
        self,
        logits: mx.array,
        hidden: mx.array | None = None,
        layer: OutputLayer | None = None,
        states: mx.array | None = None,
    ) -> None:
        self.logits = logits
        self._hidden = logits if hidden is None else hidden
        self._layer = layer
        self._states = self._hidden if states is None else states
        self._positions: list[tuple[int, int]] = []
        self._is_behind_rows = True
        self._inputs: mx.array | None = None
        self._chosen: mx.array | None = None

    def states(self, row: int, length: int) -> mx.array:
        """Return the hidden states of a row, not evaluated.

        Args:
            row: The row.
            length: Its tokens without padding.

        Returns:
            Shape (length, width).
        """
        return self._states[row, :length]

    def at(self, row: int, column: int) -> NextLogits:
        """Return the logits behind one token.

        To be called for all tokens whose logits may be used, before any logits are.
        """
        number = len(self._positions)
        self._positions.append((row, column))
        self._is_behind_rows &= row == number and column == self._hidden.shape[1] - 1
        return NextLogits(self, number)

    @property
    def inputs(self) -> mx.array:
        """The arrays that the pass computes before logits are used, at the positions of :meth:`at`.

        Inputs of the output layer, shape (positions, hidden), or without one logits of all tokens.
        Without a position, those behind all rows.
        """
        if self._inputs is None:
            is_every = self._is_behind_rows and len(self._positions) == len(self._hidden)
            if is_every or not self._positions:
                self._inputs = self._hidden[:, -1]
            else:
                rows, columns = zip(*self._positions, strict=True)
                self._inputs = self._hidden[mx.array(rows), mx.array(columns)]
        return self._inputs

    def all_at_once(self) -> mx.array:
        """Return the logits of all tokens at all positions, shape (positions, vocabulary)."""
        if self._chosen is None:
            # One product for all positions, which reads the weight once.
            inputs = self.inputs
            self._chosen = inputs if self._layer is None else self._layer.logits(inputs)
        return self._chosen

    def some_at(self, number: int, ids: mx.array) -> mx.array | None:
        """Return the logits of some tokens at one position, shape (1, n).

        Returns:
            ``None`` if the logits of all tokens are computed anyway.
        """
        if self._layer is None or self._chosen is not None:
            return None
        return self._layer.logits_of(self.inputs[number : number + 1], ids)


class NextLogits:
    """Logits of one sequence's next token, computed when they are used.

    Attributes:
        width: Size of the vocabulary.
    """

    def __init__(self, output: PassOutput, number: int) -> None:
        self.width: int = output.logits.shape[-1]
        self._output = output
        self._number = number

    @classmethod
    def known(cls, logits: mx.array) -> NextLogits:
        """Return logits that are computed for all tokens, shape (1, vocabulary)."""
        return PassOutput(logits[:, None]).at(0, 0)

    @staticmethod
    def stacked(rows: Sequence[NextLogits]) -> mx.array:
        """Return the logits of all tokens at several positions, shape (rows, vocabulary)."""
        output, numbers = rows[0]._output, [row._number for row in rows]
        if any(row._output is not output for row in rows):
            return mx.concatenate([row.all() for row in rows])
        logits = output.all_at_once()
        return logits if numbers == [*range(len(logits))] else logits[mx.array(numbers)]

    def all(self) -> mx.array:
        """Return the logits of all tokens, shape (1, vocabulary), not evaluated."""
        logits = self._output.all_at_once()
        return logits if len(logits) == 1 else logits[self._number : self._number + 1]

    def of(self, ids: mx.array) -> mx.array:
        """Return the logits of some tokens, not evaluated.

        Args:
            ids: Token ids, integers, shape (n,).

        Returns:
            Shape (1, n).
        """
        some = self._output.some_at(self._number, ids)
        return mx.take(self.all(), ids, axis=-1) if some is None else some


def following_logprobs(
    model: Module,
    cache: list[Any],
    tokens: Sequence[int],
    following: Sequence[int],
    top: int,
) -> list[TokenLogprobs]:
    """Run a pass over tokens, and return the log-probabilities of the tokens behind them.

    The probabilities are those without a mask.

    Args:
        model: The model. To be called on its thread.
        cache: The cache of the tokens before, which is updated.
        tokens: The tokens of the pass.
        following: The token behind each of them, at most as many.
        top: The number of most likely tokens at each position.
    """
    logits = run_model(model, mx.array([*tokens])[None], cache, {})[0, : len(following)]
    logits = logits.astype(mx.float32)
    logprobs = logits - mx.logsumexp(logits, axis=1, keepdims=True)
    ids = mx.argsort(-logits, axis=1)[:, :top]
    # In the first column, the token itself.
    ids = mx.concatenate([mx.array([*following])[:, None], ids.astype(mx.int32)], axis=1)
    likely = mx.take_along_axis(logprobs, ids, axis=1)
    mx.eval(ids, likely, [layer.state for layer in cache])
    rows = zip(np.array(ids).tolist(), np.array(likely).tolist(), strict=True)
    found = [[*map(_logprob, *row)] for row in rows]
    return [TokenLogprobs(chosen, tuple(others)) for chosen, *others in found]


def _logprob(token_id: int, number: float) -> Logprob:
    # Nothing is masked.
    return Logprob(token_id, number, number)
