"""The compiled inner loop of :mod:`state_machines.masks.automaton`, where it was built.

``walk.c`` is compiled when the package is installed, if there is a compiler; without it the same
is done in whole-array operations, more slowly.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["KERNEL", "Kernel"]

_Numbers = npt.NDArray[np.int32]

LIBRARY = Path(__file__).with_name("walk.so")


class Kernel:
    """The functions of the compiled library. Raises :class:`OSError` if it cannot be loaded."""

    def __init__(self, path: Path) -> None:
        self._walk = ctypes.CDLL(str(path)).walk
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self._walk.argtypes = [*[pointer] * 9, number, *[pointer] * 2, number, *[pointer] * 3]
        self._walk.restype = number

    def walk(
        self,
        trie: tuple[_Numbers, _Numbers, _Numbers],
        automaton: tuple[Any, ...],
        most: int,
        states: _Numbers,
        queue: _Numbers,
        count: int,
        waiting: _Numbers,
        live: _Numbers,
        reached: _Numbers,
    ) -> int:
        """Call the function of that name; see ``walk.c``.

        ``trie`` is first_child, letter and depth; ``automaton`` the arrays row_start, row_end,
        first, last, target and shortest, of C integers.
        """
        rows = [array.buffer_info()[0] for array in automaton]
        found: int = self._walk(
            *(array.ctypes.data for array in trie),
            *rows,
            most,
            states.ctypes.data,
            queue.ctypes.data,
            count,
            waiting.ctypes.data,
            live.ctypes.data,
            reached.ctypes.data,
        )
        return found


def _load() -> Kernel | None:
    try:
        return Kernel(LIBRARY)
    except OSError:
        return None


KERNEL = _load()
