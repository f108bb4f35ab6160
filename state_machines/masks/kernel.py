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

VERSION = 2
"""What ``walk.c`` says of itself; both are raised when a function changes."""

LIBRARY = Path(__file__).with_name("walk.so")


class Kernel:
    """The functions of the compiled library.

    Raises :class:`OSError` if it cannot be loaded, or was compiled from another ``walk.c``, and
    :class:`ValueError` if it is another library.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        version = ctypes.c_int32.in_dll(library, "version").value
        if version != VERSION:
            raise OSError(f"{path} is of version {version}, not {VERSION}: install again")
        self._walk = library.walk
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
    except (OSError, ValueError):
        return None


KERNEL = _load()
