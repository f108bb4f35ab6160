"""MLX's backends on Linux, which are extras, and the BLAS of the CPU's.

The package of every backend contains ``mlx/lib/libmlx.so``. If two are installed, the later
installation provides the file, and uninstalling either package removes it.

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
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path

from ..errors import MissingExtraError

DISTRIBUTIONS = {"cpu": "mlx-cpu", "cuda12": "mlx-cuda-12", "cuda13": "mlx-cuda-13"}
"""The distribution of the backend that each extra installs."""

_INSTALL = (
    "Run `pip install 'proxy-engine[cpu]'`, or with an NVIDIA GPU "
    "`pip install 'proxy-engine[cuda13]'` or `pip install 'proxy-engine[cuda12]'`."
)

_SGEMM = Path(__file__).with_name("sgemm.so")
_PRELOAD = (
    "`sudo apt install libopenblas0-pthread`, and start Python with "
    "`LD_PRELOAD=$(ls /usr/lib/*/openblas-pthread/libblas.so.3) OPENBLAS_NUM_THREADS=1`"
)


def installed_backends() -> list[str]:
    """Return the extras whose backends are installed, from the metadata of distributions."""
    return [
        extra for extra, name in DISTRIBUTIONS.items() if any(metadata.distributions(name=name))
    ]


@contextmanager
def requires_backend() -> Iterator[None]:
    """Check MLX's backend around the first import of ``mlx.core``, and put OpenBLAS in front of it.

    Warns if several backends are installed.

    Raises:
        MissingExtraError: On Linux, no backend is installed, or it cannot be loaded.
        ImportError: On macOS, MLX cannot be imported.
    """
    _put_openblas_in_front()
    try:
        yield
    except ImportError as error:
        if sys.platform != "linux":
            raise
        raise _error(installed_backends(), error) from error
    installed = installed_backends()
    if len(installed) > 1:
        message = f"{_conflict(installed)} {_reinstall(installed)}"
        warnings.warn(message, RuntimeWarning, stacklevel=1)


@cache
def is_blas_in_front() -> bool:
    """Whether a BLAS was global when MLX was imported."""
    return sys.platform == "linux" and _has_global_sgemm()


def blas_remedy() -> str:
    """Return the command that makes OpenBLAS available to a process which lacks it."""
    if not _SGEMM.exists():
        return _PRELOAD
    if _openblas_library() is None:
        return "`pip install scipy-openblas32`"
    return "import InferenceEngine from proxy_engine before mlx"


def _put_openblas_in_front() -> None:
    """Make OpenBLAS's ``cblas_sgemm`` global, if the package is installed.

    Changes nothing if MLX is imported already, which has bound its functions, or if another BLAS is
    global (``LD_PRELOAD``). OpenBLAS computes on the calling thread unless ``OPENBLAS_NUM_THREADS``
    is set: its threads wait actively, which delays the threads that compute masks.
    """
    if sys.platform != "linux" or "mlx.core" in sys.modules or _has_global_sgemm():
        return
    library = _openblas_library()
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


def _has_global_sgemm() -> bool:
    return hasattr(ctypes.CDLL(None), "cblas_sgemm")


def _openblas_library() -> str | None:
    package = importlib.util.find_spec("scipy_openblas32")
    if package is None or package.origin is None:
        return None
    return str(Path(package.origin).with_name("lib") / "libscipy_openblas.so")


def _error(installed: Sequence[str], error: ImportError) -> MissingExtraError:
    if not installed:
        names = ", ".join(DISTRIBUTIONS.values())
        what = f"MLX has no backend: none of {names} is installed"
        return MissingExtraError(what, extra="cpu", hint=_INSTALL)
    what = f"{_names(installed)} cannot be loaded: {error}"
    if len(installed) > 1:
        what = f"{_conflict(installed)} {what}"
    return MissingExtraError(what, extra=installed[0], hint=_reinstall(installed))


def _names(installed: Sequence[str]) -> str:
    return " and ".join(DISTRIBUTIONS[extra] for extra in installed)


def _conflict(installed: Sequence[str]) -> str:
    names = _names(installed)
    return f"Several backends of MLX are installed, and their files overwrite each other: {names}."


def _reinstall(installed: Sequence[str]) -> str:
    names = _names(installed).replace(" and ", " ")
    extras = " or ".join(f"`pip install 'proxy-engine[{extra}]'`" for extra in installed)
    return f"Run `pip uninstall {names}`, then {extras}."
