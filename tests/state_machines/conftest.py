"""How properties are tried: the same examples every time, or ever new ones by environment.

``HYPOTHESIS_PROFILE=fuzz`` draws new examples in every run, twenty times as many.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings
from small_vocabulary import small_vocabulary

from state_machines import Vocabulary

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW
)
settings.register_profile("fuzz", deadline=None, suppress_health_check=_SLOW, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """A few hundred tokens with every trap of a real vocabulary."""
    return small_vocabulary()
