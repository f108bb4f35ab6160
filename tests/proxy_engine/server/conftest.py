"""A live server with a random model, and OpenAI's client for it."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from live_server import Live, serving_engine

from proxy_engine import InferenceEngine


@pytest.fixture(scope="session")
def live(roomy_engine: InferenceEngine) -> Iterator[Live]:
    """A server that most tests share."""
    with serving_engine(roomy_engine) as live:
        yield live


@pytest.fixture(scope="session")
def client(live: Live) -> openai.OpenAI:
    """OpenAI's client of the shared server."""
    return live.client()
