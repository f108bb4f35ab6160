"""The cost of OpenAI's client on an engine in the same process, beside the engine's own methods.

``python benchmarks/in_process.py [--repeats 40] [--tokens 400] [--model 2x64]``

The model generates each answer once. After that a thread replays its events, so that only the work
around the model is measured: processor time of the whole process, the least of all repeats, since
other processes can only add to it. The kinds of requests take turns. "Client alone" reads recorded
responses, so it is the share of ``openai`` and its HTTP library. The times to the first token are
medians, with the model.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import openai
from random_models import save_random_model, size

from proxy_engine import InferenceEngine
from proxy_engine.integrations.openai import EngineTransport

MESSAGES: Any = [{"role": "user", "content": "Describe the weather in Lima."}]


class Replay:
    """Takes the place of an engine's scheduler: replays the events of each length of answer."""

    def __init__(self, engine: InferenceEngine) -> None:
        self._submit = engine._core.scheduler.submit
        self._known: dict[Any, tuple[list[Any], Any]] = {}
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, request: Any, emit: Callable[[Any], None] = lambda event: None) -> Future[Any]:
        """Return the future of an answer, as the scheduler does."""
        tokens, future = request.options.max_tokens, Future[Any]()
        if tokens not in self._known:
            events: list[Any] = []
            request.watches = True
            result = self._submit(request, events.append).result()()
            self._known[tokens] = (events, result)
        self._jobs.put((*self._known[tokens], emit, future))
        return future

    def _run(self) -> None:
        while True:
            events, result, emit, future = self._jobs.get()
            for event in events:
                emit(event)
            future.set_result(lambda result=result: result)


class Recorded:
    """A transport that repeats the pieces of the latest response of another one."""

    def __init__(self, transport: EngineTransport) -> None:
        self._transport = transport
        self._pieces: dict[bytes, tuple[Any, list[bytes]]] = {}

    def handle_request(self, request: Any) -> Any:
        """Return the recorded response to an equal body."""
        body = request.read()
        if body not in self._pieces:
            response = self._transport.handle_request(request)
            self._pieces[body] = (response, list(response.stream))
        first, pieces = self._pieces[body]
        # A list of bytes is a stream of both libraries.
        stream = type("Stream", (type(first.stream),), {"__iter__": lambda self: iter(self._body)})
        stream.close = lambda self: None
        return type(first)(first.status_code, headers=first.headers.raw, stream=stream(pieces))

    def close(self) -> None:
        """Do nothing."""


def answers(engine: InferenceEngine, tokens: int) -> dict[str, Callable[[], Iterable[Any]]]:
    """Return the kinds of requests; the result of each is iterated."""
    own = {"max_tokens": tokens, "min_tokens": tokens, "temperature": 0}
    request: Any = {
        "model": "",
        "messages": MESSAGES,
        "max_tokens": tokens,
        "temperature": 0,
        "extra_body": {"min_tokens": tokens},
    }
    transport: Any = Recorded(EngineTransport(engine))
    client = engine.openai()
    alone = engine.openai(http_client=openai.DefaultHttpxClient(transport=transport))
    ask, ask_alone = client.chat.completions.create, alone.chat.completions.create
    return {
        "generate": lambda: [engine.generate(MESSAGES, **own)],  # type: ignore[call-overload]
        "create": lambda: [ask(**request)],
        "create, client alone": lambda: [ask_alone(**request)],
        "stream": lambda: engine.stream(MESSAGES, **own),
        "create(stream=True)": lambda: ask(stream=True, **request),
        "create(stream=True), client alone": lambda: ask_alone(stream=True, **request),
    }


def processor_ms(kinds: dict[str, Callable[[], Iterable[Any]]], repeats: int) -> dict[str, float]:
    """Return the processor time of each kind, in milliseconds."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(repeats):
        for name, ask in kinds.items():
            started = time.process_time()
            list(ask())
            seconds[name].append(time.process_time() - started)
    return {name: 1e3 * min(values) for name, values in seconds.items()}


def first_ms(kinds: dict[str, Callable[[], Iterable[Any]]], repeats: int) -> dict[str, float]:
    """Return the time to the first item of each kind, in milliseconds."""
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(repeats):
        for name, ask in kinds.items():
            started = time.perf_counter()
            items = iter(ask())
            next(items)
            seconds[name].append(time.perf_counter() - started)
            for _ in items:
                pass
    return {name: 1e3 * statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--model", type=size, default=size("1x32"))
    given = parser.parse_args()
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as directory:
        save_random_model(given.model, Path(directory))
        with InferenceEngine(directory, on_progress=None) as engine:
            short, long = answers(engine, 1), answers(engine, 1 + given.tokens)
            first = first_ms(answers(engine, 20), given.repeats)
            engine._core.scheduler.submit = Replay(engine).submit  # type: ignore[method-assign]
            request_ms = processor_ms(short, given.repeats)
            answer_ms = processor_ms(long, given.repeats)
    print(f"{'':34}{'ms a request':>14}{'µs a token':>12}{'ms to the first':>17}")
    for name, spent in request_ms.items():
        token = 1e3 * (answer_ms[name] - spent) / given.tokens
        print(f"{name:34}{spent:14.2f}{token:12.1f}{first[name]:17.2f}")


if __name__ == "__main__":
    main()
