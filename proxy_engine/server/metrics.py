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

_PREFIX = "proxy_engine:"
"""As vLLM's metrics have its name. Metrics that vLLM has, too, are named as there."""

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# By name in `Usage`.
_TOKENS = {
    "prompt_tokens": ("prompt_tokens", "Tokens of prompts."),
    "cached_tokens": ("prefix_cache_hits", "Tokens of prompts that were cached."),
    "image_tokens": ("image_tokens", "Tokens of prompts that stand for images."),
    "audio_tokens": ("audio_tokens", "Tokens of prompts that stand for recordings."),
    "completion_tokens": ("generation_tokens", "Tokens of answers."),
    "forced_tokens": ("forced_tokens", "Tokens of answers that were not sampled."),
    "drafted_tokens": ("spec_decode_num_draft_tokens", "Drafted tokens that were verified."),
    "accepted_tokens": ("spec_decode_num_accepted_tokens", "Those that answers have."),
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
        self.answers = self._counter("request_success", "Answers that ended.", "finished_reason")
        self.refused = self._counter("queue_refused", "Answers refused because the queue is full.")
        self.tokens = {
            name: self._counter(metric, about) for name, (metric, about) in _TOKENS.items()
        }
        self.seconds = self._counter(
            "engine_seconds",
            "Engine time: queue, prompt, completion (including mask, draft, sample and forward).",
            "phase",
        )
        self.forward_passes = self._counter(
            "forward_passes", "Forward passes after the prompt, once for each answer in a pass."
        )
        self.model_loads = self._counter("model_loads", "Model loads.", "result")
        self.first_token = self._histogram(
            "time_to_first_token_seconds", "Time from a request to its first token."
        )
        self.duration = self._histogram(
            "e2e_request_latency_seconds", "Time from a request to its answer's end."
        )

    def watch(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Add a gauge whose value is what ``read`` returns at the time of a scrape."""
        Gauge(_PREFIX + name, about, registry=self.registry).set_function(read)

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 if there are none."""
        return sum(
            sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == _PREFIX + name and labels.items() <= sample.labels.items()
        )

    @property
    def mean_answer_seconds(self) -> float | None:
        """The mean of ``duration``; ``None`` before the first answer."""
        count = self.value("e2e_request_latency_seconds_count")
        return self.value("e2e_request_latency_seconds_sum") / count if count else None

    def count_usage(self, usage: Usage) -> None:
        """Add the tokens and seconds of a finished answer."""
        for name, counter in self.tokens.items():
            counter.inc(getattr(usage, name))
        for phase in _PHASES:
            self.seconds.labels(phase).inc(getattr(usage, f"{phase}_seconds"))
        self.forward_passes.inc(usage.forward_passes)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(_PREFIX + name, about, buckets=_SECONDS, registry=self.registry)
