"""The compiled form of a C source: beside it, of an installation, or in the user's cache directory.

A checkout has the sources, while the installed package has the compiled libraries. A program that
runs in the checkout imports the packages there, so the libraries are searched for elsewhere.

The build hook (``hatch_build.py``) loads this file without the package, so it needs the standard
library alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The directory of the packages."""


def cache_directory() -> Path:
    """Return the user's cache directory, for files that can be created again. It need not exist.

    ``PROXY_ENGINE_CACHE`` names it. Otherwise it is ``~/Library/Caches`` on macOS, and the
    directory of the XDG base directory specification (``XDG_CACHE_HOME`` or ``~/.cache``)
    elsewhere.

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


def compiled_libraries(source: Path) -> Iterator[Path]:
    """Yield the compiled forms of a source of this package, the best one first.

    The library beside the source, that of an installed distribution with the same source, and one
    in the cache directory, which is compiled if it does not exist and there is a compiler.

    Args:
        source: A file below ``ROOT``.
    """
    beside = source.with_suffix(".so")
    if beside.is_file():
        yield beside
    text = source.read_bytes()
    for distribution in metadata.distributions(name="proxy-engine"):
        installed = Path(str(distribution.locate_file(source.relative_to(ROOT))))
        library = installed.with_suffix(".so")
        if library != beside and library.is_file() and installed.read_bytes() == text:
            yield library
    # Without a home directory, or with one that cannot be written, there is no cache.
    with contextlib.suppress(OSError, RuntimeError):
        cached = cache_directory() / "compiled" / f"{source.stem}-{_digest(text)}.so"
        if not cached.is_file():
            cached.parent.mkdir(parents=True, exist_ok=True)
            compile_library(source, cached)
        if cached.is_file():
            yield cached


def compile_library(source: Path, library: Path) -> bool:
    """Compile a shared library; return whether it succeeded. A failure removes the library.

    Other processes see the whole library or none. Those that have loaded an earlier one keep it.

    Args:
        source: The C source.
        library: The file that is written.
    """
    # On Linux the libraries need no other one, so the version of libc does not matter.
    options = ["-O2", "-fPIC", "-shared", *(["-nostdlib"] if sys.platform == "linux" else [])]
    partial = library.with_name(f"{library.name}.{os.getpid()}")
    for compiler in _compilers():
        command = [*compiler, *options, "-o", str(partial), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            continue
        partial.replace(library)
        return True
    partial.unlink(missing_ok=True)
    library.unlink(missing_ok=True)
    return False


def _compilers() -> list[list[str]]:
    """Return the commands that are tried; ``CC`` names the only one."""
    if configured := shlex.split(os.environ.get("CC", "")):
        return [configured]
    python = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    return [[name] for name in dict.fromkeys((python, "cc", "gcc", "clang"))]


def _digest(source: bytes) -> str:
    """Return a digest of a source, the platform, and the compilers that there are."""
    digest = hashlib.sha256(f"{sysconfig.get_platform()} {os.uname().machine}\n".encode())
    for command in _compilers():
        if (path := shutil.which(command[0])) is not None:
            file = Path(path).resolve()
            digest.update(f"{command} {file} {file.stat().st_mtime_ns}\n".encode())
    digest.update(source)
    return digest.hexdigest()[:20]
