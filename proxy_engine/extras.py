"""Packages of optional extras, imported when they are first needed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Literal, TypeAlias

from .errors import MissingExtraError

Extra: TypeAlias = Literal["vision", "audio"]

_PACKAGES: dict[Extra, str] = {"vision": "mlx_vlm", "audio": "mlx_audio"}


def is_installed(extra: Extra) -> bool:
    """Whether the package of an extra is installed. Imports nothing."""
    return importlib.util.find_spec(_PACKAGES[extra]) is not None


def import_extra(extra: Extra, module: str, *, purpose: str) -> Any:
    """Import a module of an extra's package, or of one that the package requires.

    Args:
        extra: The extra.
        module: The module's full name.
        purpose: What needs it, the subject of the error's message.

    Raises:
        MissingExtraError: The extra is not installed.
    """
    if not is_installed(extra):
        package = _PACKAGES[extra].replace("_", "-")
        raise MissingExtraError(f"{purpose} requires {package}", extra=extra)
    return importlib.import_module(module)
