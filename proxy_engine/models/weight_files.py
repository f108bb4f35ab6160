"""The weight files of a model's directory, as the library that loads them selects them."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..multimodal.loading import is_multimodal
from ..runtime.extras import is_installed
from ..transcription.loading import SPEECH_FILES, is_speech_model

INDEX = "model.safetensors.index.json"

TEXT_FILES = ("model*.safetensors",)
"""Files of weights that mlx-lm reads."""

_MEDIA_FILES = ("*.safetensors",)
"""Files of weights that mlx-vlm reads, besides Mistral's own form."""

_MISTRAL_FILE = "consolidated.safetensors"
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.safetensors")
_MAX_HEADER_BYTES = 100 << 20
"""The limit of the safetensors format."""


def weight_patterns(config: Mapping[str, Any]) -> Sequence[str]:
    """Return the patterns of a model's weight files; files of the first that matches are read.

    Args:
        config: The content of ``config.json``.
    """
    if is_speech_model(config):
        return SPEECH_FILES
    reads_media = is_installed("vision") and is_multimodal(config)
    return _MEDIA_FILES if reads_media else TEXT_FILES


def weight_files(directory: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the weight files that are loaded, sorted.

    Raises:
        OSError: The directory cannot be read.
    """
    for pattern in weight_patterns(config):
        files = [path for path in directory.glob(pattern) if path.name != _MISTRAL_FILE]
        if files:
            return sorted(files)
    return []


def weights_bytes(directory: Path, config: Mapping[str, Any]) -> int:
    """Return the size of the weight files that are loaded and that exist.

    Raises:
        OSError: The directory cannot be read.
    """
    # The Hugging Face cache may link to files that are not downloaded yet.
    files = (path for path in weight_files(directory, config) if path.is_file())
    return sum(path.stat().st_size for path in files)


def weights_problem(directory: Path, config: Mapping[str, Any]) -> str | None:
    """Return why a model's weights cannot be loaded; ``None`` if no problem is found.

    Reads the headers of the files.

    Raises:
        OSError: A file cannot be read.
    """
    files = weight_files(directory, config)
    if not files:
        return f"there is no {' or '.join(weight_patterns(config))}"
    found: set[str] = set()
    for file in files:
        names = _tensor_names(file)
        if names is None:
            return f"{file.name} is damaged or incomplete"
        found |= names
    index = directory / INDEX
    if not index.is_file():
        missing = _missing_shards(file.name for file in files)
        return f"{min(missing)} is missing" if missing else None
    weight_map = _weight_map(index)
    if weight_map is None:
        return f"{index.name} is damaged"
    missing = {str(name) for name in weight_map.values()} - {file.name for file in files}
    # An outdated index is harmless, since mlx-lm does not read it.
    return f"{min(missing)} is missing" if missing and weight_map.keys() - found else None


def _missing_shards(names: Iterable[str]) -> set[str]:
    """Return the shards that the names of others, such as ``model-00001-of-00002``, imply."""
    present, expected = set(names), set[str]()
    for name in present:
        shard = _SHARD.fullmatch(name)
        if shard is not None:
            stem, _, count = shard.groups()
            numbers = range(1, int(count) + 1)
            expected |= {f"{stem}-{number:05}-of-{count}.safetensors" for number in numbers}
    return expected - present


def _weight_map(index: Path) -> Mapping[str, Any] | None:
    try:
        weight_map = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return weight_map if isinstance(weight_map, Mapping) else None


def _tensor_names(file: Path) -> set[str] | None:
    """Return the tensor names of a file of weights; ``None`` if the file is damaged."""
    if file.suffix != ".npz":
        return safetensors_names(file)
    # The directory of a zip archive is its end.
    try:
        with zipfile.ZipFile(file) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except zipfile.BadZipFile:
        return None


def safetensors_names(file: Path) -> set[str] | None:
    """Return the tensor names of a safetensors file; ``None`` if the file is damaged.

    The file starts with the header's length in eight bytes and the header in JSON. The header has
    the offsets of all tensors in the bytes behind it.
    """
    size = file.stat().st_size
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or not 0 < length <= min(size - 8, _MAX_HEADER_BYTES):
            return None
        try:
            header = json.loads(handle.read(length))
            names = header.keys() - {"__metadata__"}
            end = max((int(header[name]["data_offsets"][1]) for name in names), default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return None
    return names if end <= size - 8 - length else None
