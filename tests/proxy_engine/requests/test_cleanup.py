"""Finished requests are freed; the bounded caches remain."""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from typing import Any

import mlx.core as mx
from tiny_models import make_tiny_model

from proxy_engine import BatchRequest, CacheOptions, InferenceEngine
from proxy_engine.generation import Constraint, GeneratedSequence, Prefill, SequenceSamplers
from proxy_engine.generation.device_masks import MAX_MASKS
from proxy_engine.requests.request import Request
from proxy_engine.requests.samples import Sample
from state_machines import Matcher
from state_machines.completion import Guard

KINDS = (
    *(Constraint, Guard, Matcher, Prefill, Request),
    *(Sample, GeneratedSequence, SequenceSamplers),
)
MOST_BYTES = 200_000


def requests(start: int, count: int) -> list[Any]:
    """Requests whose constraints are all different, and some that fail or are refused."""
    formats: list[Any] = []
    for number in range(start, start + count):
        name = f"n{number}"
        formats += [
            {"enum": [name, f"{name}b"]},
            {
                "type": "object",
                "properties": {name: {"type": "integer", "maximum": number}},
                "required": [name],
                "additionalProperties": False,
            },
            {"type": "string", "pattern": f"^{name}[a-z]{{1,4}}$"},
            None,
            {"type": "nothing"},
        ]
    return [
        BatchRequest(f"ask {start} {index}", response_format=form, options={"max_tokens": 40})
        for index, form in enumerate(formats)
    ]


def living() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, KINDS))


def test_finished_requests_are_freed(tiny_model: Any, tiny_tokenizer: Any) -> None:
    options = CacheOptions(max_bytes=MOST_BYTES)
    with InferenceEngine(tiny_model, tiny_tokenizer, cache=options) as engine:

        def serve(start: int) -> None:
            outcomes = engine.generate_batch(requests(start, 3), return_exceptions=True)
            assert 0 < sum(isinstance(one, Exception) for one in outcomes) < len(outcomes)
            for closed in (engine.stream("a", max_tokens=300), engine.stream("b")):
                next(closed)
                closed.close()
            del outcomes
            while engine.running_requests:
                time.sleep(0.01)

        serve(0)
        before, used = living(), mx.get_active_memory()
        for start in (8, 16):
            serve(start)
            assert living() <= before
            assert mx.get_active_memory() <= used + MOST_BYTES
        assert engine._core.caches.nbytes <= MOST_BYTES
        assert len(engine._core.batch._factory.masks) <= MAX_MASKS


def test_stream_that_has_ended_keeps_no_model_alive(tiny_tokenizer: Any) -> None:
    model = make_tiny_model()
    left = weakref.ref(model)
    with InferenceEngine(model, tiny_tokenizer) as engine:
        stream = engine.stream("a", max_tokens=3)
        assert list(stream)
    del model, engine
    gc.collect()
    assert left() is None
