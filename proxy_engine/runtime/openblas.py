"""OpenBLAS in front of the reference BLAS of MLX's CPU build.

MLX's CPU build multiplies matrices of float32 with ``cblas_sgemm``, and comes with the reference
BLAS. The dynamic linker prefers a function that is global in the process when ``mlx.core`` is
imported. The extra ``cpu`` installs OpenBLAS as ``scipy-openblas32``, whose functions have a
prefix, so ``sgemm.c``, compiled when this package is installed, exports this one without.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

_PACKAGE = "scipy_openblas32"
_SGEMM = Path(__file__).with_name("sgemm.so")
_DEBIAN = (
    "`sudo apt install libopenblas0-pthread`, and start Python with "
    "`LD_PRELOAD=$(ls /usr/lib/*/openblas-pthread/libblas.so.3) OPENBLAS_NUM_THREADS=1`"
)


def put_openblas_in_front() -> None:
    """Make OpenBLAS's ``cblas_sgemm`` global, if the package is installed.

    Changes nothing if MLX is imported already, which has bound its functions, or if another BLAS is
    global (``LD_PRELOAD``). OpenBLAS computes on the calling thread unless ``OPENBLAS_NUM_THREADS``
    is set: its threads wait actively, which delays the threads that compute masks.
    """
    if sys.platform != "linux" or "mlx.core" in sys.modules or _has_global_sgemm():
        return
    library = _installed_library()
    if library is None or not _SGEMM.exists():
        return
    try:
        openblas, sgemm = ctypes.CDLL(library), ctypes.CDLL(str(_SGEMM))
    except OSError:
        # Compiled for another libc or processor.
        return
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        openblas.scipy_openblas_set_num_threads(1)
    function = ctypes.cast(openblas.scipy_cblas_sgemm, ctypes.c_void_p)
    ctypes.c_void_p.in_dll(sgemm, "proxy_engine_sgemm").value = function.value
    ctypes.CDLL(str(_SGEMM), ctypes.RTLD_GLOBAL)


@cache
def is_blas_in_front() -> bool:
    """Whether a BLAS was global when MLX was imported."""
    return sys.platform == "linux" and _has_global_sgemm()


def remedy() -> str:
    """The command that makes OpenBLAS available to a process which lacks it."""
    if not _SGEMM.exists():
        return _DEBIAN
    if _installed_library() is None:
        return "`pip install scipy-openblas32`"
    return "import InferenceEngine from proxy_engine before mlx"


def _has_global_sgemm() -> bool:
    return hasattr(ctypes.CDLL(None), "cblas_sgemm")


def _installed_library() -> str | None:
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        return None
    return os.path.join(os.path.dirname(package.origin), "lib", "libscipy_openblas.so")
