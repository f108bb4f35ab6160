"""Masks on the device: each is sent there once, as long as it is among the last that were used."""

from __future__ import annotations

from collections import OrderedDict

import mlx.core as mx
import numpy as np
import numpy.typing as npt

__all__ = ["DeviceMasks"]

MAX_MASKS = 64
"""Masks that are kept; one of 150,000 tokens takes 150 KB."""


class DeviceMasks:
    """The last masks of one request. States of a grammar share their arrays, so they come again."""

    def __init__(self) -> None:
        # With the array that a mask was made of, so that its id stays its own.
        self._masks: OrderedDict[int, tuple[npt.NDArray[np.bool_], mx.array]] = OrderedDict()

    def on_device(self, mask: npt.NDArray[np.bool_]) -> mx.array:
        """Return a mask as an array of the device: bool, of the same shape."""
        known = self._masks.get(id(mask))
        if known is None:
            known = self._masks[id(mask)] = mask, mx.array(mask)
            if len(self._masks) > MAX_MASKS:
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(id(mask))
        return known[1]
