"""The user's cache directory, for files that can be created again: converted models, vocabularies.

``PROXY_ENGINE_CACHE`` names it. Otherwise it is ``~/Library/Caches`` on macOS, and the directory of
the XDG base directory specification (``XDG_CACHE_HOME`` or ``~/.cache``) elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def cache_directory() -> Path:
    """Return the cache directory. It need not exist yet.

    Raises:
        RuntimeError: The user has no home directory, and no variable names a cache directory.
    """
    if chosen := os.environ.get("PROXY_ENGINE_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "proxy-engine"
    # The specification requires that relative values are ignored.
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "proxy-engine"


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
