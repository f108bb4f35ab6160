"""Masks over real vocabularies against trying every token.

``PROXY_ENGINE_TOKENIZERS`` names a folder with ``tokenizer.json`` files at any depth; without it
nothing is tested here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from real_vocabularies import SCHEMAS, AllTokens, assert_masks_on_a_walk
from tokenizers import Tokenizer

from state_machines import Vocabulary

FOLDER = os.environ.get("PROXY_ENGINE_TOKENIZERS")
FILES = sorted(Path(FOLDER).rglob("tokenizer.json")) if FOLDER else []

pytestmark = pytest.mark.skipif(not FILES, reason="PROXY_ENGINE_TOKENIZERS names no tokenizers")


@pytest.fixture(scope="module", params=FILES, ids=lambda path: str(path.relative_to(FOLDER or ".")))
def tokens(request: pytest.FixtureRequest) -> AllTokens:
    """The tokens of one tokenizer."""
    return AllTokens(Vocabulary.from_tokenizer(Tokenizer.from_file(str(request.param))))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_masks_at_random_states(tokens: AllTokens, schema: Any) -> None:
    assert_masks_on_a_walk(tokens, schema)
