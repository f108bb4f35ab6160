"""Requests together with drafts, beside the same requests without."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from alternation import ratio_of, rotated, settle
from scripted_model import Script
from speculation_runs import OFF, counted, extra_stacks, off_stack
from speculation_tasks import Task, make_tasks
from stacks import Request
from stacks.ours import OurStack
from subject import LeftScriptError, Subject

from proxy_engine import Usage

__all__ = ["batches_of_tasks", "speculation_batches"]


@dataclass(frozen=True)
class _Batch:
    """The requests of a batch, one after the other: seconds until each ends, and its usage."""

    seconds: list[float]
    processor_seconds: float
    usages: list[Usage]


def batches_of_tasks() -> dict[str, list[Task]]:
    """Return the batches: copied, free and mixed rows."""
    copied, prose = make_tasks("copied", 4), make_tasks("free string", 4)
    return {
        "4 copied together": copied,
        "4 free strings together": prose,
        "1 copied, 3 free together": [copied[0], *prose[:3]],
    }


def speculation_batches(
    subject: Subject, batches: Mapping[str, Sequence[Task]], *, repeats: int
) -> Iterator[dict[str, Any]]:
    """Time until the requests of a batch end, with drafts beside without; schemas known.

    In the mixed batch one answer is copied and the others repeat nothing: the rows are compared
    separately, since neither should slow the other down. The first repeat warms caches.
    """
    with extra_stacks(subject, {OFF: off_stack(subject)}):
        # Cached prompts of free generation do not tell whose script follows.
        subject.forget()
        for name, tasks in batches.items():
            runs: dict[str, list[_Batch]] = {"ours": [], OFF: []}
            for repeat in range(repeats + 1):
                for stack in rotated(runs, repeat):
                    batch = _written(subject, stack, tasks)
                    if repeat:
                        runs[stack].append(batch)
            yield from _figures(name, tasks, runs)


def _figures(
    name: str, tasks: Sequence[Task], runs: dict[str, list[_Batch]]
) -> Iterator[dict[str, Any]]:
    kinds = [task.kind for task in tasks]
    groups = {"all": list(range(len(tasks)))}
    if len(set(kinds)) > 1:
        groups |= {
            kind: [row for row, own in enumerate(kinds) if own == kind]
            for kind in dict.fromkeys(kinds)
        }
    for group, rows in groups.items():
        ours, theirs = (
            [max(batch.seconds[row] for row in rows) for batch in runs[stack]]
            for stack in ("ours", OFF)
        )
        processor = {}
        if group == "all":
            used = [[batch.processor_seconds for batch in runs[stack]] for stack in ("ours", OFF)]
            processor = {"processor": ratio_of(*used).as_record()}
        yield {
            "figure": "speculation",
            "set": name,
            "rows": f"{group} rows",
            "against": OFF,
            "unit": "s",
            **ratio_of(ours, theirs).as_record(),
            **processor,
        }
        for stack in ("ours", OFF):
            usages = [batch.usages[row] for batch in runs[stack] for row in rows]
            yield {"figure": "forward passes", "set": name, "rows": f"{group} rows"} | {
                "stack": stack,
                **counted(usages),
            }


def _written(subject: Subject, stack: str, tasks: Sequence[Task]) -> _Batch:
    """Have an engine write documents together, each request in a thread."""
    engine = subject.stacks[stack]
    if not isinstance(engine, OurStack):
        raise TypeError("only the project's own engine runs requests together here")
    pairs: list[tuple[Request, Script]] = [subject.prompted(task, task.prompt) for task in tasks]
    subject.model.follow_all([(request.prompt_ids, script) for request, script in pairs])
    settle()
    started, used = time.perf_counter(), time.process_time()

    def write(pair: tuple[Request, Script]) -> tuple[float, Usage]:
        request, script = pair
        result = engine.generate(request)
        if result.text != script.text.decode():
            raise LeftScriptError(f"wrote {result.text!r}")
        return time.perf_counter() - started, result.usage

    try:
        with ThreadPoolExecutor(len(pairs)) as threads:
            found = list(threads.map(write, pairs))
    finally:
        subject.model.follow(None)
    seconds, usages = zip(*found, strict=True)
    return _Batch(list(seconds), time.process_time() - used, list(usages))
