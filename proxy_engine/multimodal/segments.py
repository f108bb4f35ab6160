"""Splits a prompt into segments of one image each, with their parts of the processor's arrays.

The image of a segment is embedded when the prefill reaches it. So a pass waits for few images, and
images that a cache holds are not embedded again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

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


def split_by_image(
    arrays: Mapping[str, Any], length: int, spans: Sequence[tuple[int, int]]
) -> list[Segment]:
    """Return segments that cover a prompt, each with one image, or one segment with all.

    Args:
        arrays: The processor's other outputs than token ids.
        length: Tokens of the prompt.
        spans: Start and end of each image's tokens, ascending.
    """
    cuts = {name: _cut(name, arrays, length, len(spans)) for name in arrays}
    if len(spans) < 2 or None in cuts.values():
        return [Segment(0, length, arrays)]
    edges = [0, *(end for _, end in spans[:-1]), length]
    return [
        Segment(start, end, {name: cut(number, start, end) for name, cut in cuts.items() if cut})
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    ]


def _cut(name: str, arrays: Mapping[str, Any], length: int, count: int) -> _Cut | None:
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
