"""A sequence has the restrictions that its request needs, in order, and no others."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from engine_parts import core_of, prepared

from proxy_engine import InferenceEngine
from proxy_engine.requests.sequence_factory import SequenceFactory

LIST: Any = {"type": "array", "items": {"type": "string"}}
BOUNDED: Any = {"type": "boolean"}


@pytest.mark.parametrize(
    ("response_format", "options", "names"),
    [
        (None, {}, []),
        (None, {"min_tokens": 2, "stop_repetition": True}, ["MinTokens"]),
        (None, {"max_seconds": 9}, ["Deadline"]),
        (LIST, {}, ["GuardedGrammar", "RepetitionStop", "Script"]),
        (LIST, {"stop_repetition": False}, ["GuardedGrammar", "Script"]),
        (BOUNDED, {}, ["GuardedGrammar", "Script"]),
        (BOUNDED, {"parts": {"structured": {"temperature": 0.5}}}, ["GuardedGrammar", "Script"]),
        (
            LIST,
            {"max_seconds": 9, "min_tokens": 2, "parts": {"structured": {"max_tokens": 9}}},
            [
                "Deadline",
                "PartLimits",
                "GuardedGrammar",
                "MinTokens",
                "RepetitionStop",
                "Script",
            ],
        ),
    ],
    ids=str,
)
def test_request_has_the_restrictions_that_it_needs(
    engine: InferenceEngine, response_format: Any, options: Any, names: list[str]
) -> None:
    core = core_of(engine)
    factory = SequenceFactory(core.loaded, core.vocabulary, threading.Lock())
    request = prepared(engine, "x", response_format, **options)
    restrictions = factory.sequence(request).constraint.restrictions
    assert [type(restriction).__name__ for restriction in restrictions] == names
