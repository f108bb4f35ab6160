"""MLX's backends on Linux, which are extras.

The package of every backend contains ``mlx/lib/libmlx.so``. If two are installed, the later
installation provides the file, and uninstalling either package removes it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata

from ..errors import MissingExtraError
from .deferred_package import defer_mlx_lm
from .openblas import use_openblas

DISTRIBUTIONS = {"cpu": "mlx-cpu", "cuda12": "mlx-cuda-12", "cuda13": "mlx-cuda-13"}
"""The distribution of the backend that each extra installs."""

_INSTALL = (
    "Run `pip install 'proxy-engine[cpu]'`, or with an NVIDIA GPU "
    "`pip install 'proxy-engine[cuda13]'` or `pip install 'proxy-engine[cuda12]'`."
)


def installed_backends() -> list[str]:
    """Return the extras whose backends are installed, from the metadata of distributions."""
    return [
        extra for extra, name in DISTRIBUTIONS.items() if any(metadata.distributions(name=name))
    ]


@contextmanager
def requires_backend() -> Iterator[None]:
    """Check MLX's backend around the first import of ``mlx.core``, and let it use OpenBLAS.

    Within the block and later, ``mlx_lm`` is executed when one of its names is used.

    Warns if several backends are installed.

    Raises:
        MissingExtraError: On Linux, no backend is installed, or it cannot be loaded.
        ImportError: On macOS, MLX cannot be imported.
    """
    defer_mlx_lm()
    try:
        yield
    except ImportError as error:
        if sys.platform != "linux":
            raise
        raise _error(installed_backends(), error) from error
    use_openblas()
    installed = installed_backends()
    if len(installed) > 1:
        message = f"{_conflict(installed)} {_reinstall(installed)}"
        warnings.warn(message, RuntimeWarning, stacklevel=1)


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
