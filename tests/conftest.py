"""Settings of all test runs. ``support/engine_fixtures.py`` has the fixtures for all packages.

Hypothesis draws the same examples in every run. ``HYPOTHESIS_PROFILE=fuzz`` draws new ones, twenty
times as many.
"""

from __future__ import annotations

import gc
import importlib
import os
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from proxy_engine.runtime.extras import requires_backend

_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "steady",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_SLOW,
)
settings.register_profile(
    "fuzz", max_examples=1200, deadline=None, suppress_health_check=_SLOW, print_blob=True
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# DSPy stores answers on disk, by default in the home directory, from its import on.
_DSPY_CACHE = tempfile.TemporaryDirectory(prefix="dspy-", ignore_cleanup_errors=True)
os.environ["DSPY_CACHEDIR"] = _DSPY_CACHE.name


# Files that take ten seconds and more.
_LONG_FILES = frozenset(
    {
        *("test_architectures", "test_documentation", "test_draft_heads", "test_examples"),
        *("test_extract_lines", "test_formats", "test_guard", "test_hostile_plans"),
        *("test_hostile_schemas", "test_invariants", "test_ledgers", "test_masks"),
        *("test_mixed_requests", "test_openapi", "test_process", "test_reader"),
        *("test_real_schemas", "test_real_vocabularies", "test_round_trips", "test_types_are_read"),
    }
)


# Collecting garbage takes a third of the time of importing the test modules. At the usual thresholds
# it takes 6% of the processor time of a whole run.
gc.disable()
gc.set_threshold(10_000, 10, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long files first, so that no worker waits for one at the end of a parallel run."""
    items.sort(key=lambda item: item.path.stem not in _LONG_FILES)


def pytest_collection_finish() -> None:
    """Exempt what was imported from garbage collection.

    These are nearly a million containers, which no test frees. A full collection would visit them
    each time, which takes more than half a second.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


_MODULES_OF_A_FREEZE = 20
_finished_modules = 0


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exempt from time to time what modules have imported since, and what the session holds.

    Many tests collect garbage, and a collection visits all that is left: this saves a tenth of the
    processor time of a run.
    """
    global _finished_modules
    if nextitem is not None and nextitem.path != item.path:
        _finished_modules += 1
        if _finished_modules % _MODULES_OF_A_FREEZE == 0:
            gc.collect()
            gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Import the fixtures, but not where the tests are only distributed among workers."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # As in programs that import the engine first, OpenBLAS is in front of MLX's BLAS. Without it
        # the sizes of passes differ, and models take several times as long.
        with requires_backend():
            importlib.import_module("mlx.core")
        config.pluginmanager.import_plugin("engine_fixtures")
