"""Loading of language models with mlx-lm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx_lm

from .kinds import ModelParts
from .load_options import LoadOptions


def load_parts(path: str, config: Mapping[str, Any], name: str, options: LoadOptions) -> ModelParts:
    """Load a language model; a ``PartsLoader``."""
    loaded = mlx_lm.load(
        path,
        tokenizer_config=options.tokenizer_arguments(),
        model_config=dict(options.config_overrides),
        lazy=options.lazy,
        return_config=True,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
    )
    return ModelParts(*loaded)
