"""The server's Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from ..results.parts import Usage

_PREFIX = "proxy_engine"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKENS = {
    "prompt": "prompt_tokens",
    "cached": "cached_tokens",
    "image": "image_tokens",
    "audio": "audio_tokens",
    "completion": "completion_tokens",
    "fast_forwarded": "fast_forwarded_tokens",
    "drafted": "drafted_tokens",
    "accepted": "accepted_tokens",
}
_PHASES = ("preparation", "queue", "prompt", "completion", "mask", "draft", "sample", "forward")


class Metrics:
    """All metrics of one application, in a separate registry. Thread-safe.

    An answer is a single output; a request may ask for several. Each is counted in ``started`` when
    it is given to the engine and in ``answers`` when it ends, by its outcome.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "HTTP requests.", "path", "status")
        self.started = self._counter("answers_started", "Answers given to the engine.")
        self.answers = self._counter("answers", "Answers that ended.", "outcome")
        self.refused = self._counter("queue_refused", "Answers refused because the queue is full.")
        self.tokens = self._counter(
            "tokens",
            "Tokens: prompt (including cached, image and audio), drafted, completion (including "
            "fast-forwarded and accepted draft tokens).",
            "kind",
        )
        self.seconds = self._counter(
            "engine_seconds",
            "Engine time: queue, prompt, completion (including mask, draft, sample and forward).",
            "phase",
        )
        self.forward_passes = self._counter(
            "forward_passes", "Forward passes after the prompt, once for each answer in a pass."
        )
        self.cache_hits = self._counter(
            "prompt_cache_hits", "Answers whose prompt was at least partly cached."
        )
        self.model_loads = self._counter("model_loads", "Model loads.", "result")
        self.first_token = self._histogram(
            "time_to_first_token_seconds", "Time from a request to its first token."
        )
        self.duration = self._histogram(
            "answer_seconds", "Time from a request to its answer's end."
        )

    def watch(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is what ``read`` returns at the time of a scrape."""
        Gauge(name, about, namespace=_PREFIX, registry=self.registry).set_function(read)

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 if there are none."""
        return sum(
            sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == f"{_PREFIX}_{name}" and labels.items() <= sample.labels.items()
        )

    @property
    def mean_answer_seconds(self) -> float | None:
        """The mean of ``answer_seconds``; ``None`` before the first answer."""
        count = self.value("answer_seconds_count")
        return self.value("answer_seconds_sum") / count if count else None

    def count_usage(self, usage: Usage) -> None:
        """Add the tokens and seconds of a finished answer."""
        for kind, name in _TOKENS.items():
            self.tokens.labels(kind).inc(getattr(usage, name))
        for phase in _PHASES:
            self.seconds.labels(phase).inc(getattr(usage, f"{phase}_seconds"))
        self.forward_passes.inc(usage.forward_passes)
        if usage.cached_tokens:
            self.cache_hits.inc()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, namespace=_PREFIX, registry=self.registry)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(name, about, namespace=_PREFIX, buckets=_SECONDS, registry=self.registry)
