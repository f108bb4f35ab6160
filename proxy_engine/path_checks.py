"""Checks of paths that options name."""

from __future__ import annotations

import os
from pathlib import Path


def directory_path(given: object) -> Path | None:
    """Return the path of a directory, with ``~`` expanded; ``None`` as it is.

    Raises:
        ValueError: It is no path, or empty.
    """
    if given is None:
        return None
    if not isinstance(given, str | os.PathLike):
        raise ValueError("should be a path")
    if given == "":
        raise ValueError("should be the name of a directory")
    return Path(given).expanduser()
