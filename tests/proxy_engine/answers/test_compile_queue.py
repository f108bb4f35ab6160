"""Compiling: one at a time, short jobs first, cancellable, each key once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from proxy_engine.answers.compile_queue import CompileCache, CompileJob, CompileQueue
from proxy_engine.answers.response_format import ResponseFormatCompiler
from proxy_engine.errors import CompileLimitError, RequestCancelledError
from proxy_engine.text_formats import Choice
from state_machines.budgets import spend
from state_machines.limits import LIMITS


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


def endless() -> None:
    while True:
        spend(LIMITS.checkpoint_steps)


def do_nothing() -> None:
    pass


def test_work_of_one_job_runs_at_a_time(threads: ThreadPoolExecutor) -> None:
    queue = CompileQueue()
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.001)
        inside -= 1

    for done in [threads.submit(CompileJob(queue).run, work) for _ in range(20)]:
        done.result()
    assert most == 1


def test_short_job_does_not_wait_for_a_long_one(threads: ThreadPoolExecutor) -> None:
    queue, cancelled, began = CompileQueue(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        endless()

    long = threads.submit(CompileJob(queue, cancelled).run, work)
    began.wait()
    assert threads.submit(CompileJob(queue).run, lambda: "short").result(10) == "short"
    assert not long.done()
    cancelled.set()
    with pytest.raises(RequestCancelledError):
        long.result(10)
    assert CompileJob(queue).run(lambda: "free again") == "free again"


def test_job_that_waits_for_its_turn_can_be_cancelled(threads: ThreadPoolExecutor) -> None:
    queue, cancelled, hold = CompileQueue(), threading.Event(), threading.Event()
    holder = threads.submit(CompileJob(queue).run, hold.wait)
    waiting = threads.submit(CompileJob(queue, cancelled).run, do_nothing)
    cancelled.set()
    with pytest.raises(RequestCancelledError):
        waiting.result(10)
    hold.set()
    holder.result(10)
    CompileJob(queue).run(do_nothing)


def test_processor_time_of_all_runs_of_a_job_is_limited() -> None:
    job = CompileJob(max_seconds=0.01)
    with pytest.raises(CompileLimitError) as caught:
        job.run(endless)
    assert caught.value.seconds == 0.01
    with pytest.raises(CompileLimitError):
        job.run(do_nothing)


def test_time_spent_waiting_for_a_turn_is_not_charged(threads: ThreadPoolExecutor) -> None:
    queue, hold = CompileQueue(), threading.Event()
    holder = threads.submit(CompileJob(queue).run, hold.wait)
    waiting = threads.submit(CompileJob(queue, max_seconds=0.05).run, lambda: "done")
    time.sleep(0.1)
    hold.set()
    assert waiting.result(10) == "done"
    holder.result(10)


def test_error_of_work_frees_the_turn() -> None:
    queue = CompileQueue()
    with pytest.raises(LookupError):
        CompileJob(queue).run(lambda: [][0])
    assert CompileJob(queue).run(lambda: 1) == 1


def test_threads_that_want_one_key_compile_it_once(threads: ThreadPoolExecutor) -> None:
    cache: CompileCache[object] = CompileCache(4)
    go_on = threading.Event()
    made = []

    def make() -> object:
        go_on.wait()
        made.append(object())
        return made[-1]

    waiting = [threads.submit(cache.get, "key", make, CompileJob()) for _ in range(4)]
    go_on.set()
    assert {id(each.result(10)) for each in waiting} == {id(made[0])}
    assert len(made) == 1


def test_known_key_does_not_wait_for_another_key_that_compiles(
    threads: ThreadPoolExecutor,
) -> None:
    cache: CompileCache[str] = CompileCache(4)
    queue, cancelled = CompileQueue(), threading.Event()
    cache.get("known", lambda: "value", CompileJob(queue))
    began = threading.Event()

    def slow() -> str:
        began.set()
        endless()
        return ""

    slow_one = threads.submit(cache.get, "slow", slow, CompileJob(queue, cancelled))
    began.wait()
    assert cache.get("known", lambda: "another", CompileJob(queue)) == "value"
    cancelled.set()
    with pytest.raises(RequestCancelledError):
        slow_one.result(10)


def test_cancelled_compilation_is_taken_over_by_the_request_that_waits(
    threads: ThreadPoolExecutor,
) -> None:
    cache: CompileCache[str] = CompileCache(4)
    queue, cancelled, began = CompileQueue(), threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        endless()
        return ""

    first = threads.submit(cache.get, "key", slow, CompileJob(queue, cancelled))
    began.wait()
    second = threads.submit(cache.get, "key", lambda: "value", CompileJob(queue))
    cancelled.set()
    assert second.result(10) == "value"
    with pytest.raises(RequestCancelledError):
        first.result(10)


def test_failed_compilation_is_not_cached() -> None:
    cache: CompileCache[str] = CompileCache(4)
    with pytest.raises(LookupError):
        cache.get("key", lambda: [""][1], CompileJob())
    assert cache.get("key", lambda: "value", CompileJob()) == "value"


def test_least_recently_used_key_is_dropped() -> None:
    cache: CompileCache[int] = CompileCache(2)
    for key in "ab", "a", "c":
        for each in key:
            cache.get(each, lambda: 1, CompileJob())
    assert cache.get("a", lambda: 2, CompileJob()) == 1
    assert cache.get("b", lambda: 2, CompileJob()) == 2


def test_machine_of_a_source_is_compiled_once() -> None:
    compiler = ResponseFormatCompiler()
    one, two = (compiler.compile(Choice(["yes", "no"])).machine for _ in range(2))
    assert one is two
