"""Draft models are loaded with the engine, and refused there if they cannot be used."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from cached_models import random_llama
from tiny_models import make_tiny_model

from proxy_engine import (
    DraftModelError,
    InferenceEngine,
    InvalidOptionError,
    ModelError,
    ModelFormatError,
    ModelNotFoundError,
)
from proxy_engine.engine.drafting import check_same_tokens


def check(draft: list[bytes | None], target: list[bytes | None]) -> None:
    check_same_tokens(draft, target, draft_model="small", target_model="large")


def test_padding_of_logits_may_differ() -> None:
    check([b"a", b"b"], [b"a", b"b", None, None])
    check([b"a", None, b"c", None], [b"a", None, b"c"])


@pytest.mark.parametrize(
    ("draft", "target", "token_id"),
    [
        ([b"a", b"c"], [b"a", b"b"], 1),
        ([b"a"], [b"a", b"b"], 1),
        ([b"a", b"b"], [b"a"], 1),
        ([b"a", None], [b"a", b"b"], 1),
        ([b"<s>", b"a"], [b"\xff<s>", b"a"], 0),
    ],
)
def test_first_difference_is_reported(
    draft: list[bytes | None], target: list[bytes | None], token_id: int
) -> None:
    with pytest.raises(DraftModelError, match=r"'small'.*'large'.*same family") as caught:
        check(draft, target)
    assert (caught.value.token_id, caught.value.model) == (token_id, "small")
    assert caught.value.target == "large"
    assert isinstance(caught.value, ModelError)


def test_draft_model_in_memory_shares_the_tokenizer(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer, draft_model=random_llama(300)) as engine:
        assert engine.draft_model_name == "mlx_lm.models.llama"
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        assert engine.draft_model_name is None


def test_draft_model_is_loaded_from_a_directory(
    tiny_model: Any, tiny_tokenizer: Any, tiny_model_directory: Path
) -> None:
    with InferenceEngine(
        tiny_model, tiny_tokenizer, draft_model=tiny_model_directory, num_draft_tokens=4
    ) as engine:
        assert engine.draft_model_name == str(tiny_model_directory)


def test_narrow_draft_model_is_refused(tiny_model: Any, tiny_tokenizer: Any) -> None:
    """Its logits lack tokens of the vocabulary."""
    threads = threading.active_count()
    for _ in range(3):
        with pytest.raises(DraftModelError, match="token 64 is unused instead of"):
            InferenceEngine(tiny_model, tiny_tokenizer, draft_model=random_llama(64))
    # Threads are reused.
    assert threading.active_count() <= threads + 1


def test_num_draft_tokens_requires_a_draft_model() -> None:
    with pytest.raises(InvalidOptionError, match="requires draft_model"):
        InferenceEngine("missing/model/x", num_draft_tokens=3)


def test_draft_model_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match="draft_model should be a path"):
        InferenceEngine("missing/model/x", draft_model=5)  # type: ignore[arg-type]


def test_draft_model_that_cannot_be_loaded_is_named(
    tiny_model: Any, tiny_tokenizer: Any, tmp_path: Path
) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no directory") as missing:
        InferenceEngine(tiny_model, tiny_tokenizer, draft_model="./no/such/model")
    assert missing.value.model == "./no/such/model"
    with pytest.raises(ModelFormatError, match=r"config\.json") as damaged:
        InferenceEngine(tiny_model, tiny_tokenizer, draft_model=tmp_path)
    assert damaged.value.model == str(tmp_path)
    broken = make_tiny_model()
    broken.model.norm.weight = broken.model.norm.weight[:3]
    with pytest.raises(ModelFormatError, match="cannot be run"):
        InferenceEngine(tiny_model, tiny_tokenizer, draft_model=broken)
