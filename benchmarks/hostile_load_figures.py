"""The figures of one kind of hostile request, their targets, and the table of all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

__all__ = ["Figures", "combined", "missed", "rows"]

_MIB = 1 << 20
_MOST_CPU_SECONDS = 1.0
_MOST_BYTES = 256 * _MIB
_MOST_SECONDS_TO_IDLE = 0.2
_GAP_ALLOWANCE = 0.1
_NOISE = 1.2


@dataclass
class Figures:
    """The figures of a kind. Times are in seconds; ``None`` means not before the deadline.

    Attributes:
        outcomes: Responses to the requests whose clients stayed.
        quiet: The slowest ordinary request of each sort (``plain``, ``known``, ``new``) beside a
            running stream, and the stream's largest ``gap`` between tokens.
        loaded: The same with six hostile requests in flight; a value that had not ended is the time
            until the deadline.
        unanswered: The sorts of ordinary requests that had no answer before the deadline.
        cpu_seconds: Processor time of one hostile request alone, until the server was idle.
        alone_bytes: Growth of the largest resident memory by one hostile request.
        loaded_bytes: The same by six at a time.
        idle_seconds: From the leaving of six clients until the server was idle.
        pause_seconds: Processor time of the longest run of the garbage collector meanwhile.
    """

    kind: str
    outcomes: list[str] = field(default_factory=list)
    quiet: dict[str, float] = field(default_factory=dict)
    loaded: dict[str, float] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    cpu_seconds: float = 0.0
    is_over: bool = False
    alone_bytes: int = 0
    loaded_bytes: int = 0
    idle_seconds: float | None = None
    pause_seconds: float = 0.0

    def as_record(self, control: Figures) -> dict[str, Any]:
        """Return the figures for a JSON file."""
        return {**asdict(self), "missed": missed(self, control)}


def missed(figures: Figures, control: Figures) -> list[str]:
    """Return the names of the targets that were missed.

    Args:
        figures: The kind's.
        control: Those of harmless requests. The model's work for six more answers is no fault of
            theirs: a time may be ``_NOISE`` times as long as beside these, and processor time is
            what exceeds theirs.
    """
    quiet, loaded = figures.quiet, figures.loaded
    found = []
    allowed = {name: 2 * seconds for name, seconds in quiet.items()}
    allowed["gap"] += _GAP_ALLOWANCE
    for name, most in allowed.items():
        most = max(most, _NOISE * control.loaded[name])
        if name in figures.unanswered or loaded[name] > most:
            found.append(name)
    beyond = figures.cpu_seconds - control.cpu_seconds
    if figures.is_over or beyond > _MOST_CPU_SECONDS:
        found.append("cpu")
    if figures.alone_bytes > _MOST_BYTES:
        found.append("memory")
    if figures.idle_seconds is None or figures.idle_seconds > _MOST_SECONDS_TO_IDLE:
        found.append("idle")
    if any(not _is_answer(said) for said in figures.outcomes):
        found.append("outcome")
    return found


def _is_answer(said: str) -> bool:
    """Whether it is a whole answer, an error of the request's own, or a closed connection."""
    return said in ("200 stop", "200 tool_calls", "200 length", "closed") or said.startswith("4")


def combined(repeats: Sequence[Figures]) -> Figures:
    """Return the medians of several measurements of a kind; outcomes and failures of all."""
    first = repeats[0]
    idle = [each.idle_seconds for each in repeats if each.idle_seconds is not None]
    return Figures(
        kind=first.kind,
        outcomes=[said for each in repeats for said in each.outcomes],
        quiet={name: median(each.quiet[name] for each in repeats) for name in first.quiet},
        loaded={name: median(each.loaded[name] for each in repeats) for name in first.loaded},
        unanswered=sorted({name for each in repeats for name in each.unanswered}),
        cpu_seconds=median(each.cpu_seconds for each in repeats),
        is_over=any(each.is_over for each in repeats),
        alone_bytes=int(median(each.alone_bytes for each in repeats)),
        loaded_bytes=int(median(each.loaded_bytes for each in repeats)),
        idle_seconds=median(idle) if len(idle) == len(repeats) else None,
        pause_seconds=max(each.pause_seconds for each in repeats),
    )


def rows(kinds: Sequence[Figures], deadline: float) -> list[list[str]]:
    """Return the table: a header and a row for each kind, the control first.

    Figures before a slash are quiet ones.
    """
    head = ["hostile requests", "outcomes", "gap ms", "plain s", "known s", "new s"]
    head += ["CPU s", "MiB", "6: MiB", "idle s", "GC ms", "missed"]
    return [head, *(_row(figures, kinds[0], deadline) for figures in kinds)]


def _row(figures: Figures, control: Figures, deadline: float) -> list[str]:
    over = f"over {deadline:g}"
    gaps = f"{figures.quiet['gap'] * 1e3:.0f}/{figures.loaded['gap'] * 1e3:.0f}"
    times = [
        f"{figures.quiet[name]:.2f}/"
        + (over if name in figures.unanswered else f"{figures.loaded[name]:.2f}")
        for name in ("plain", "known", "new")
    ]
    idle = over if figures.idle_seconds is None else f"{figures.idle_seconds:.2f}"
    cpu = f"{'over ' if figures.is_over else ''}{figures.cpu_seconds:.2f}"
    counted = Counter(figures.outcomes).most_common()
    return [
        figures.kind,
        ", ".join(f"{said} ({count})" if count > 1 else said for said, count in counted),
        gaps,
        *times,
        cpu,
        f"{figures.alone_bytes / _MIB:.0f}",
        f"{figures.loaded_bytes / _MIB:.0f}",
        idle,
        f"{figures.pause_seconds * 1e3:.0f}",
        " ".join(missed(figures, control)),
    ]
