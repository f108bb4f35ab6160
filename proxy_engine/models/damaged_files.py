"""Find the file that keeps a model from being loaded."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

__all__ = ["damaged_file"]

_JSON_FILES = ("config.json", "tokenizer_config.json")


def damaged_file(directory: Path) -> tuple[Path, str] | None:
    """Return a file of a model's directory that cannot be read, and why; ``None`` if all can be.

    Called after a model failed to load. The libraries that read these files raise errors of many
    kinds, and few of these errors name the file.
    """
    for name in _JSON_FILES:
        path = directory / name
        try:
            if path.is_file() and not isinstance(json.loads(path.read_text("utf-8")), dict):
                return path, "it holds no JSON object"
        except (OSError, ValueError, RecursionError) as error:
            return path, str(error)
    path = directory / "tokenizer.json"
    try:
        if path.is_file():
            Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises a bare Exception.
        return path, str(error)
    return None
