"""Compiles the inner loop of the masks, where there is a C compiler; without one it is slower."""

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
    """Puts the compiled library beside its source, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; called before the wheel is put together, or the editable install."""
        del version
        if self.target_name != "wheel":
            return
        library = Path(self.root, LIBRARY)
        library.unlink(missing_ok=True)
        if not compiled(Path(self.root, SOURCE), library):
            self.app.display_info("no C compiler: masks do without the compiled loop")
            return
        build_data["artifacts"].append(LIBRARY.as_posix())
        build_data["pure_python"] = False
        # No header of Python's is used, so any Python of the platform can load it.
        build_data["tag"] = f"py3-none-{next(platform_tags())}"


def compiled(source: Path, library: Path) -> bool:
    """Compile a shared library. Returns whether that could be done."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[:1]
    for name in dict.fromkeys((*compiler, "cc", "gcc", "clang")):
        command = [name, "-O2", "-fPIC", "-shared", "-o", str(library), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (OSError, subprocess.SubprocessError):
            continue
        return True
    return False
