"""Masks over real vocabularies equal brute force."""

from __future__ import annotations

from typing import Any

import pytest
from data_files import NO_TOKENIZERS, tokenizer_files
from real_vocabularies import SCHEMAS, assert_masks_on_a_walk
from tokenizers import Tokenizer

from state_machines import Vocabulary

FILES = tokenizer_files(few=True)

pytestmark = pytest.mark.skipif(not FILES, reason=NO_TOKENIZERS)


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.parent.name)
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    """That of one tokenizer."""
    return Vocabulary.from_tokenizer(Tokenizer.from_file(str(request.param)))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_masks_at_random_states_equal_brute_force(vocabulary: Vocabulary, schema: Any) -> None:
    assert_masks_on_a_walk(vocabulary, schema)
