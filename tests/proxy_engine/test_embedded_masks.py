"""Masks over the embedded model's vocabulary against trying every token.

Needs the converted model's tokenizer alone, and no model time.
"""

from __future__ import annotations

from typing import Any

import pytest
from real_vocabularies import SCHEMAS, assert_masks_on_a_walk
from tokenizers import Tokenizer

from proxy_engine.models.embedded import embedded_model, is_embedded_model_ready
from state_machines import Vocabulary


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """That of the embedded model."""
    if not is_embedded_model_ready():
        pytest.skip("the embedded model has not been fetched")
    tokenizer = Tokenizer.from_file(str(embedded_model() / "tokenizer.json"))
    return Vocabulary.from_tokenizer(tokenizer)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_masks_at_random_states(vocabulary: Vocabulary, schema: Any) -> None:
    assert_masks_on_a_walk(vocabulary, schema)
