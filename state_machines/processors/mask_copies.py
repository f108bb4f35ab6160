"""Copies of masks as arrays of a runtime, on its device."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from state_machines.caches import LruCache
from state_machines.errors import VocabularyError
from state_machines.processors.written_text import Mask
from state_machines.vocabulary import Vocabulary

T = TypeVar("T")

MAX_COPIES = 256
"""Copies that are cached; one over 150,000 tokens takes 150 KB."""


class MaskCopies(Generic[T]):
    """LRU cache of the copies of masks. Grammar states share mask arrays, so masks recur.

    Args:
        convert: Makes an array of the runtime from a mask: bool, shape (width,).
    """

    def __init__(self, convert: Callable[[Mask], T]) -> None:
        self._convert = convert
        self._copies: LruCache[tuple[int, int], tuple[Mask, T]] = LruCache(MAX_COPIES)

    @classmethod
    def shared(
        cls, vocabulary: Vocabulary, device: Hashable, convert: Callable[[Mask], T]
    ) -> MaskCopies[T]:
        """Return the copies of a vocabulary's masks on a device, kept as long as the vocabulary.

        Args:
            vocabulary: The vocabulary.
            device: The runtime and its device.
            convert: As for the constructor.
        """
        return _shared.setdefault(vocabulary, {}).setdefault(device, cls(convert))

    def of(self, mask: Mask, width: int) -> T:
        """Return the copy of a mask, as wide as the logits.

        Args:
            mask: Bool, shape (vocabulary size,). Must never change if it is read-only.
            width: The size of the last axis of the logits. Tokens behind the vocabulary are
                forbidden.

        Raises:
            VocabularyError: The logits are narrower than the vocabulary.
        """
        if mask.flags.writeable:  # Made for this token, so it will not come again.
            return self._convert(_padded(mask, width))
        key = (id(mask), width)
        known = self._copies.get(key)
        if known is None:
            # The mask is stored, so that its id is not used again.
            known = self._copies.put(key, (mask, self._convert(_padded(mask, width))))
        return known[1]


def _padded(mask: Mask, width: int) -> Mask:
    size = len(mask)
    if width == size:
        return mask
    if width < size:
        raise VocabularyError(
            f"the model has logits for {width} tokens, the vocabulary has {size}",
            hint="Give Vocabulary.from_tokenizer(tokenizer, size=width) in place of the tokenizer",
        )
    padded = np.zeros(width, np.bool_)
    padded[:size] = mask
    return padded


_shared: WeakKeyDictionary[Vocabulary, dict[Hashable, MaskCopies[Any]]] = WeakKeyDictionary()
