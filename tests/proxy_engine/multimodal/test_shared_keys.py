"""Layers that share keys and values: gemma3n, whose language model mlx-lm has as well."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest
from architecture_configs import ADDITIONS, COMMON
from architectures import small_model
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_vlm.models.gemma3n import LanguageModel as Gemma3nLanguageModel
from mlx_vlm.models.gemma3n import TextConfig

from proxy_engine.multimodal.language_model import LanguageModel

TOKENS = list(range(1, 19))
"""More tokens than a sliding window has."""


def _models() -> tuple[Module, LanguageModel]:
    """Return mlx-lm's model, and mlx-vlm's with the same weights."""
    text = small_model("gemma3n")
    options = {
        **COMMON,
        **ADDITIONS["gemma3n"],
        "model_type": "gemma3n_text",
        "intermediate_size": [COMMON["intermediate_size"]] * 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    inner = Gemma3nLanguageModel(TextConfig.from_dict(options))
    prefix = "model.language_model."
    weights = {
        name.replace(prefix, "model."): weight for name, weight in tree_flatten(text.parameters())
    }
    inner.load_weights(list(weights.items()))
    multimodal: Any = Module()
    multimodal.language_model = inner
    multimodal.config = SimpleNamespace(text_config=None)
    return text, LanguageModel(multimodal, {"model_type": "gemma3n"})


def _logits(model: Module, passes: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
    cache = make_prompt_cache(model)
    found = [model(mx.array([tokens]), cache=cache) for tokens in passes]
    return np.array(mx.concatenate(found, axis=1))


@pytest.mark.parametrize("ends", [[], [5, 16, 17], [12], [1, 2, 3]])
def test_logits_are_those_of_mlx_lm_in_passes_of_any_width(ends: list[int]) -> None:
    text, model = _models()
    passes = [TOKENS[start:end] for start, end in zip([0, *ends], [*ends, None], strict=True)]

    np.testing.assert_allclose(_logits(model, passes), _logits(text, [TOKENS]), atol=1e-4)
