"""The compiled inner loop of :mod:`state_machines.masks.automaton`, where it was built.

``walk.c`` is compiled when the package is installed, if there is a compiler. Without it,
whole-array operations do the same more slowly.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from pathlib import Path

__all__ = ["KERNEL", "Kernel"]

VERSION = 2
"""The version of ``walk.c`` that is required; both are raised when a function changes."""

LIBRARY = Path(__file__).with_name("walk.so")


class Kernel:
    """The functions of the compiled library.

    Args:
        path: The library.

    Raises:
        OSError: The library cannot be loaded, or was compiled from another version of ``walk.c``.
        ValueError: The file is another library.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        version = ctypes.c_int32.in_dll(library, "version").value
        if version != VERSION:
            raise OSError(f"{path} has version {version}, not {VERSION}: reinstall the package")
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
        max_letters: int,
        states: tuple[int, int],
        vertex: int,
    ) -> int:
        """Call ``walk`` of ``walk.c``.

        Args:
            trie: The addresses of parent, letter and depth.
            automaton: The arrays row_start, row_end, first, last, target and shortest.
            max_letters: Greatest length of words.
            states: The address and the number of the states.
            vertex: The vertex to start from.

        Returns:
            The first vertex whose state is not known yet.
        """
        address, size = states
        rows = [numbers.buffer_info()[0] for numbers in automaton]
        found: int = self._walk(*trie, size, *rows, max_letters, address, vertex)
        return found


def _load() -> Kernel | None:
    try:
        return Kernel(LIBRARY)
    except (OSError, ValueError):
        return None


KERNEL = _load()
