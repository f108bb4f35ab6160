"""Requests generated from the OpenAPI document, valid and invalid."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from live_server import Live, serving_engine

from proxy_engine import InferenceEngine

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

EXAMPLES = 3


@pytest.fixture(scope="module")
def small(brief_engine: InferenceEngine) -> Iterator[Live]:
    """A server with short answers."""
    with serving_engine(brief_engine) as live:
        yield live


def test_generated_requests_cause_no_server_error(small: Live) -> None:
    document = schemathesis.openapi.from_url(f"{small.url}/openapi.json")
    seen: dict[int, int] = {}
    for found in document.get_all_operations():
        operation = found.ok()
        for mode in schemathesis.GenerationMode:

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            def run(case: Any) -> None:
                if isinstance(case.body, dict):
                    # A generated name is hardly ever a model's.
                    case.body.pop("model", None)
                reply = case.call()
                seen[reply.status_code] = seen.get(reply.status_code, 0) + 1
                applied = [checks.status_code_conformance, schemathesis.checks.not_a_server_error]
                if "json" in reply.headers.get("content-type", [""])[0]:
                    applied.append(checks.response_schema_conformance)
                case.validate_response(reply, checks=applied)

            # An operation without input has no invalid request.
            with contextlib.suppress(Unsatisfiable):
                run()
    assert {200, 400, 404} <= set(seen)
