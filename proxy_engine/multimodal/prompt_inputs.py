"""What a multimodal model reads of one prompt beside its token ids.

The processor's arrays are NumPy's until the prefill, since arrays of MLX belong to the thread that
creates them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

from ..errors import PromptError
from .language_model import without_state

_BY_TOKEN = frozenset({"token_type_ids", "mm_token_type_ids"})
"""Arguments with one number for each token, which are cut to the tokens of a pass here. mlx-vlm's
models cut the others themselves, by the cache's offset."""


@dataclass(slots=True)
class MediaInputs:
    """The media of one prompt; implements ``PromptInputs``.

    Input embeddings of the whole prompt are computed before the first pass over a medium. If the
    cache holds all media already, only the positions of the text behind them are computed.

    Args:
        model: mlx-vlm's model.
        token_ids: Token ids as the processor writes them, shape (tokens,).
        arrays: What the processor returns beside the token ids. NumPy's arrays become MLX's.
        media_end: See ``PromptInputs``.
        single_pass_end: See ``PromptInputs``.
    """

    model: Module
    token_ids: npt.NDArray[np.int64]
    arrays: Mapping[str, Any]
    media_end: int
    single_pass_end: int = 0
    rope_delta: int = field(init=False, default=0)
    _embeddings: mx.array | None = field(init=False, default=None)
    _positions: mx.array | None = field(init=False, default=None)
    _others: dict[str, Any] = field(init=False, default_factory=dict)

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        """Compute the input embeddings, unless the cache holds all media."""
        language_model = self.model.language_model
        with without_state(language_model):
            if cached_tokens >= self.media_end:
                self.rope_delta = self._rope_delta()
                return
            given = _to_mlx(self.arrays)
            features = self._features(given)
            self._embeddings = features.pop("inputs_embeds")
            if self._embeddings.shape[1] != len(self.token_ids):
                raise PromptError(
                    f"mlx-vlm computes {self._embeddings.shape[1]} input embeddings for the "
                    f"{len(self.token_ids)} tokens of this prompt",
                    hint="This version of mlx-vlm does not support images of this model.",
                )
            positions = features.pop("position_ids", None)
            if positions is None:
                positions = getattr(language_model, "_position_ids", None)
            self._positions = positions
            delta = features.pop("rope_deltas", None)
            if delta is None:
                delta = getattr(language_model, "_rope_deltas", None)
            self.rope_delta = 0 if delta is None else _first(delta)
        for name in ("pixel_values", "attention_mask"):
            given.pop(name, None)
        self._others = {**given, **features}
        # The vision tower runs here, so that its arrays are not kept until the last pass.
        mx.eval(self._embeddings, list(features.values()))

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        """Return the keyword arguments of the model's call over the tokens [start, end)."""
        if self._embeddings is None:
            raise RuntimeError("the inputs of this prompt are not prepared")
        # A slice is a new array: some models scale their input embeddings in place.
        given: dict[str, Any] = {"inputs_embeds": self._embeddings[:, start:end]}
        if self._positions is not None:
            given["position_ids"] = self._cut(self._positions, start, end)
        for name, value in self._others.items():
            given[name] = self._cut(value, start, end) if name in _BY_TOKEN else value
        return given

    def release(self) -> None:
        """Drop the input embeddings."""
        self._embeddings = self._positions = None
        self._others = {}

    def _features(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the input embeddings, and what else the language model takes."""
        others = {
            name: value
            for name, value in given.items()
            if name not in ("pixel_values", "attention_mask")
        }
        features = self.model.get_input_embeddings(
            self._ids(),
            given.get("pixel_values"),
            mask=given.get("attention_mask"),
            **others,
        )
        return {name: value for name, value in features.to_dict().items() if value is not None}

    def _rope_delta(self) -> int:
        """Return the rope delta, without input embeddings."""
        rope_index = getattr(self.model.language_model, "get_rope_index", None)
        if rope_index is None:
            return 0
        names = inspect.signature(rope_index).parameters
        given = {name: value for name, value in _to_mlx(self.arrays).items() if name in names}
        return _first(rope_index(self._ids(), **given)[1])

    def _ids(self) -> mx.array:
        return mx.array(self.token_ids)[None]

    def _cut(self, array: mx.array, start: int, end: int) -> mx.array:
        """Cut an array of the whole prompt to some tokens.

        The axis of the tokens is the last one of the prompt's length.
        """
        axis = max(n for n, size in enumerate(array.shape) if size == len(self.token_ids))
        cut: mx.array = array[(slice(None),) * axis + (slice(start, end),)]
        return cut


class HalfPrecision:
    """An array of ``bfloat16``, which NumPy does not have, as ``float32``."""

    def __init__(self, values: npt.NDArray[np.float32]) -> None:
        self.values = values


def to_numpy(value: Any) -> Any:
    """Return an argument of a model with NumPy's arrays in place of MLX's."""
    if isinstance(value, mx.array):
        if value.dtype == mx.bfloat16:
            return HalfPrecision(np.array(value.astype(mx.float32)))
        return np.array(value)
    if isinstance(value, list | tuple):
        return [to_numpy(part) for part in value]
    return value


def array_bytes(value: Any) -> int:
    """Return the memory of the arrays in an argument of ``to_numpy``'s form, in bytes."""
    if isinstance(value, HalfPrecision):
        return value.values.nbytes
    if isinstance(value, list):
        return sum(map(array_bytes, value))
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _to_mlx(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _array_of_mlx(value) for name, value in arrays.items()}


def _array_of_mlx(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return mx.array(value)
    if isinstance(value, HalfPrecision):
        return mx.array(value.values).astype(mx.bfloat16)
    if isinstance(value, list):
        return [_array_of_mlx(part) for part in value]
    return value


def _first(value: Any) -> int:
    return int(cast(int, mx.array(value).reshape(-1)[0].item()))
