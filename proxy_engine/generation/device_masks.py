"""Masks of unconstrained text, and the masks on the device."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from state_machines import Vocabulary
from state_machines.caches import LruCache

MAX_MASKS = 256
"""Masks that are cached; one over 150,000 tokens takes 150 KB."""

_MAX_REDUCED = 16
"""Masks without end tokens that are cached."""

Mask = npt.NDArray[np.bool_]

_Reduction = tuple[int, tuple[int, ...], int]

SMALL_MASK_TOKENS = 64
"""A mask with at most this many allowed tokens is small: sampling reads only their logits."""


@dataclass(frozen=True, slots=True, eq=False)
class DeviceMask:
    """A mask with its copy on the device.

    Attributes:
        source: The mask on the CPU, bool, shape (vocabulary,). The reference keeps its ``id`` from
            being reused while the mask is cached.
        count: How many tokens are allowed.
        ids: The allowed tokens of a small mask, int32, ascending; otherwise ``None``.
    """

    source: Mask
    count: int
    ids: mx.array | None
    _copies: list[mx.array]

    @property
    def mask(self) -> mx.array:
        """The mask on the device, copied on first use: bool, shape (vocabulary,)."""
        if not self._copies:
            self._copies.append(mx.array(self.source))
        return self._copies[0]


class DeviceMasks:
    """LRU cache of one model's masks. Grammar states share mask arrays, so masks recur.

    To be used on the model thread.
    """

    def __init__(self) -> None:
        self._masks: OrderedDict[int, DeviceMask] = OrderedDict()
        # With the original, whose reference keeps its ``id`` from being reused.
        self._reduced: LruCache[_Reduction, tuple[Mask | None, Mask]] = LruCache(_MAX_REDUCED)

    def __len__(self) -> int:
        return len(self._masks)

    def without(self, mask: Mask | None, ids: tuple[int, ...], size: int) -> Mask:
        """Return a mask without some tokens; the mask itself if it allows no others.

        Args:
            mask: A mask that never changes, or ``None``: all tokens are allowed.
            ids: The tokens.
            size: The size of the mask.
        """
        key = id(mask), ids, size
        known = self._reduced.get(key)
        if known is not None:
            return known[1]
        others = np.ones(size, np.bool_) if mask is None else mask.copy()
        others[list(ids)] = False
        reduced = others if mask is None or others.any() else mask
        return self._reduced.put(key, (mask, reduced))[1]

    def on_device(self, mask: Mask) -> DeviceMask:
        """Return the device copy of a mask, bool, shape (vocabulary,), that never changes."""
        known = self._masks.get(id(mask))
        if known is not None:
            self._masks.move_to_end(id(mask))
            return known
        count = int(np.count_nonzero(mask))
        is_small = 0 < count <= SMALL_MASK_TOKENS
        ids = mx.array(np.flatnonzero(mask).astype(np.int32)) if is_small else None
        if len(self._masks) == MAX_MASKS:
            self._masks.popitem(last=False)
        made = self._masks[id(mask)] = DeviceMask(mask, count, ids, [])
        return made


def text_token_mask(vocabulary: Vocabulary) -> Mask | None:
    """Return the mask of unconstrained text: text and end tokens.

    Returns:
        Bool, shape (vocabulary,); ``None`` if all tokens are allowed.
    """
    usable = np.array(
        [
            form is not None and not form.startswith(Vocabulary.SPECIAL_MARK)
            for form in vocabulary.token_bytes
        ]
    )
    usable[list(vocabulary.end_token_ids)] = True
    return None if usable.all() else usable
