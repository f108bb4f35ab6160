"""What a server counts, in the text format that Prometheus reads.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..results import Usage

__all__ = ["Counter", "Gauge", "Histogram", "Metrics"]

_PREFIX = "proxy_engine_"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Counter:
    """Numbers that only grow, one for each combination of labels. Safe from any thread."""

    kind = "counter"

    def __init__(self, name: str, about: str) -> None:
        self.name = _PREFIX + name
        self.about = about
        self._lock = threading.Lock()
        self._values: dict[tuple[tuple[str, str], ...], float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        """Count ``amount`` more."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, **labels: str) -> float:
        """Return the sum over everything with these labels."""
        wanted = set(labels.items())
        with self._lock:
            return sum(value for key, value in self._values.items() if wanted <= set(key))

    def lines(self) -> Iterator[str]:
        """Return the samples."""
        with self._lock:
            values = dict(self._values)
        for key, value in sorted(values.items()):
            yield _sample(self.name, dict(key), value)


class Gauge:
    """A number that is looked up when somebody asks."""

    kind = "gauge"

    def __init__(self, name: str, about: str, read: Callable[[], float]) -> None:
        self.name = _PREFIX + name
        self.about = about
        self._read = read

    def lines(self) -> Iterator[str]:
        """Return the sample."""
        yield _sample(self.name, {}, self._read())


class Histogram:
    """How long something took, in seconds. Safe from any thread."""

    kind = "histogram"

    def __init__(self, name: str, about: str, bounds: Sequence[float] = _SECONDS) -> None:
        self.name = _PREFIX + name
        self.about = about
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Take in one more."""
        with self._lock:
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._sum += seconds

    @property
    def mean(self) -> float:
        """The mean of all; 0 where there is none."""
        with self._lock:
            count = sum(self._counts)
            return self._sum / count if count else 0.0

    def lines(self) -> Iterator[str]:
        """Return the samples."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        so_far = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            so_far += count
            yield _sample(f"{self.name}_bucket", {"le": bound}, so_far)
        yield _sample(f"{self.name}_sum", {}, total)
        yield _sample(f"{self.name}_count", {}, so_far)


class Metrics:
    """All of a server's numbers.

    ``answers`` are single outputs: a request asks for one or several. ``started`` of them were
    given to the engine; each is counted once in ``answers``, by how it ended.
    """

    def __init__(self) -> None:
        self.requests = Counter("requests_total", "HTTP requests by path and status.")
        self.started = Counter("answers_started_total", "Answers that were begun.")
        self.answers = Counter("answers_total", "Answers that ended, by how they did.")
        self.refused = Counter("queue_refused_total", "Answers refused because the queue is full.")
        self.tokens = Counter(
            "tokens_total", "Tokens by kind: prompt and, of these, cached; completion and forced."
        )
        self.seconds = Counter(
            "engine_seconds_total",
            "Engine time by phase: queue, prompt, completion and, of that, mask, sample, forward.",
        )
        self.cache_hits = Counter(
            "prompt_cache_hits_total", "Answers whose prompt was in part read already."
        )
        self.model_loads = Counter("model_loads_total", "Models loaded, by result.")
        self.first_token = Histogram(
            "time_to_first_token_seconds", "Time from a request to its first token."
        )
        self.duration = Histogram("answer_seconds", "Time from a request to its answer's end.")
        self._gauges: list[Gauge] = []

    def watch(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Show a number that ``read`` returns."""
        self._gauges.append(Gauge(name, about, read))

    def count_usage(self, usage: Usage) -> None:
        """Take in what an answer has cost."""
        for kind, tokens in (
            ("prompt", usage.prompt_tokens),
            ("cached", usage.cached_tokens),
            ("completion", usage.completion_tokens),
            ("forced", usage.forced_tokens),
        ):
            self.tokens.add(tokens, kind=kind)
        for phase, seconds in (
            ("queue", usage.queue_seconds),
            ("prompt", usage.prompt_seconds),
            ("completion", usage.completion_seconds),
            ("mask", usage.mask_seconds),
            ("sample", usage.sample_seconds),
            ("forward", usage.forward_seconds),
        ):
            self.seconds.add(seconds, phase=phase)
        if usage.cached_tokens:
            self.cache_hits.add()

    def render(self) -> str:
        """Return all of it as text."""
        lines: list[str] = []
        own = (value for value in vars(self).values() if isinstance(value, Counter | Histogram))
        for metric in (*own, *self._gauges):
            lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value:.15g}" if inner else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
