"""A worker whose model thread is blocked for ever: every caller gets the error."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from mlx_lm.models import llama
from mlx_lm.tokenizer_utils import TokenizerWrapper

from proxy_engine import DistributedError, InferenceEngine
from proxy_engine.requests.worker import Worker

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
    waiting = [engine._core.queue("hello", None, {"max_tokens": 400}) for _ in range(4)]
    engine._core.worker.submit(blocked.wait)
    engine._core.worker.abort(FAILURE)
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
