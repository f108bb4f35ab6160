"""Batches of requests, through the engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest
from engine_parts import core_of
from object_schemas import closed_object
from pydantic import BaseModel, field_validator

from proxy_engine import (
    BatchError,
    BatchRequest,
    EngineClosedError,
    EngineError,
    Finished,
    GenerationResult,
    InferenceEngine,
    PromptError,
    PromptProgress,
    TokenGenerated,
)
from proxy_engine.generation import Batch
from proxy_engine.requests import scheduler
from proxy_engine.requests.preparation import Preparation
from proxy_engine.requests.request import Request
from proxy_engine.requests.retries import Attempts
from proxy_engine.requests.scheduler import Scheduler
from proxy_engine.requests.streams import RunningBatch
from proxy_engine.results.events import Event

PERSON = closed_object(name={"type": "string", "maxLength": 12}, age={"type": "integer"})
OTHER = {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 5}


@pytest.fixture(scope="module")
def engine(tiny_model: Any, tiny_tokenizer: Any) -> Iterator[InferenceEngine]:
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=4) as engine:
        yield engine


def test_invalid_request_does_not_affect_others(engine: InferenceEngine) -> None:
    requests: list[Any] = [
        "good",
        "",
        BatchRequest("bad", response_format={"type": "nothing"}),
        BatchRequest("good", options={"max_tokens": 200}),
        BatchRequest("bad", options={"top_p": 7.0}),
    ]
    outcomes = engine.generate_batch(requests, response_format=PERSON, return_exceptions=True)
    assert [isinstance(one, Exception) for one in outcomes] == [False, True, True, False, True]
    assert isinstance(outcomes[1], PromptError)
    with pytest.raises(BatchError) as caught:
        engine.generate_batch(requests, response_format=PERSON)
    items = caught.value.items
    assert [item.index for item in items] == [0, 1, 2, 3, 4]
    assert items[0].result is not None
    assert items[0].result.text == outcomes[0].text
    assert caught.value.__cause__ is items[1].error


def test_items_arrive_in_order_or_as_completed(engine: InferenceEngine) -> None:
    lengths = [60, 3, 3, 3, 30, 3]
    requests = [BatchRequest("x", options={"max_tokens": n, "min_tokens": n}) for n in lengths]
    ordered = list(engine.iter_batch(requests))
    assert [item.index for item in ordered] == list(range(6))
    completed = list(engine.iter_batch(requests, ordered=False))
    assert sorted(item.index for item in completed) == list(range(6))
    assert completed[0].index != 0
    texts = {item.index: item.result.text for item in completed if item.result}
    assert [texts[n] for n in range(6)] == [item.result.text for item in ordered if item.result]


def test_requests_are_read_as_needed(engine: InferenceEngine) -> None:
    asked = itertools.count()

    def endless() -> Iterator[str]:
        while True:
            yield f"number {next(asked)}"

    with engine.iter_batch(endless(), response_format={"const": 1}) as stream:
        items = list(itertools.islice(stream, 40))
    assert [item.index for item in items] == list(range(40))
    assert next(asked) <= 40 + 4 * engine.batch_size


def test_aiter_batch_does_not_block_the_event_loop(engine: InferenceEngine) -> None:
    async def main() -> list[str]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        texts = [
            item.result.text
            async for item in engine.aiter_batch(
                (f"x {n}" for n in range(6)), response_format=OTHER
            )
            if item.result is not None
        ]
        ticking.cancel()
        assert ticks
        return texts

    texts = asyncio.run(main())
    assert len(texts) == 6
    assert all(json.loads(text) for text in texts)


def test_waiting_leaves_the_threads_of_the_event_loop_alone(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    continues = threading.Event()
    is_busy = threading.Event()
    begun: list[str] = []
    before = threading.active_count()

    def requests() -> Iterator[str]:
        begun.append(variable.get())
        continues.wait()
        yield "x"

    def occupy() -> bool:
        is_busy.set()
        return continues.wait()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        variable.set("the caller's")
        engine = InferenceEngine(tiny_model, tiny_tokenizer)
        streams = [engine.aiter_batch(requests(), response_format=OTHER) for _ in range(3)]
        waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
        busy = core_of(engine).worker.submit(occupy)
        # Threads take their time to start; closing ends calls that have not begun.
        while len(begun) < len(streams) or not is_busy.is_set():
            await asyncio.sleep(0.001)
        closing = asyncio.ensure_future(engine.__aexit__())
        while not core_of(engine).worker.is_closing:
            await asyncio.sleep(0.001)
        assert set(begun) == {"the caller's"}
        waiting[0].cancel()
        try:
            assert await asyncio.wait_for(asyncio.to_thread(lambda: 1), 60) == 1
        finally:
            continues.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert all(isinstance(result, EngineClosedError) for result in results[1:])
        await closing
        assert busy.result()

    variable: ContextVar[str] = ContextVar("variable")
    asyncio.run(main())
    deadline = time.monotonic() + 60
    # The model's thread is used again.
    while threading.active_count() > before + 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before + 1


def test_cancelled_batch_ends(engine: InferenceEngine) -> None:
    endless = {"min_tokens": 400, "max_tokens": 400}
    requests = [BatchRequest("x", options=endless) for _ in range(9)]  # type: ignore[typeddict-item]
    stream = engine.iter_batch(requests)
    threading.Timer(0.2, stream.cancel).start()
    items = list(stream)
    assert all(item.result is not None for item in items)
    assert any(item.result.finish_reason == "cancelled" for item in items if item.result)

    async def main() -> None:
        task = asyncio.create_task(anext(engine.aiter_batch(requests)))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert engine.generate("x", response_format={"const": 1}).parsed == 1


def test_closing_fails_running_and_waiting_requests(tiny_model: Any, tiny_tokenizer: Any) -> None:
    requests = [BatchRequest("x", options={"min_tokens": 400, "max_tokens": 400})] * 50
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=2) as engine:
        outcomes: list[Any] = []
        errors: list[Any] = []

        def read() -> None:
            try:
                outcomes.extend(engine.iter_batch(requests))
            except EngineClosedError as error:
                errors.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        # Requests are queued one by one, while the first ones run. One that is not queued yet when
        # the engine is closed ends the batch.
        while engine.running_requests < 2 or not engine.queued_requests:
            time.sleep(0.001)
        engine.close()
        reader.join(timeout=20)
        assert not reader.is_alive()
    errors += [item.error for item in outcomes if item.error is not None]
    assert errors
    assert all(isinstance(error, EngineClosedError) for error in errors)
    assert engine.queued_requests == engine.running_requests == 0


def test_running_request_shares_its_prompt_cache(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=4) as engine:
        shared = "the same beginning of all of these prompts, " * 4
        results = engine.generate_batch(
            [f"{shared}{n}" for n in range(4)], response_format=PERSON, temperature=1.0, seed=1
        )
    assert results[0].usage.cached_tokens == 0
    assert all(result.usage.cached_tokens > 100 for result in results[1:])


def test_finished_request_is_reported_although_the_next_pass_fails(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pass = Batch.run_pass
    had_both = False

    def fails_after_one_left(self: Batch) -> None:
        nonlocal had_both
        had_both = had_both or len(self.sequences) == 2
        if had_both and len(self.sequences) == 1:
            raise RuntimeError("the device is lost")
        run_pass(self)

    monkeypatch.setattr(Batch, "run_pass", fails_after_one_left)
    lengths = [90, 180]
    outcomes = engine.generate_batch(
        [BatchRequest("x", options={"max_tokens": n, "min_tokens": n}) for n in lengths],
        return_exceptions=True,
    )
    assert not isinstance(outcomes[0], Exception)
    assert isinstance(outcomes[1], RuntimeError)
    monkeypatch.undo()
    assert engine.generate("x", response_format={"const": 1}).parsed == 1


def test_failed_pass_does_not_fail_a_request_whose_prompt_is_processed(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = Batch.sample
    progress: list[int] = []
    failed: list[int] = []

    def fails_once(self: Batch) -> None:
        if len(progress) == 2 and not failed:
            failed.append(len(self.sequences))
            raise RuntimeError("the device is lost")
        sample(self)

    def emit(event: Event) -> None:
        if isinstance(event, PromptProgress):
            progress.append(event.processed)

    monkeypatch.setattr(Batch, "sample", fails_once)
    core = core_of(engine)
    prompt = "a prompt of which no text is cached, since no other test has it"
    options: Any = {"prefill_step_size": 16}
    request = core.preparation.request(prompt, {"type": "boolean"}, options)
    request.watches = True
    in_pass = engine.stream("x", min_tokens=400, max_tokens=400)
    next(in_pass)
    assert isinstance(core.scheduler.submit(request, emit).result()().parsed, bool)
    assert failed == [1]
    with pytest.raises(RuntimeError, match="lost"):
        in_pass.result()


class Leaves(BaseModel):
    side: bool

    @field_validator("side")
    @classmethod
    def _leave(cls, value: bool) -> bool:
        raise SystemExit


def test_base_exception_of_a_validator_fails_its_request_only(engine: InferenceEngine) -> None:
    other = engine.stream("x", min_tokens=100, max_tokens=100)
    next(other)
    with pytest.raises(SystemExit):
        engine.generate("x", response_format=Leaves)
    assert other.result().usage.completion_tokens == 100


@pytest.mark.parametrize("options", [{}, {"n": 2}], ids=str)
def test_validators_do_not_hold_the_model_thread(
    engine: InferenceEngine, options: dict[str, Any]
) -> None:
    class Asking(BaseModel):
        side: bool

        @field_validator("side")
        @classmethod
        def _ask(cls, value: bool) -> bool:
            # Waits for ever if the validator runs on the model thread.
            return bool(engine.generate("x", max_tokens=1).token_ids)

    options = {"temperature": 1.0, **options}
    assert engine.generate("x", response_format=Asking, **options).parsed.side is True
    for event in engine.stream("x", response_format=Asking, **options):
        assert not isinstance(event, Finished) or event.result.parsed.side is True


@pytest.mark.parametrize("streams", [False, True])
def test_validators_do_not_hold_the_event_loop(engine: InferenceEngine, streams: bool) -> None:
    called, answered = threading.Event(), threading.Event()

    class Waiting(BaseModel):
        side: bool

        @field_validator("side")
        @classmethod
        def _wait(cls, value: bool) -> bool:
            called.set()
            return answered.wait(20)

    async def ask() -> GenerationResult[Waiting]:
        if streams:
            return await engine.astream("x", response_format=Waiting).result()
        return await engine.agenerate("x", response_format=Waiting)

    async def main() -> None:
        waiting = asyncio.ensure_future(ask())
        while not called.is_set():
            await asyncio.sleep(0.001)
        answered.set()
        assert (await waiting).parsed.side is True

    asyncio.run(main())


def test_sampler_cannot_use_its_own_engine(engine: InferenceEngine) -> None:
    def ask(_: Any) -> Any:
        return engine.generate("x", max_tokens=1)

    with pytest.raises(EngineError, match="same engine"):
        engine.generate("x", sampler=ask)


def test_cancelled_request_leaves_the_queue_at_once(tiny_model: Any, tiny_tokenizer: Any) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer, batch_size=1) as engine:
        running = engine.stream("x", min_tokens=450, max_tokens=450)
        next(running)
        waiting = engine.stream("y")
        threading.Timer(0.02, waiting.cancel).start()
        assert waiting.result().finish_reason == "cancelled"
        assert engine.running_requests == 1
        running.close()


def test_worker_calls_do_not_starve_requests(engine: InferenceEngine) -> None:
    worker = core_of(engine).worker

    def again() -> None:
        # There is always another call in the queue.
        if not done.is_set():
            worker.submit(again)

    done = threading.Event()
    threading.Timer(20, done.set).start()
    for _ in range(2):
        worker.submit(again)
    assert engine.generate("x", response_format={"type": "boolean"}).parsed in (True, False)
    assert not done.is_set()
    done.set()


def submitted(engine: InferenceEngine, prompt: str) -> Future[Any]:
    request = core_of(engine).preparation.request(prompt, None, {"max_tokens": 3})
    return core_of(engine).scheduler.submit(request)


def test_announced_requests_begin_together(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_MAX_ADMISSION_SECONDS", 60)
    core = core_of(engine)
    with core.scheduler.announced():
        first = submitted(engine, "x")
        time.sleep(0.05)
        assert not len(core.batch)
        assert not first.done()
        submitted(engine, "y")
    assert first.result()().usage.completion_tokens


def test_announced_requests_are_not_waited_for_long(engine: InferenceEngine) -> None:
    with core_of(engine).scheduler.announced():
        assert submitted(engine, "x").result()().usage.completion_tokens


def _attempts(future: Future[Any], media_bytes: int = 0) -> Attempts:
    """Return the attempts at a request that the future ends."""
    prompt = SimpleNamespace(media_bytes=media_bytes)
    request: Any = SimpleNamespace(prompt=prompt, cancelled=threading.Event())
    return Attempts(request, lambda *_: future)


def test_error_of_the_iterable_cancels_the_batch() -> None:
    attempts = _attempts(Future())

    def prompts() -> Iterator[str]:
        yield "x"
        raise LookupError("no more")

    items = RunningBatch(lambda _: attempts, prompts(), batch_size=4, announced=nullcontext).items()
    with pytest.raises(LookupError):
        next(items)
    assert attempts.request.cancelled.is_set()


def test_request_cancelled_during_preparation_is_never_queued(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    preparation = core_of(engine).preparation
    made: list[Request] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Request:
        begun.set()
        go_on.wait(10)
        made.append(Preparation.request(preparation, *arguments))
        return made[0]

    monkeypatch.setattr(preparation, "request", slow)

    async def main() -> None:
        task = asyncio.create_task(engine.agenerate("x", min_tokens=450, max_tokens=450))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(main())
    core_of(engine).threads.shutdown()
    assert made[0].cancelled.is_set()
    assert engine.running_requests == engine.queued_requests == 0


def test_first_token_is_reported_before_the_next_pass(
    tiny_model: Any, tiny_tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0
    told: list[int] = []
    original = type(tiny_model).__call__

    def counting(self: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal passes
        passes += 1
        return original(self, *arguments, **keywords)

    def emit(event: Event) -> None:
        if isinstance(event, TokenGenerated) and not event.is_forced:
            told.append(passes)

    monkeypatch.setattr(type(tiny_model), "__call__", counting)
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        core = core_of(engine)
        # Text forced by a letter takes a pass that is dispatched once the letter is read.
        request = core.preparation.request(
            "x",
            {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 3, "maxItems": 3},
            {"temperature": 0.0, "prefill_step_size": 512},
        )
        request.watches = True
        passes = 0
        core.scheduler.submit(request, emit).result()
    assert told[0] == 1


def test_cancelled_wait_for_an_item_ends_the_stream(engine: InferenceEngine) -> None:
    async def main() -> None:
        stream = engine.aiter_batch(["x"] * 3, min_tokens=450, max_tokens=450)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.02)
        assert [item async for item in stream] == []

    asyncio.run(main())


def test_error_of_an_event_receiver_fails_its_request_only(engine: InferenceEngine) -> None:
    other = engine.stream("x", min_tokens=60, max_tokens=60)
    next(other)
    core = core_of(engine)
    for kind in ("prompt_progress", "token"):
        count = 0

        def emit(event: Event, kind: str = kind) -> None:
            nonlocal count
            count += event.type == kind
            if count == 2:
                raise LookupError(kind)

        options: Any = {"prefill_step_size": 16, "min_tokens": 9}
        request = core.preparation.request(f"{kind} " * 9, None, options)
        request.watches = True
        with pytest.raises(LookupError, match=kind):
            core.scheduler.submit(request, emit).result()
    assert other.result().usage.completion_tokens == 60


def test_max_seconds_of_a_batch_counts_from_the_begin_of_each_request(
    engine: InferenceEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Scheduler.submit

    def submit_long_ago(self: Scheduler, request: Request, *emit: Any) -> Any:
        future = submit(self, request, *emit)
        request.created -= 5000
        return future

    def admit_late(self: Scheduler) -> None:
        time.sleep(0.01)
        admit(self)

    admit = Scheduler._admit
    monkeypatch.setattr(Scheduler, "submit", submit_long_ago)
    # The submitting thread changes ``created`` first.
    monkeypatch.setattr(Scheduler, "_admit", admit_late)
    options: Any = {"min_tokens": 30, "max_tokens": 30, "max_seconds": 1000}
    (batched,) = engine.generate_batch(["x"], **options)
    assert batched.usage.completion_tokens == 30
    assert engine.generate("x", **options).usage.completion_tokens == 1


def test_warm_up_probes_batches_before_the_first_request(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    with InferenceEngine(tiny_model, tiny_tokenizer) as engine:
        probe = core_of(engine).batch._probe
        assert not probe._results
        engine.warm_up()
        assert "padding" in probe._results


@pytest.mark.parametrize(("megabytes", "unfinished"), [(0, 15), (20, 13), (256, 4), (1_000, 4)])
@pytest.mark.parametrize("ordered", [False, True])
def test_large_media_are_not_read_ahead(megabytes: int, unfinished: int, ordered: bool) -> None:
    futures: list[Future[Any]] = []

    def prepare(_: BatchRequest) -> Attempts:
        futures.append(Future())
        return _attempts(futures[-1], megabytes << 20)

    def prompts() -> Iterator[str]:
        yield "first"
        futures[0].set_result(None)
        yield from itertools.repeat("x")

    batch = RunningBatch(prepare, prompts(), batch_size=4, announced=nullcontext, ordered=ordered)
    assert next(batch.items()).index == 0
    assert len(futures) == 1 + unfinished
