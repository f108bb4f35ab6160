"""Build hooks: the compiled library, and the README in the metadata.

The inner loop of the mask computation is compiled if a C compiler is available.

``PROXY_ENGINE_WHEEL`` selects the wheel that is built:

- not set: a wheel for this machine, without the library if there is no compiler;
- ``any``: a wheel without the library, for every platform;
- a platform tag such as ``manylinux_2_17_aarch64``: a wheel for that platform. ``CC`` names the
  compiler, and the build fails if it does.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.macos import process_macos_plat_tag
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.tags import platform_tags

SOURCE = Path("state_machines", "masks", "walk.c")


class CompileLibraries(BuildHookInterface[Any]):
    """Compiles the library into the wheel, or into the checkout of an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library before a wheel or an editable installation is built."""
        platform = os.environ.get("PROXY_ENGINE_WHEEL", "")
        if self.target_name != "wheel" or platform == "any":
            return
        directory = Path(self.root)
        if version != "editable":
            # A wheel for another platform must not replace the library of the checkout.
            self._directory = tempfile.TemporaryDirectory()
            directory = Path(self._directory.name)
        library = SOURCE.with_suffix(".so")
        (directory / library).parent.mkdir(parents=True, exist_ok=True)
        compiler = load_compiler(Path(self.root))
        if not compiler.compile_library(Path(self.root, SOURCE), directory / library):
            if platform:
                raise RuntimeError(f"no C compiler builds {SOURCE} for {platform}: set CC")
            self.app.display_info(f"no C compiler found: {SOURCE} is not compiled")
        elif version != "editable":
            build_data["force_include"][str(directory / library)] = library.as_posix()
            build_data["pure_python"] = False
            # It uses no Python header, so every Python of the platform can load it.
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


def load_compiler(root: Path) -> ModuleType:
    """Load ``state_machines.compiled_library`` without its package, which needs NumPy."""
    path = root / "state_machines" / "compiled_library.py"
    specification = importlib.util.spec_from_file_location("compiled_library", path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def local_platform() -> str:
    """Return the platform tag of a library that is compiled on this machine."""
    platforms = list(platform_tags())
    if sys.platform == "darwin":
        return process_macos_plat_tag(platforms[0], compat=False)
    portable = [platform for platform in platforms if platform.startswith("manylinux_2_17_")]
    return (portable or platforms)[0]
