"""Build hook: compiles the inner loop of the mask computation if a C compiler is available."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

SOURCE = Path("state_machines", "masks", "walk.c")
LIBRARY = SOURCE.with_suffix(".so")


class CompileKernel(BuildHookInterface[Any]):
    """Compiles the library beside its source and adds it to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before a wheel or an editable installation is built."""
        del version
        if self.target_name != "wheel":
            return
        library = Path(self.root, LIBRARY)
        library.unlink(missing_ok=True)
        if not compiled(Path(self.root, SOURCE), library):
            self.app.display_info("no C compiler found: masks use the NumPy implementation")
            return
        build_data["artifacts"].append(LIBRARY.as_posix())
        build_data["pure_python"] = False
        # The library uses no Python header, so every Python of the platform can load it.
        build_data["tag"] = f"py3-none-{next(platform_tags())}"


def compiled(source: Path, library: Path) -> bool:
    """Compile a shared library; return whether it succeeded."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[:1]
    for name in dict.fromkeys((*compiler, "cc", "gcc", "clang")):
        command = [name, "-O2", "-fPIC", "-shared", "-o", str(library), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            continue
        return True
    return False
