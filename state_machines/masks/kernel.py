"""The compiled inner loop of :mod:`state_machines.masks.automaton`, where it was built.

``walk.c`` is compiled when the package is installed, if there is a compiler; without it the same
is done in whole-array operations, more slowly.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from pathlib import Path

__all__ = ["KERNEL", "Kernel"]

LIBRARY = Path(__file__).with_name("walk.so")


class Kernel:
    """The functions of the compiled library. Raises :class:`OSError` if it cannot be loaded."""

    def __init__(self, path: Path) -> None:
        self._walk = ctypes.CDLL(str(path)).walk
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self._walk.argtypes = [
            *[pointer] * 3,
            number,
            *[pointer] * 6,
            number,
            pointer,
            number,
        ]
        self._walk.restype = number

    def walk(
        self,
        trie: Sequence[int],
        automaton: Sequence[array[int]],
        most: int,
        states: tuple[int, int],
        vertex: int,
    ) -> int:
        """Call the function of that name from a vertex on; see ``walk.c``.

        ``trie`` is where parent, letter and depth lie in memory, ``states`` where these do, and
        their number; ``automaton`` the arrays row_start, row_end, first, last, target and
        shortest, of C integers.
        """
        address, size = states
        rows = [numbers.buffer_info()[0] for numbers in automaton]
        found: int = self._walk(*trie, size, *rows, most, address, vertex)
        return found


def _load() -> Kernel | None:
    try:
        return Kernel(LIBRARY)
    except OSError:
        return None


KERNEL = _load()
