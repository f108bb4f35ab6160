"""Where models are: directories, and repos of Hugging Face with their download cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from huggingface_hub import (
    constants,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..checks import short_repr
from ..errors import InvalidOptionError, ModelFormatError, ModelNotFoundError
from .embedded import EMBEDDED_MODEL
from .files import read_object

_NAMING_HINT = (
    "Name a directory with config.json, *.safetensors and tokenizer.json, or a Hugging Face repo "
    f"id such as 'mlx-community/Qwen3-4B-4bit'. The default is the embedded {EMBEDDED_MODEL}."
)

_CONNECT_SECONDS = 5.0
"""Time limit of the first connection: enough for two lost packets of the handshake."""

_UNREACHABLE = {"ConnectError", "ConnectTimeout", "ConnectionError"}
"""Names of the errors of a connection. Versions of huggingface_hub differ in the HTTP client."""


def check_location(path: str, revision: str | None = None) -> None:
    """Reject invalid names before huggingface.co is queried, such as misspelled directories.

    Raises:
        ModelNotFoundError: There is no such directory.
        ModelFormatError: It is a file.
        InvalidOptionError: A directory has no revisions.
    """
    if not path.strip():
        raise ModelNotFoundError("the name of the model is empty", model=path, hint=_NAMING_HINT)
    if os.path.isfile(path):
        raise ModelFormatError(f"{path!r} is a file", model=path, hint=_NAMING_HINT)
    is_directory = os.path.isdir(path)
    looks_like_a_path = path.startswith((".", "~", os.sep)) or path.count("/") > 1
    if looks_like_a_path and not is_directory:
        what = f"there is no directory {short_repr(path)}"
        raise ModelNotFoundError(what, model=path, hint=_NAMING_HINT)
    if revision is not None and is_directory:
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
        return read_object(Path(_configuration_file(path, revision))) or {}
    except (LocalEntryNotFoundError, ConnectionError):
        raise
    except (EntryNotFoundError, FileNotFoundError):
        return {}


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
            which, command = repr(name), f"hf download {name}"
            if revision is not None:
                which = f"revision {revision!r} of {which}"
                command += f" --revision {revision}"
            reason = f"{urlsplit(constants.ENDPOINT).netloc} cannot be reached"
            hint = (
                f"Where there is a network, `{command}` fills the download cache, and with "
                "`--local-dir DIRECTORY` a directory to copy here and to name in place of the repo "
                f"id. Without a name, the embedded {EMBEDDED_MODEL} is loaded."
            )
            if constants.HF_HUB_OFFLINE:
                reason = "HF_HUB_OFFLINE is set"
                hint = f"Unset HF_HUB_OFFLINE to download it. {hint}"
            what = f"{which} is neither a local directory nor in the download cache, and {reason}"
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
    _check_connection(hf_hub_url(path, "config.json", revision=revision))
    return hf_hub_download(path, "config.json", revision=revision)


def _check_connection(url: str) -> None:
    """Raise ``ConnectionError`` if no connection can be made to the host of ``url``.

    ``hf_hub_download`` retries for half a minute in that case. It raises the other errors itself,
    and retries the temporary ones, such as a slow answer.
    """
    try:
        get_hf_file_metadata(url, timeout=_CONNECT_SECONDS)
    except Exception as error:
        if type(error).__name__ in _UNREACHABLE:
            raise ConnectionError(str(error)) from error
