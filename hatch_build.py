"""Build hooks: the compiled libraries, and the README in the metadata.

The libraries are compiled if a C compiler is available: the inner loop of the mask computation, and
on Linux the function that calls OpenBLAS.

``PROXY_ENGINE_WHEEL`` selects the wheel that is built:

- not set: a wheel for this machine, without compiled libraries if there is no compiler;
- ``any``: a wheel without compiled libraries, for every platform;
- a platform tag such as ``manylinux_2_17_aarch64``: a wheel for that platform. ``CC`` names the
  compiler, and the build fails if it does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.macos import process_macos_plat_tag
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import platform_tags

SOURCES = [Path("state_machines", "masks", "walk.c")]
if sys.platform == "linux":
    SOURCES.append(Path("proxy_engine", "runtime", "sgemm.c"))


class CompileLibraries(BuildHookInterface[Any]):
    """Compiles the libraries into the wheel, or into the checkout of an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the libraries before a wheel or an editable installation is built."""
        platform = os.environ.get("PROXY_ENGINE_WHEEL", "")
        if self.target_name != "wheel" or platform == "any":
            return
        directory = Path(self.root)
        if version != "editable":
            # A wheel for another platform must not replace the libraries of the checkout.
            self._directory = tempfile.TemporaryDirectory()
            directory = Path(self._directory.name)
        for source in SOURCES:
            library = source.with_suffix(".so")
            (directory / library).parent.mkdir(parents=True, exist_ok=True)
            if not compiled(Path(self.root, source), directory / library):
                if platform:
                    raise RuntimeError(f"no C compiler builds {source} for {platform}: set CC")
                self.app.display_info(f"no C compiler found: {source} is not compiled")
            elif version != "editable":
                build_data["force_include"][str(directory / library)] = library.as_posix()
                build_data["pure_python"] = False
                # No library uses a Python header, so every Python of the platform can load it.
                build_data["tag"] = f"py3-none-{platform or local_platform()}"


class AbsoluteLinks(MetadataHookInterface):
    """Adds the README with absolute links: package indexes show it without the other files."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Source"]
        images = re.sub(r"(!\[[^\]]*\]\()(?![a-z]+:|#)", rf"\1{repository}/raw/main/", text)
        links = re.sub(r"(\]\()(?![a-z]+:|#)", rf"\1{repository}/blob/main/", images)
        metadata["readme"] = {"content-type": "text/markdown", "text": links}


def compiled(source: Path, library: Path) -> bool:
    """Compile a shared library; return whether it succeeded. A failure removes the library."""
    if configured := shlex.split(os.environ.get("CC", "")):
        compilers = [configured]
    else:
        python = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
        compilers = [[name] for name in dict.fromkeys((python, "cc", "gcc", "clang"))]
    # On Linux the libraries need no other one, so the version of libc does not matter.
    options = ["-O2", "-fPIC", "-shared", *(["-nostdlib"] if sys.platform == "linux" else [])]
    partial = library.with_name(f"{library.name}.{os.getpid()}")
    for compiler in compilers:
        command = [*compiler, *options, "-o", str(partial), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            continue
        # Processes that have loaded an earlier library keep it.
        partial.replace(library)
        return True
    partial.unlink(missing_ok=True)
    library.unlink(missing_ok=True)
    return False


def local_platform() -> str:
    """Return the platform tag of a library that is compiled on this machine."""
    platforms = list(platform_tags())
    if sys.platform == "darwin":
        return process_macos_plat_tag(platforms[0], compat=False)
    portable = [platform for platform in platforms if platform.startswith("manylinux_2_17_")]
    return (portable or platforms)[0]
