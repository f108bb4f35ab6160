"""Masks of unconstrained text, and the masks on the device."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from state_machines import Vocabulary
from state_machines.caches import LruCache

# First byte of a special token's form.
MAX_MASKS = 256
"""Masks that are cached; one over 150,000 tokens takes 150 KB."""

SMALL_MASK_TOKENS = 64
"""A mask with at most this many allowed tokens is small: sampling reads only their logits."""


@dataclass(frozen=True, slots=True)
class DeviceMask:
    """A mask with its copy on the device.

    Attributes:
        source: The mask on the CPU, bool, shape (vocabulary,). The reference keeps its ``id`` from
            being reused while the mask is cached.
        count: How many tokens are allowed.
        ids: The allowed tokens of a small mask, int32, ascending; otherwise ``None``.
    """

    source: npt.NDArray[np.bool_]
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
    """LRU cache of one model's masks. Grammar states share mask arrays, so masks recur."""

    def __init__(self) -> None:
        self._masks: LruCache[int, DeviceMask] = LruCache(MAX_MASKS)

    def __len__(self) -> int:
        return len(self._masks)

    def on_device(self, mask: npt.NDArray[np.bool_]) -> DeviceMask:
        """Return the device copy of a mask, bool, shape (vocabulary,), that never changes."""
        known = self._masks.get(id(mask))
        if known is not None:
            return known
        count = int(np.count_nonzero(mask))
        is_small = 0 < count <= SMALL_MASK_TOKENS
        ids = mx.array(np.flatnonzero(mask).astype(np.int32)) if is_small else None
        return self._masks.put(id(mask), DeviceMask(mask, count, ids, []))


def text_token_mask(vocabulary: Vocabulary) -> npt.NDArray[np.bool_] | None:
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
