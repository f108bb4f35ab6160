"""Greedy answers with drafts are those without, for the architectures of mlx-lm.

The models are small and random, in float32. The drafter knows the answer and makes mistakes, so
that some tokens of a draft are accepted and others are refused.
"""

from __future__ import annotations

import pkgutil
from typing import Any

import mlx_lm.models
import pytest
from architectures import (
    ARCHITECTURES,
    NOT_BUILT,
    REPRESENTATIVES,
    WINDOW,
    WRONG_WIDE_PASSES,
    small_model,
)
from mlx_lm.tokenizer_utils import TokenizerWrapper
from speculation_checks import Comparison

from proxy_engine import InferenceEngine

# Longer than sliding windows.
PROMPT = "hello world, " * 2
RECORD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "ab": {"type": "string", "maxLength": 12},
        "n": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "required": ["ab", "n"],
    "additionalProperties": False,
}
ANSWERS: dict[str, dict[str, Any]] = {
    "text": {"max_tokens": 20, "min_tokens": 20},
    "object": {"max_tokens": 60, "response_format": RECORD},
}

some_by_default = pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(one, marks=[] if one in REPRESENTATIVES else pytest.mark.soak)
        for one in ARCHITECTURES
        if one not in WRONG_WIDE_PASSES
    ],
)


@some_by_default
def test_greedy_answer_is_that_without_drafts(
    architecture: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    drafted = accepted = 0
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        for seed, options in enumerate(ANSWERS.values()):
            result = Comparison(engine, PROMPT, **options).run("mistaken", seed=seed)
            drafted += result.usage.drafted_tokens
            accepted += result.usage.accepted_tokens
    assert drafted > accepted > 0


@pytest.mark.parametrize("architecture", sorted(WRONG_WIDE_PASSES))
def test_models_with_wrong_wide_passes_do_not_draft(
    architecture: str, tiny_tokenizer: TokenizerWrapper
) -> None:
    assert len(PROMPT) > WINDOW
    with InferenceEngine(small_model(architecture), tiny_tokenizer) as engine:
        for options in ANSWERS.values():
            result = Comparison(engine, PROMPT, **options).run("right")
            assert result.usage.drafted_tokens == 0


def test_architectures_that_are_not_tested_exist() -> None:
    modules = {module.name for module in pkgutil.iter_modules(mlx_lm.models.__path__)}
    assert modules.issuperset(NOT_BUILT)
    assert modules.issuperset(REPRESENTATIVES)
