"""Masks on the device: each is sent there once, as long as it is among the last that were used."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

__all__ = ["DeviceMask", "DeviceMasks"]

MAX_MASKS = 256
"""Masks that are kept; one of 150,000 tokens takes 150 KB."""

MANY_TOKENS = 64
"""Allowed tokens up to which a choice is made among those alone."""


@dataclass(frozen=True, slots=True)
class DeviceMask:
    """A mask for the device. ``source`` keeps the array alive, so that its id stays its own.

    ``ids``: the allowed tokens, int32, ascending, where they are few; else ``None``. ``count``
    says how many there are.
    """

    source: npt.NDArray[np.bool_]
    count: int
    ids: mx.array | None
    _sent: list[mx.array]

    @property
    def mask(self) -> mx.array:
        """The mask as an array of the device: bool, of the same shape."""
        if not self._sent:
            self._sent.append(mx.array(self.source))
        return self._sent[0]


class DeviceMasks:
    """The last masks of one model. States of a grammar share their arrays, so they come again."""

    def __init__(self) -> None:
        self._masks: OrderedDict[int, DeviceMask] = OrderedDict()

    def on_device(self, mask: npt.NDArray[np.bool_]) -> DeviceMask:
        """Return a mask, bool, shape (vocabulary,), for the device; it must not change later."""
        known = self._masks.get(id(mask))
        if known is not None:
            self._masks.move_to_end(id(mask))
            return known
        count = int(np.count_nonzero(mask))
        few = 0 < count <= MANY_TOKENS
        ids = mx.array(np.flatnonzero(mask).astype(np.int32)) if few else None
        made = self._masks[id(mask)] = DeviceMask(mask, count, ids, [])
        if len(self._masks) > MAX_MASKS:
            self._masks.popitem(last=False)
        return made
