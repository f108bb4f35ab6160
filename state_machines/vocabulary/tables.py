"""Arrays that are derived from a vocabulary once and saved with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""One-dimensional arrays of int32 or uint8 by name."""


class Tables:
    """Groups of read-only arrays by name. Thread-safe.

    Tries and other structures look here before they derive arrays from a vocabulary, so those of a
    vocabulary that is loaded from a file are not derived again.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Mapping[str, Arrays] | None = None) -> None:
        self._groups: dict[str, Arrays] = dict(groups or {})

    def group(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a group, from ``make`` if there are none.

        Threads that ask at the same time may both make them; all get the same arrays.
        """
        found = self._groups.get(name)
        if found is None:
            made = make()
            for array in made.values():
                array.flags.writeable = False
            found = self._groups.setdefault(name, made)
        return found

    def groups(self) -> dict[str, Arrays]:
        """Return all groups so far."""
        return dict(self._groups)


def pack(texts: Collection[bytes]) -> tuple[Array, Array]:
    """Return the lengths of byte strings (int32) and their joined bytes (uint8)."""
    lengths = np.array([*map(len, texts)], np.int32)
    return lengths, np.frombuffer(b"".join(texts), np.uint8)


def unpack(lengths: Array, text: Array) -> list[bytes]:
    """Return the byte strings of :func:`pack`."""
    whole = text.tobytes()
    ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
    return [whole[first:last] for first, last in pairwise(ends)]
