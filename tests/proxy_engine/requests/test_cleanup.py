"""Finished requests are freed; the bounded caches remain."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import pytest
from engine_parts import core_of
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tiny_models import make_tiny_model

from proxy_engine import BatchRequest, CacheOptions, DistributedError, InferenceEngine
from proxy_engine.generation import Constraint, GeneratedSequence, Prefill, SequenceSamplers
from proxy_engine.generation.sampling import MAX_MASKS
from proxy_engine.requests.request import Request
from proxy_engine.requests.running_request import RunningRequest
from proxy_engine.runtime.worker import Worker
from state_machines import Matcher
from state_machines.completion import Guard

KINDS = (
    *(Constraint, Guard, Matcher, Prefill, Request),
    *(RunningRequest, GeneratedSequence, SequenceSamplers),
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
        assert core_of(engine).caches.nbytes <= MOST_BYTES
        assert len(core_of(engine).batch._factory.masks) <= MAX_MASKS


def test_stream_that_has_ended_keeps_no_model_alive(tiny_tokenizer: Any) -> None:
    model = make_tiny_model()
    left = weakref.ref(model)
    with InferenceEngine(model, tiny_tokenizer) as engine:
        stream = engine.stream("a", max_tokens=3)
        assert list(stream)
    del model, engine
    gc.collect()
    assert left() is None


# A worker whose model thread is blocked for ever: every caller gets the error.


FAILURE = DistributedError("rank 1 has failed", rank=1)


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """Blocks a model thread until it is set, in place of a collective operation."""
    event = threading.Event()
    yield event
    event.set()


def block(worker: Worker, event: threading.Event) -> None:
    """Return once the model thread is blocked."""
    begun = threading.Event()

    def call() -> None:
        begun.set()
        event.wait()

    worker.submit(call)
    begun.wait()


def test_abort_fails_running_and_queued_calls_and_refuses_later_ones(
    blocked: threading.Event,
) -> None:
    worker = Worker()
    block(worker, blocked)
    queued = worker.submit(lambda: 1)
    worker.abort(FAILURE)
    with pytest.raises(DistributedError) as raised:
        queued.result()
    assert raised.value.rank == 1
    with pytest.raises(DistributedError):
        worker.submit(lambda: 1)
    # Does not wait for the blocked call.
    worker.close()
    blocked.set()


def test_abort_fails_running_and_waiting_requests(
    tiny_model: llama.Model, tiny_tokenizer: TokenizerWrapper, blocked: threading.Event
) -> None:
    engine = InferenceEngine(tiny_model, tiny_tokenizer, batch_size=2)
    stream = engine.stream("hello", max_tokens=400)
    next(stream)
    core = core_of(engine)
    requests = [core.preparation.request("hello", None, {"max_tokens": 400}) for _ in range(4)]
    waiting = [core.scheduler.submit(request) for request in requests]
    core_of(engine).worker.submit(blocked.wait)
    core_of(engine).worker.abort(FAILURE)
    with pytest.raises(DistributedError):
        stream.result()
    for begun in waiting:
        with pytest.raises(DistributedError):
            begun.result()
    with pytest.raises(DistributedError):
        engine.generate("hello")
    engine.close()


def test_error_of_a_call_is_explained() -> None:
    worker = Worker()
    worker.explain = lambda error: FAILURE

    def fail() -> None:
        raise RuntimeError("[ring] connection to a peer was lost")

    with pytest.raises(DistributedError):
        worker.submit(fail).result()
    worker.close()


def test_close_waits_for_the_running_call_when_it_is_interrupted(
    blocked: threading.Event,
) -> None:
    worker = Worker()
    block(worker, blocked)
    last = worker.submit(lambda: 1)
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def interrupt_twice() -> None:
        for _ in range(2):
            time.sleep(0.05)
            signal.pthread_kill(main_thread, signal.SIGINT)
        time.sleep(0.05)
        blocked.set()

    # A shell's background jobs are started with the signal ignored, and the tests may be one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the thread interrupts only the wait
            threading.Thread(target=interrupt_twice).start()
            worker.close()
    finally:
        signal.signal(signal.SIGINT, before)
    assert last.done()
