"""Small random models as files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
from architectures import small_model
from mlx.utils import tree_flatten


def written_model(directory: Path, tiny: Path, name: str, **changes: Any) -> Path:
    """Write a small random model of an architecture, with the tokenizer of the tiny model.

    Args:
        directory: Where to write it; it does not exist.
        tiny: Directory of the tiny model.
        name: The architecture.
        changes: Entries of the configuration.
    """
    shutil.copytree(tiny, directory)
    model = small_model(name, **changes)
    weights = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(directory / "model.safetensors"), weights)
    config = {**vars(model.args), "model_type": name}
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory
