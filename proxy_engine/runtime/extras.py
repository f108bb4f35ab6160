"""Packages that may be missing: those of optional extras, and MLX's backends on Linux.

The package of an extra is imported when it is first needed. The package of every backend contains
``mlx/lib/libmlx.so``. If two are installed, the later installation provides the file, and
uninstalling either package removes it.

``mlx_lm/__init__`` imports transformers, which takes longer than loading a small model. The modules
of models and caches need neither, so its code runs when a name in it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from types import ModuleType
from typing import Any, Literal, TypeAlias

from ..errors import MissingExtraError
from .openblas import use_openblas

Extra: TypeAlias = Literal[
    "vision",
    "draft-heads",
    "audio",
    "msgspec",
    "notebook",
    "server",
    "openai",
    "langchain",
    "mcp",
    "pydantic-ai",
    "dspy",
    "smolagents",
    "ray",
    "frames",
    "remote",
    "completion",
]

_PACKAGES: dict[Extra, str] = {
    "vision": "mlx_vlm",
    "draft-heads": "mlx_vlm",
    "audio": "mlx_audio",
    "msgspec": "msgspec",
    "notebook": "IPython",
    "server": "fastapi",
    "openai": "openai",
    "langchain": "langchain_openai",
    "mcp": "mcp",
    "pydantic-ai": "pydantic_ai",
    "dspy": "dspy",
    "smolagents": "smolagents",
    "ray": "ray",
    "frames": "narwhals",
    "remote": "fsspec",
    "completion": "argcomplete",
}


def is_installed(extra: Extra) -> bool:
    """Whether the package of an extra is installed. Imports nothing."""
    return importlib.util.find_spec(_PACKAGES[extra]) is not None


def import_extra(extra: Extra, module: str, *, purpose: str) -> Any:
    """Import a module of an extra's package, or of a package that it requires.

    Args:
        extra: The extra.
        module: The module's full name.
        purpose: What needs it, the subject of the error's message.

    Raises:
        MissingExtraError: The extra is not installed, or is too old.
    """
    with requires_extra(extra, purpose=purpose):
        return importlib.import_module(module)


@contextmanager
def requires_extra(extra: Extra, *, purpose: str) -> Iterator[None]:
    """Convert the ``ImportError`` of an extra's packages, for modules that import them at the top.

    Args:
        extra: The extra.
        purpose: What needs it, the subject of the error's message.

    Raises:
        MissingExtraError: An import in the block fails: the package is missing or too old.
    """
    try:
        if not is_installed(extra):
            raise ImportError(_PACKAGES[extra])
        yield
    except ImportError as error:
        package = _PACKAGES[extra].replace("_", "-")
        raise MissingExtraError(f"{purpose} requires {package}", extra=extra) from error


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


_lock = threading.RLock()


def defer_mlx_lm() -> None:
    """Let ``mlx_lm`` execute its code at the first use of a name, unless it is imported already."""
    # As mlx-lm sets it: transformers is used for tokenizers only, and would miss PyTorch.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    with _lock:
        if "mlx_lm" in sys.modules:
            return
        specification = importlib.util.find_spec("mlx_lm")
        if specification is None or specification.loader is None:
            return
        package = importlib.util.module_from_spec(specification)
        package.__class__ = _Deferred
        sys.modules["mlx_lm"] = package


class _Deferred(ModuleType):
    """A package that has not been executed. Its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            specification = self.__spec__
            if type(self) is _Deferred and specification is not None and specification.loader:
                self.__class__ = ModuleType  # type: ignore[assignment]
                specification.loader.exec_module(self)
        return getattr(self, name)
