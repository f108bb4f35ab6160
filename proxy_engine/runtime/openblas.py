"""OpenBLAS in place of the reference BLAS of MLX's CPU build.

MLX's CPU build multiplies matrices of float32 with ``cblas_sgemm``, and comes with the reference
BLAS. The extra ``cpu`` installs OpenBLAS as ``scipy-openblas32``. Here the entry of MLX's
relocation table for ``cblas_sgemm`` is set to OpenBLAS's function. This works at any time after
MLX was imported, by any module.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import struct
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PRELOAD = (
    "`sudo apt install libopenblas0-pthread`, and start Python with "
    "`LD_PRELOAD=$(ls /usr/lib/*/openblas-pthread/libblas.so.3) OPENBLAS_NUM_THREADS=1`"
)

_FUNCTION = b"cblas_sgemm"

# Tags of the dynamic section, see elf(5).
_PLTRELSZ, _STRTAB, _SYMTAB, _RELA, _RELASZ, _JMPREL = 2, 5, 6, 7, 8, 23
_RELOCATION = struct.Struct("QQq")
_SYMBOL_BYTES = 24

_RTLD_DI_LINKMAP = 2
_PROT_READ, _PROT_WRITE = 1, 2


def use_openblas() -> None:
    """Let MLX multiply with OpenBLAS, if it would use the reference BLAS and OpenBLAS is installed.

    OpenBLAS computes on the calling thread unless ``OPENBLAS_NUM_THREADS`` is set: its threads wait
    actively, which delays the threads that compute masks.
    """
    path = _openblas_library()
    if path is None or not uses_reference_blas():
        return
    try:
        openblas = ctypes.CDLL(path)
    except OSError:
        # Compiled for another libc or processor.
        return
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        openblas.scipy_openblas_set_num_threads(1)
    function = ctypes.cast(openblas.scipy_cblas_sgemm, ctypes.c_void_p)
    slot = _slot()
    if slot is not None and _make_writable(ctypes.addressof(slot)):
        slot.value = function.value


def uses_reference_blas() -> bool:
    """Whether MLX calls the reference BLAS that its CPU build comes with."""
    slot = _slot()
    if slot is None:
        return False
    # The search begins at MLX and its own libraries, so a preloaded BLAS is another function.
    own = ctypes.cast(_mlx().cblas_sgemm, ctypes.c_void_p)
    return slot.value == own.value


def remedy() -> str:
    """Return the command that makes OpenBLAS available to a process which lacks it."""
    return "`pip install scipy-openblas32`" if _openblas_library() is None else _PRELOAD


def _openblas_library() -> str | None:
    package = importlib.util.find_spec("scipy_openblas32")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).with_name("lib") / "libscipy_openblas.so")


class _LinkMap(ctypes.Structure):
    """The beginning of ``struct link_map``: where a library is in memory."""

    _fields_ = (
        ("base", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("dynamic", ctypes.c_size_t),
    )


@cache
def _mlx() -> ctypes.CDLL:
    """Return MLX's library, if it is loaded; otherwise raise ``OSError``.

    Each handle creates a class.
    """
    return ctypes.CDLL("libmlx.so", mode=os.RTLD_NOLOAD)


def _slot() -> ctypes.c_void_p | None:
    """Return the pointer through which MLX calls ``cblas_sgemm``, if it does."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        mlx = _mlx()
    except OSError:
        return None
    address = _address_of_slot(mlx._handle)
    return None if address is None else ctypes.c_void_p.from_address(address)


@cache
def _address_of_slot(library: int) -> int | None:
    """Return the address of the pointer. A prefill asks for it, and a search takes 0.5 ms.

    Args:
        library: The handle of MLX's library, which stays loaded.
    """
    found = ctypes.POINTER(_LinkMap)()
    handle = ctypes.c_void_p(library)
    if ctypes.CDLL(None).dlinfo(handle, _RTLD_DI_LINKMAP, ctypes.byref(found)) != 0:
        return None
    return next(_relocated(found.contents), None)


def _relocated(library: _LinkMap) -> Iterator[int]:
    """Yield the addresses that hold the address of ``cblas_sgemm``."""
    entries = dict(_dynamic_section(library.dynamic))

    def pointer(tag: int) -> int:
        # glibc has added the base on most processors, musl has not.
        return entries[tag] + (library.base if entries[tag] < library.base else 0)

    for table, size in ((_JMPREL, _PLTRELSZ), (_RELA, _RELASZ)):
        if table not in entries:
            continue
        rows = ctypes.string_at(pointer(table), entries[size])
        for offset, info, _ in _RELOCATION.iter_unpack(rows):
            symbol = info >> 32
            if symbol:
                row = pointer(_SYMTAB) + symbol * _SYMBOL_BYTES
                name = pointer(_STRTAB) + ctypes.c_uint32.from_address(row).value
                if ctypes.string_at(name) == _FUNCTION:
                    yield library.base + offset


def _dynamic_section(address: int) -> Iterator[tuple[int, int]]:
    """Yield the tags and values of a library's dynamic section."""
    while tag := ctypes.c_int64.from_address(address).value:
        yield tag, ctypes.c_uint64.from_address(address + 8).value
        address += 16


def _make_writable(address: int) -> bool:
    """Make the page of an address writable: linkers may protect relocated tables."""
    size = os.sysconf("SC_PAGE_SIZE")
    page = ctypes.c_void_p(address - address % size)
    protection = _PROT_READ | _PROT_WRITE
    return bool(ctypes.CDLL(None).mprotect(page, ctypes.c_size_t(size), protection) == 0)
