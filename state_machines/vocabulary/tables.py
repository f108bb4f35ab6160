"""Arrays that are derived from a vocabulary: made once, and saved along with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Arrays", "Tables", "pack", "unpack"]

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
"""One-dimensional arrays of int32 or uint8 by name."""


class Tables:
    """Groups of arrays by name. Safe to use from several threads.

    Whoever derives something dear from a vocabulary asks here first, so that a vocabulary that is
    loaded from a file needs not derive it again. The arrays are read-only.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Mapping[str, Arrays] | None = None) -> None:
        self._groups: dict[str, Arrays] = dict(groups or {})

    def group(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a group, by ``make`` where it is not known yet.

        Threads that ask at the same time may both make it; all of them get the same one.
        """
        found = self._groups.get(name)
        if found is None:
            made = make()
            for array in made.values():
                array.flags.writeable = False
            found = self._groups.setdefault(name, made)
        return found

    def groups(self) -> dict[str, Arrays]:
        """Return all groups that are known by now."""
        return dict(self._groups)


def pack(texts: Collection[bytes]) -> tuple[Array, Array]:
    """Return byte strings as their lengths (int32) and all their bytes in a row (uint8)."""
    lengths = np.array([*map(len, texts)], np.int32)
    return lengths, np.frombuffer(b"".join(texts), np.uint8)


def unpack(lengths: Array, text: Array) -> list[bytes]:
    """Return the byte strings that :func:`pack` was given."""
    whole = text.tobytes()
    ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
    return [whole[first:last] for first, last in pairwise(ends)]
