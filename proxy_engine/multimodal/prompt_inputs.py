"""The inputs of a multimodal model for one prompt beside its token ids.

The processor's arrays are NumPy's until the prefill, since arrays of MLX belong to the thread that
creates them. A prompt is split into segments of one image each, which is embedded when the prefill
reaches it. So a pass waits for few images, and images that a cache holds are not embedded again.
"""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx.nn.layers.base import Module

from ..errors import PromptError
from .language_model import without_state

_log = logging.getLogger(__name__)

Ids: TypeAlias = npt.NDArray[np.int64]

_BY_TOKEN = frozenset({"token_type_ids", "mm_token_type_ids"})
"""Arguments with one number for each token, which are cut to the tokens of a pass here. mlx-vlm's
models cut the others themselves, by the cache's offset."""

_JOINED = frozenset({"inputs_embeds", "per_layer_inputs", "visual_pos_masks"})
"""Features of segments whose second axis is that of the tokens."""

_LAYERS = "deepstack_visual_embeds"
"""Feature with embeddings of the visual tokens for several layers, one array for each."""

_LEFT_OUT = frozenset({"attention_mask_4d", "position_ids", "rope_deltas"})
"""Features of segments that are not used: masks of models that attend to earlier tokens only, and
positions, which depend on the whole prompt."""


_Cut: TypeAlias = Callable[[int, int, int], Any]
"""Returns the part of an array for image ``number`` and the tokens ``[start, end)``."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of a prompt, and the arrays of their images.

    Attributes:
        start: The first token.
        end: End of the tokens.
        arrays: Arrays of the processor for these tokens and their images.
    """

    start: int
    end: int
    arrays: Mapping[str, Any]


@dataclass(slots=True)
class MediaInputs:
    """The media of one prompt; implements ``PromptInputs``.

    With a single segment, the input embeddings of the whole prompt are computed before the first
    pass over a medium, as mlx-vlm does it. Otherwise those of a segment are computed when a pass
    reaches it. If the cache holds all media already, only the rope delta is computed.

    Args:
        model: mlx-vlm's model.
        token_ids: Token ids as the processor writes them, shape (tokens,).
        arrays: The processor's other outputs than token ids. NumPy's arrays become MLX's.
        segments: The prompt by images, see ``split_by_image``.
        media_end: See ``PromptInputs``.
        single_pass_end: See ``PromptInputs``.
    """

    model: Module
    token_ids: Ids
    arrays: Mapping[str, Any]
    segments: Sequence[Segment]
    media_end: int
    single_pass_end: int = 0
    rope_delta: int = field(init=False, default=0)
    _positions: mx.array | None = field(init=False, default=None)
    _whole: dict[str, Any] | None = field(init=False, default=None)
    _embedded: dict[int, dict[str, Any]] | None = field(init=False, default=None)

    def prepare(self, cache: list[Any], cached_tokens: int) -> None:
        """Compute the input embeddings or the positions, whatever the cache does not hold."""
        with without_state(self.model.language_model):
            if cached_tokens >= self.media_end:
                self.rope_delta = self._rope_index()[1]
            elif not self._begin_segments(cached_tokens):
                self._embed_whole()

    def arguments(self, start: int, end: int) -> Mapping[str, Any]:
        """Return the keyword arguments of the model's call over the tokens [start, end)."""
        arguments = {}
        if self._positions is not None:
            arguments["position_ids"] = self._cut(self._positions, start, end)
        if self._whole is None:
            return {**arguments, **self._joined(start, end)}
        for name, value in self._whole.items():
            # A slice is a new array: some models scale their input embeddings in place.
            by_token = name == "inputs_embeds" or name in _BY_TOKEN
            arguments[name] = self._cut(value, start, end) if by_token else value
        return arguments

    def release(self) -> None:
        """Drop the input embeddings."""
        self._positions = self._whole = self._embedded = None

    def _embed_whole(self) -> None:
        """Compute the input embeddings of the whole prompt."""
        language_model = self.model.language_model
        arguments, features = self._features(self.token_ids, self.arrays)
        positions = features.pop("position_ids", None)
        if positions is None:
            positions = getattr(language_model, "_position_ids", None)
        self._positions = positions
        delta = features.pop("rope_deltas", None)
        if delta is None:
            delta = getattr(language_model, "_rope_deltas", None)
        self.rope_delta = 0 if delta is None else _first(delta)
        # The vision tower runs here, so that its arrays are not kept until the last pass.
        mx.eval(list(features.values()))
        self._whole = {**arguments, **features}

    def _begin_segments(self, cached_tokens: int) -> bool:
        """Compute the positions, and the embeddings of the first segment that is not cached.

        Returns:
            Whether the model can embed a segment alone.
        """
        if len(self.segments) == 1 or (
            _has_positions(self.model.language_model)
            and not hasattr(self.model.language_model, "get_rope_index")
        ):
            return False
        first = next(n for n, segment in enumerate(self.segments) if segment.end > cached_tokens)
        try:
            self._positions, self.rope_delta = self._rope_index()
            self._embedded = {first: self._features_of(self.segments[first])}
        except Exception as error:
            _log.info("the images of this model are embedded together: %s", error)
            self.release()
            return False
        return True

    def _features_of(self, segment: Segment) -> dict[str, Any]:
        """Return the features of a segment that the language model takes.

        Raises:
            ValueError: Features of segments cannot be joined.
        """
        ids = self.token_ids[segment.start : segment.end]
        with without_state(self.model.language_model):
            _, found = self._features(ids, segment.arrays)
        features = {name: value for name, value in found.items() if name not in _LEFT_OUT}
        layers = features.get(_LAYERS)
        unknown = features.keys() - _JOINED - {_LAYERS}
        if unknown or (layers is not None and not _has_row_per_visual_token(features)):
            raise ValueError(f"segments with {', '.join(sorted(features))} cannot be joined")
        mx.eval(list(features.values()))
        return features

    def _joined(self, start: int, end: int) -> dict[str, Any]:
        """Return the features of the tokens [start, end), which segments have in parts."""
        if self._embedded is None:
            raise RuntimeError("the inputs of this prompt are not prepared")
        parts = []
        for number, segment in enumerate(self.segments):
            if segment.end <= start:
                self._embedded.pop(number, None)
            elif segment.start < end:
                if number not in self._embedded:
                    self._embedded[number] = self._features_of(segment)
                begin = max(start - segment.start, 0)
                parts.append(_part(self._embedded[number], begin, end - segment.start))
        joined: dict[str, Any] = {
            name: mx.concatenate([part[name] for part in parts], axis=1)
            for name in parts[0].keys() & _JOINED
        }
        if _LAYERS in parts[0]:
            layers = zip(*(part[_LAYERS] for part in parts), strict=True)
            joined[_LAYERS] = [mx.concatenate(list(layer)) for layer in layers]
            if not len(joined[_LAYERS][0]):
                joined["visual_pos_masks"] = joined[_LAYERS] = None
        return joined

    def _features(
        self, token_ids: Ids, arrays: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of the language model: from the processor, and computed here."""
        arguments = to_mlx(arrays)
        pixels, mask = arguments.pop("pixel_values", None), arguments.pop("attention_mask", None)
        ids = mx.array(token_ids)[None]
        found = self.model.get_input_embeddings(ids, pixels, mask=mask, **arguments).to_dict()
        features = {name: value for name, value in found.items() if value is not None}
        count = features["inputs_embeds"].shape[1]
        if count != len(token_ids):
            raise PromptError(
                f"mlx-vlm computes {count} input embeddings for {len(token_ids)} tokens",
                hint="This version of mlx-vlm does not support images of this model.",
            )
        return arguments, features

    def _rope_index(self) -> tuple[mx.array | None, int]:
        """Return the positions of the prompt, and the rope delta, without input embeddings."""
        rope_index = getattr(self.model.language_model, "get_rope_index", None)
        if rope_index is None:
            return None, 0
        names = inspect.signature(rope_index).parameters
        arguments = {name: value for name, value in to_mlx(self.arrays).items() if name in names}
        positions, delta = rope_index(mx.array(self.token_ids)[None], **arguments)
        return positions, _first(delta)

    def _cut(self, array: mx.array, start: int, end: int) -> mx.array:
        """Cut an array of the whole prompt to some tokens.

        The axis of the tokens is the last one of the prompt's length, but for input embeddings.
        """
        sizes = array.shape[:2] if array.ndim == 3 and array.shape[0] == 1 else array.shape
        axis = max(n for n, size in enumerate(sizes) if size == len(self.token_ids))
        cut: mx.array = array[(slice(None),) * axis + (slice(start, end),)]
        return cut


def _part(features: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
    """Return the features of some tokens of a segment."""
    part = {name: features[name][:, start:end] for name in features.keys() & _JOINED}
    if _LAYERS in features:
        is_visual = np.array(features["visual_pos_masks"]).reshape(-1)
        rows = slice(int(is_visual[:start].sum()), int(is_visual[:end].sum()))
        part[_LAYERS] = [layer[rows] for layer in features[_LAYERS]]
    return part


def _has_row_per_visual_token(features: Mapping[str, Any]) -> bool:
    """Whether embeddings of later layers have one row for each visual token."""
    mask, layers = features.get("visual_pos_masks"), features[_LAYERS]
    if mask is None or mask.ndim != 2 or not isinstance(layers, list):
        return False
    count = int(mask.sum().item())
    return all(isinstance(layer, mx.array) and len(layer) == count for layer in layers)


def _has_positions(language_model: Module) -> bool:
    return hasattr(language_model, "_rope_deltas") or hasattr(language_model, "_position_ids")


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


def to_mlx(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a model with MLX's arrays in place of NumPy's."""
    return {name: _to_mlx(value) for name, value in arrays.items()}


def _to_mlx(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return mx.array(value)
    if isinstance(value, HalfPrecision):
        return mx.array(value.values).astype(mx.bfloat16)
    if isinstance(value, list):
        return [_to_mlx(part) for part in value]
    return value


def _first(value: Any) -> int:
    return int(cast(int, mx.array(value).reshape(-1)[0].item()))


def split_by_image(
    arrays: Mapping[str, Any], length: int, spans: Sequence[tuple[int, int]]
) -> list[Segment]:
    """Return segments that cover a prompt, each with one image, or one segment with all.

    Args:
        arrays: The processor's other outputs than token ids.
        length: Tokens of the prompt.
        spans: Start and end of each image's tokens, ascending.
    """
    cuts = {name: _array_cut(name, arrays, length, len(spans)) for name in arrays}
    if len(spans) < 2 or None in cuts.values():
        return [Segment(0, length, arrays)]
    edges = [0, *(end for _, end in spans[:-1]), length]
    return [
        Segment(start, end, {name: cut(number, start, end) for name, cut in cuts.items() if cut})
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]


def _array_cut(name: str, arrays: Mapping[str, Any], length: int, count: int) -> _Cut | None:
    """Return how an array is split; ``None`` if it is not known which part belongs to an image."""
    value = arrays[name]
    if isinstance(value, list) and len(value) == count:
        return lambda number, _start, _end: value[number : number + 1]
    if not isinstance(value, np.ndarray):
        return (lambda *_: value) if value is None or isinstance(value, str | int) else None
    if value.shape == (1, length):
        return lambda _number, start, end: value[:, start:end]
    if value.shape[:1] == (count,):
        return lambda number, _start, _end: value[number : number + 1]
    grids = arrays.get("image_grid_thw")
    if name == "pixel_values" and isinstance(grids, np.ndarray) and grids.shape == (count, 3):
        # Qwen's processors write the patches of all images one after the other.
        rows = np.concatenate([[0], np.cumsum(grids.prod(axis=1))])
        if rows[-1] == len(value):
            return lambda number, _start, _end: value[rows[number] : rows[number + 1]]
    return None


def single_pass_end(
    model: Module, token_ids: Ids, arrays: Mapping[str, Any], media_end: int
) -> int:
    """Return the number of leading tokens that a model processes in one pass only.

    The models of mlx-vlm state whether a prompt can be split, by a method or an attribute.

    Args:
        model: mlx-vlm's model.
        token_ids: The prompt.
        arrays: The processor's other outputs than token ids.
        media_end: End of the last medium.
    """
    parts = [model, model.language_model]
    policies = [getattr(part, "chunked_prefill_policy", None) for part in parts]
    policy = next(filter(callable, policies), None)
    if policy is not None:
        numbers = {
            name: mx.array(value)
            for name, value in arrays.items()
            if isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.integer)
        }
        allowed = policy(input_ids=mx.array(token_ids)[None], prefill_kwargs=numbers)
        can_split = bool(getattr(allowed, "enabled", allowed))
    else:
        can_split = not any(getattr(part, "no_chunked_prefill", False) for part in parts)
    if can_split:
        return 0
    configuration = getattr(model.language_model, "config", None)
    if getattr(configuration, "use_bidirectional_attention", None) == "vision":
        # Tokens attend to later ones within an image only.
        return media_end
    return len(token_ids)
