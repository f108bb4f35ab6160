"""Fixtures of the grammar core."""

from __future__ import annotations

import pytest
from small_vocabulary import small_vocabulary

from state_machines import Vocabulary


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """A few hundred tokens with every trap of a real vocabulary."""
    return small_vocabulary()
