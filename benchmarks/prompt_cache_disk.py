"""Prompt caches on disk: time to first token, cost of look-ups and writes, concurrent processes.

* *first token*: a long system prompt, new, from memory, and from disk after a restart. The files
  are removed from the operating system's page cache before they are read.
* *look-up*: with 10,000 files of other texts, for a prompt of 8,192 tokens.
* *stream*: duration of a stream while other requests reuse long texts, with a directory (each text
  is then written) over without one. Engines take turns.
* *processes*: four processes with a small bound read and write the same texts. Each answer is
  compared with that of an engine without prompt caching.

    python benchmarks/prompt_cache_disk.py [--repeats 3] [--seconds 20]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import mlx.core as mx
import numpy as np
from alternation import ratio_of, rotated
from arguments import environment
from mlx_lm.models import llama
from mlx_lm.models.cache import KVCache, RotatingKVCache

from proxy_engine import CacheOptions, InferenceEngine
from proxy_engine.conversation.messages import Prompt
from proxy_engine.prompt_cache.disk.disk_cache import DiskCache
from proxy_engine.prompt_cache.prompt_caches import PromptCaches

FIGURES = Path(__file__).parents[1] / "docs" / "plots" / "prompt_cache_disk.json"

_FILES = 10_000
_PROMPT_TOKENS = 8192
_TEXTS = 4
_PROCESSES = 4
_MAX_BYTES = 3_000_000
_LONG = {"type": "string", "minLength": 300, "maxLength": 320}
_WORDS = ("the", "rule", "applies", "to", "every", "order", "that", "a", "customer", "returns")
_TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-5,
    "vocab_size": 64,
}


def system_prompt(words: int, seed: int) -> str:
    """Return random text, about one token a word."""
    known = [
        "the",
        "rule",
        "applies",
        "to",
        "every",
        "order",
        "that",
        "a",
        "customer",
        "returns",
        "within",
        "thirty",
        "days",
    ]
    chosen = np.random.default_rng(seed).choice(known, words)
    return " ".join(map(str, chosen))


def conversation(words: int, seed: int, question: str = "Why?") -> Prompt:
    """Return a conversation with a long system prompt."""
    return [
        {"role": "system", "content": system_prompt(words, seed)},
        {"role": "user", "content": question},
    ]


def measure_first_token(words: int, repeats: int) -> dict[str, Any]:
    """Measure the time to the first token."""
    seconds: dict[str, list[float]] = {"new": [], "memory": [], "disk": []}
    tokens, nbytes = 0, 0
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            options = CacheOptions(directory=Path(folder))
            with InferenceEngine(cache=options, on_progress=None) as engine:
                engine.generate("Hello", max_tokens=1)
                for kind, question in (("new", "Why?"), ("memory", "How?")):
                    seconds[kind].append(_first_token(engine, words, repeat, question)[0])
            nbytes = _drop_page_cache(Path(folder))
            with InferenceEngine(cache=options, on_progress=None) as engine:
                engine.generate("Hello", max_tokens=1)
                took, cached = _first_token(engine, words, repeat, "When?")
                seconds["disk"].append(took)
                tokens = cached
    return {
        "seconds": {kind: round(median(values), 4) for kind, values in seconds.items()},
        "new_beside_disk": ratio_of(seconds["new"], seconds["disk"]).as_record(),
        "cached_tokens": tokens,
        "file_bytes": nbytes,
    }


def _first_token(
    engine: InferenceEngine, words: int, seed: int, question: str
) -> tuple[float, int]:
    started = time.perf_counter()
    result = engine.generate(conversation(words, seed, question), max_tokens=1, temperature=0)
    return time.perf_counter() - started, result.usage.cached_tokens


def _drop_page_cache(folder: Path) -> int:
    """Write files to the device and drop them from the page cache; return their size."""
    total = 0
    for path in folder.rglob("*.safetensors"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        total += path.stat().st_size
    return total


def measure_lookups() -> dict[str, Any]:
    """Measure look-ups in a directory with many files."""
    text = np.arange(_PROMPT_TOKENS, dtype=np.int64)
    arrays = mx.zeros((2, 1, 1, _PROMPT_TOKENS, 4))
    lengths = np.random.default_rng(0).integers(128, _PROMPT_TOKENS, _FILES).tolist()
    figures: dict[str, Any] = {"files": _FILES, "prompt_tokens": _PROMPT_TOKENS}
    for kind, letter, layer in (
        ("blocks", "b", KVCache()),
        ("states", "s", RotatingKVCache(_PROMPT_TOKENS)),
    ):
        layer.update_and_fetch(arrays[0], arrays[1])
        with tempfile.TemporaryDirectory() as folder:
            disk = DiskCache(
                Path(folder), {}, 1 << 40, by_token=kind == "blocks", fits=lambda *_: True
            )
            disk.keep(text, [layer])
            disk.wait(60)
            for number in range(_FILES - len(list(disk.directory.iterdir()))):
                digest = hashlib.sha256(str(number).encode()).hexdigest()
                name = f"{letter}{lengths[number]}-{digest}.safetensors"
                (disk.directory / name).write_bytes(b"x")
            figures[kind] = _measure_lookup(disk, text)
            disk.close()
    return figures


def _measure_lookup(disk: DiskCache, text: Any) -> dict[str, float]:
    def look_up(key: Any) -> None:
        # Nothing is read: a memory of 0 bytes has no room.
        disk.find(key, above=0, max_bytes=0)

    def look_up_after_a_change() -> None:
        (disk.directory / "x").touch()
        (disk.directory / "x").unlink()
        look_up(text)

    time.sleep(0.2)
    return {
        "found_milliseconds": _milliseconds(lambda: look_up(text)),
        "missing_milliseconds": _milliseconds(lambda: look_up(text + 1)),
        "after_a_change_milliseconds": _milliseconds(look_up_after_a_change),
    }


def _milliseconds(call: Callable[[], Any], count: int = 50) -> float:
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return round(1e3 * median(seconds), 3)


def measure_stream(words: int, repeats: int) -> dict[str, Any]:
    """Measure a stream while other requests reuse texts, with writes over without."""
    seconds: dict[str, list[float]] = {"with": [], "without": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        InferenceEngine(cache=CacheOptions(directory=Path(folder)), on_progress=None) as writing,
        InferenceEngine(on_progress=None) as other,
    ):
        engines = {"with": writing, "without": other}
        for repeat in range(repeats):
            for kind in rotated(engines, repeat):
                seconds[kind].append(_stream_seconds(engines[kind], words, repeat))
        nbytes = sum(path.stat().st_size for path in Path(folder).rglob("b*"))
    return {
        "seconds_with_over_without": ratio_of(seconds["with"], seconds["without"]).as_record(),
        "written_bytes_per_stream": nbytes // repeats,
        "texts_per_stream": _TEXTS,
        "keep_milliseconds": _measure_keep(),
    }


def _measure_keep() -> float:
    """Measure how long the model thread hands a text of 4,096 tokens over to the writer.

    The cache has the shape of the embedded model's: 96 MB.
    """
    texts = [np.full(4096, number, dtype=np.int64) for number in range(5)]
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        disk = DiskCache(Path(folder), {}, 1 << 40, by_token=True, fits=lambda *_: True)
        cache = [KVCache() for _ in range(30)]
        for layer in cache:
            layer.update_and_fetch(*mx.zeros((2, 1, 3, 4096, 64), mx.bfloat16))
        mx.eval([layer.state for layer in cache])
        for text in texts:
            started = time.perf_counter()
            disk.keep(text, cache)
            seconds.append(time.perf_counter() - started)
            disk.wait(60)
        disk.close()
    return round(1e3 * median(seconds), 3)


def _stream_seconds(engine: InferenceEngine, words: int, seed: int) -> float:
    texts = range(1000 * seed, 1000 * seed + _TEXTS)
    for text in texts:
        engine.generate(conversation(words, text), max_tokens=1)
    finished: list[float] = []

    def stream() -> None:
        engine.generate("Tell me a story.", max_tokens=200, seed=seed, response_format=_LONG)
        finished.append(time.perf_counter())

    started = time.perf_counter()
    thread = threading.Thread(target=stream)
    thread.start()
    for text in texts:
        engine.generate(conversation(words, text, "How?"), max_tokens=1)
    thread.join()
    return finished[0] - started


def measure_processes(seconds: float) -> dict[str, Any]:
    """Let processes read and write one directory."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        results: Any = context.Queue()
        processes = [
            context.Process(target=_work, args=(Path(folder), number, seconds, results))
            for number in range(_PROCESSES)
        ]
        for process in processes:
            process.start()
        largest = 0
        while any(process.is_alive() for process in processes):
            largest = max(largest, _size(Path(folder)))
            time.sleep(0.02)
        figures = [results.get() for _ in processes]
    totals = {name: sum(one[name] for one in figures) for name in figures[0]}
    return {
        "processes": _PROCESSES,
        "seconds": seconds,
        "max_disk_bytes": _MAX_BYTES,
        "largest_size_bytes": largest,
        **totals,
    }


def _size(folder: Path) -> int:
    total = 0
    for path in folder.glob("*/*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _work(folder: Path, number: int, seconds: float, results: Any) -> None:
    warnings = _Warnings()
    logging.getLogger("proxy_engine").addHandler(warnings)
    mx.random.seed(0)
    model = llama.Model(llama.ModelArgs.from_dict(_TINY))
    random = np.random.default_rng(number)
    prompts = [np.random.default_rng(seed).integers(0, 64, 600).tolist() for seed in range(12)]
    expected = [_greedy(model, PromptCaches(model, CacheOptions(max_bytes=0)), p) for p in prompts]
    counts = {"requests": 0, "read_from_disk": 0, "wrong_answers": 0, "warnings": 0}
    deadline = time.monotonic() + seconds
    caches = None
    while time.monotonic() < deadline:
        if caches is None or counts["requests"] % 20 == 0:
            # As a process that is started again.
            if caches is not None:
                caches.close()
            caches = PromptCaches(model, CacheOptions(directory=folder, max_disk_bytes=_MAX_BYTES))
        text = int(random.integers(len(prompts)))
        before = len(caches)
        tokens, cached = _greedy(model, caches, prompts[text])
        counts["requests"] += 1
        counts["read_from_disk"] += cached > 0 and len(caches) > before
        counts["wrong_answers"] += tokens != expected[text][0]
    counts["warnings"] = len(warnings.messages)
    results.put(counts)


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _greedy(model: Any, caches: PromptCaches, prompt: list[int]) -> tuple[list[int], int]:
    """Answer with eight tokens; return them and the number of cached tokens."""
    fetched = caches.fetch(prompt)
    tokens = list(prompt)
    logits = model(mx.array([tokens[fetched.cached_tokens :]]), cache=fetched.cache)
    for _ in range(8):
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
        logits = model(mx.array([tokens[-1:]]), cache=fetched.cache)
    caches.insert(tokens, fetched.cache)
    return tokens[len(prompt) :], fetched.cached_tokens


def main() -> None:
    """Measure, print the figures and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--words", type=int, default=1200, help="length of the system prompt")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="time of the processes")
    parser.add_argument("--parts", help="lookup, processes, first_token, stream (default: all)")
    parser.add_argument("--json", type=Path, default=FIGURES)
    options = parser.parse_args()
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "lookup": measure_lookups,
        "processes": lambda: measure_processes(options.seconds),
        "first_token": lambda: measure_first_token(options.words, options.repeats),
        "stream": lambda: measure_stream(options.words // 3, options.repeats),
    }
    figures = {}
    if options.json.exists():
        figures = json.loads(options.json.read_text(encoding="utf-8"))
    figures["environment"] = environment()
    for name in options.parts.split(",") if options.parts else parts:
        figures[name] = parts[name]()
        print(name, json.dumps(figures[name], indent=1), flush=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
