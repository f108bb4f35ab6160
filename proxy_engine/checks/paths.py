"""Checks of paths that options name."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def directory_path(path: object) -> Path | None:
    """Return the path of a directory, with ``~`` expanded; ``None`` as it is.

    Raises:
        ValueError: It is no path, or empty.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ValueError("should be a path")
    if path == "":
        raise ValueError("should be the name of a directory")
    return Path(path).expanduser()


def privacy_problem(directory: Path) -> str | None:
    """Return why users besides this one and root can write to a directory; ``None`` if they cannot.

    A directory that does not exist, or is not accessible, has no problem.
    """
    try:
        found = directory.stat()
    except OSError:
        return None
    if found.st_uid not in (0, os.geteuid()):
        return "should belong to this user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return f"should not be writable by other users (its mode is {mode:o}; use `chmod 700`)"
    return None
