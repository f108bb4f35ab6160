"""Where models are: directories, and repos of Hugging Face with their download cache."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from huggingface_hub import hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..errors import InvalidOptionError, ModelFormatError, ModelNotFoundError
from ..text_checks import short_repr
from .embedded import EMBEDDED_MODEL
from .weight_files import weight_files, weight_patterns

_NAMING_HINT = (
    "Name a directory with config.json, *.safetensors and tokenizer.json, or a Hugging Face repo "
    f"id such as 'mlx-community/Qwen3-4B-4bit'. The default is the embedded {EMBEDDED_MODEL}."
)


def check_location(path: str, revision: str | None = None) -> None:
    """Reject invalid names before huggingface.co is queried, such as misspelled directories.

    Raises:
        ModelNotFoundError: There is no such directory.
        ModelFormatError: The directory has no model.
        InvalidOptionError: A directory has no revisions.
    """
    try:
        _check_location(path)
    except OSError as error:
        raise ModelNotFoundError(
            f"{short_repr(path)} cannot be read: {error.strerror}", model=path, hint=_NAMING_HINT
        ) from error
    if revision is not None and os.path.isdir(path):
        raise InvalidOptionError(
            f"revision requires a Hugging Face repo id, and {path!r} is a directory",
            option="revision",
        )


def read_configuration(path: str, revision: str | None = None) -> dict[str, Any]:
    """Return the content of ``config.json``; nothing if it cannot be read, which mlx-lm reports.

    Args:
        path: Directory or Hugging Face repo id.
        revision: Branch, tag or commit of the repo; ``None`` for its main branch.

    Raises:
        OSError: The repo is not in the download cache, and cannot be reached or does not exist.
    """
    try:
        file = _configuration_file(path, revision)
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return {}
    try:
        config = json.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}


def not_found_error(
    error: BaseException, name: str, revision: str | None
) -> ModelNotFoundError | None:
    """Return the error of a repo that cannot be downloaded; ``None`` for other errors.

    Args:
        error: As ``huggingface_hub`` raised it.
        name: The repo id.
        revision: The requested revision.
    """
    hint = _NAMING_HINT
    match error:
        case GatedRepoError():
            what = f"access to {name!r} is restricted"
            hint = "Accept its terms on huggingface.co, then sign in with `hf auth login`."
        case RepositoryNotFoundError() | HFValidationError():
            what = f"there is no model {name!r}"
        case RevisionNotFoundError():
            what, hint = f"{name!r} has no revision {revision!r}", ""
        case LocalEntryNotFoundError() | HfHubHTTPError() | ConnectionError():
            what = f"{name!r} is not a local directory, and huggingface.co cannot be reached"
            if revision is not None:
                what = f"revision {revision!r} of {what}"
        case _:
            return None
    return ModelNotFoundError(what, model=name, hint=hint)


def _configuration_file(path: str, revision: str | None) -> str:
    if os.path.isdir(path):
        return os.path.join(path, "config.json")
    # The loader checks for updates. The kind of a model does not change.
    cached = try_to_load_from_cache(path, "config.json", revision=revision)
    if isinstance(cached, str):
        return cached
    return hf_hub_download(path, "config.json", revision=revision)


def _check_location(path: str) -> None:
    if not path.strip():
        raise ModelNotFoundError("the name of the model is empty", model=path, hint=_NAMING_HINT)
    directory = Path(path)
    if directory.is_file():
        raise ModelFormatError(f"{path!r} is a file", model=path, hint=_NAMING_HINT)
    if directory.is_dir():
        if not (directory / "config.json").is_file():
            raise ModelFormatError(
                f"the directory {path!r} has no config.json", model=path, hint=_NAMING_HINT
            )
        config = read_configuration(path)
        if not weight_files(directory, config):
            raise ModelFormatError(
                f"the directory {path!r} has no {' or '.join(weight_patterns(config))}",
                model=path,
                hint=_NAMING_HINT,
            )
        return
    looks_like_a_path = path.startswith((".", "~", os.sep)) or path.count("/") > 1
    if looks_like_a_path:
        raise ModelNotFoundError(f"there is no directory {path!r}", model=path, hint=_NAMING_HINT)
