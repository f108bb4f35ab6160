"""The compiled walks of automata over tries, and the state at every vertex.

``walk.c`` is compiled when the package is installed, or on first use, if there is a compiler.
Otherwise whole-array operations walk level by level, and a warning says so.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from state_machines.compiled_library import compiled_libraries
from state_machines.masks.state_table import StateTable
from state_machines.masks.token_trie import Ids, TokenTrie

VERSION = 16
"""The version of ``walk.c`` that is required; both are raised when a function changes."""

SOURCE = Path(__file__).with_name("walk.c")


class Kernel:
    """The functions of the compiled library of ``walk.c``.

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
            raise OSError(f"{path} has version {version}, not {VERSION}")
        pointer, number = ctypes.c_void_p, ctypes.c_int32
        self.walk = library.walk
        self.walk.argtypes = [pointer, pointer, number, pointer, pointer, pointer, number]
        self.walk.restype = number
        self.descend = library.descend
        self.descend.argtypes = [pointer] * 3
        self.descend.restype = number
        self.descend_stacks = library.descend_stacks
        self.descend_stacks.argtypes = [pointer] * 3
        self.descend_stacks.restype = number
        self.enter = library.enter
        self.enter.argtypes = [pointer, number]
        self.enter.restype = number
        self.parse = library.parse
        self.parse.argtypes = [pointer, number, number, pointer]
        self.parse.restype = number
        self.descend_lexemes = library.descend_lexemes
        self.descend_lexemes.argtypes = [pointer] * 3
        self.descend_lexemes.restype = number
        # Without types, which take longer to convert than a quote takes to walk.
        self.quote = library.quote


def load_kernel(libraries: Iterable[Path] | None = None) -> Kernel | None:
    """Return the first compiled library that can be used; ``None``, with a warning, without one.

    Args:
        libraries: The candidates; ``None``: see ``compiled_libraries``.
    """
    reason: Exception = FileNotFoundError(f"{SOURCE} is not compiled")
    for path in compiled_libraries(SOURCE) if libraries is None else libraries:
        try:
            return Kernel(path)
        except (OSError, ValueError) as error:
            reason = error
    warnings.warn(
        f"masks are computed without compiled code, which takes several times as long: {reason}."
        " Install a C compiler, or the package again",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


KERNEL = load_kernel()


def states_at_vertices(
    table: StateTable, start: int, trie: TokenTrie, kernel: Kernel | None = KERNEL
) -> Ids:
    """Return the number of the state at every vertex of a trie: int32, shape (vertices,).

    Faster than a descent where most vertices are reached.

    Args:
        table: The states; no other thread may use them meanwhile.
        start: The number of the state at the root.
        trie: The trie.
        kernel: The compiled kernel; ``None`` for whole-array operations.
    """
    states: Ids = np.zeros(trie.size, np.int32)
    states[0] = start
    table.expand([start])
    if kernel is None:
        for first, last in zip(trie.levels[1:], trie.levels[2:], strict=False):
            above = states[trie.parent[first:last]]
            table.expand(np.unique(above).tolist())
            states[first:last] = table.target[above, trie.byte[first:last]]
        return states
    arrays = trie.parent.ctypes.data, trie.byte.ctypes.data, trie.size
    vertex = 1
    while vertex < trie.size:
        target, kind, _ = table.addresses
        vertex = kernel.walk(*arrays, target, kind, states.ctypes.data, vertex)
        if vertex < trie.size:
            table.expand([int(states[trie.parent[vertex]])])
    return states
