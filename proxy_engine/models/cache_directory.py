"""The directory for what can be made again: converted models, vocabularies.

``PROXY_ENGINE_CACHE`` names it; else the platform's rule holds: ``~/Library/Caches`` on macOS,
the XDG base directory specification (``XDG_CACHE_HOME`` or ``~/.cache``) elsewhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["build_once", "cache_directory"]


def cache_directory() -> Path:
    """Where converted models and vocabularies are kept. It need not exist yet.

    Raises :class:`RuntimeError` where the user has no home directory, and nothing else is named.
    """
    if chosen := os.environ.get("PROXY_ENGINE_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "proxy-engine"
    # The specification wants relative values ignored.
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "proxy-engine"


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """``target``, a directory that ``build`` fills the first time, or never half.

    ``build`` writes into a temporary directory beside ``target``, which then takes its name in
    one step. Whoever comes while another process builds waits for it, and finds the result.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive_lock(target.with_name(f".{target.name}.lock")):
        if target.is_dir():
            return target
        # Only a process that was killed leaves such a directory, and the lock is ours now.
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


@contextlib.contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the kernel gives it back should the process die."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
