"""Directories that are built once, in the user's cache directory, such as converted models."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Build a directory if it does not exist. Other processes never see it incomplete.

    The directory is built under a temporary name and then renamed. A process that calls this while
    another one builds waits for the result.

    Args:
        target: The directory.
        build: Fills the directory that it is given.

    Returns:
        ``target``.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f".{target.name}.lock")):
        if target.is_dir():
            return target
        # With the lock held, such a directory was left by a process that was killed.
        for leftover in target.parent.glob(f".{target.name}.partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
        try:
            build(partial)
            partial.chmod(0o755)
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return target
