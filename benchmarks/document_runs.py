"""Documents written by all stacks in turn: how long whole requests take, and a token of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from alternation import ratio_of, rotated, settle
from documents import Document
from stacks import GREEDY, RefusedRequestError, Sampling, Written
from subject import LeftScriptError, Subject

from proxy_engine import OutputValidationError

__all__ = ["FAILURES", "PASSES", "Run", "extraction", "overhead", "sentence_of", "write_documents"]

PASSES = ("new", "known")
"""A schema is met for the first time, and then once more."""

FAILURES = (RefusedRequestError, LeftScriptError, OutputValidationError)


@dataclass(frozen=True)
class Run:
    """A document written by a stack, in a repeat: the first time there, or once more."""

    stack: str
    document: Document
    repeat: int
    time: str
    written: Written


def extraction(
    subject: Subject, documents: Sequence[Document], sampling: Sampling, *, repeats: int
) -> Iterator[dict[str, Any]]:
    """Wall time of whole requests: each schema new to all stacks, and then once more.

    The figures compare over those documents that both wrote, all of a repeat taken together.
    """
    runs, failures = write_documents(subject, documents, sampling, repeats)
    for time in PASSES:
        for other in subject.stacks:
            for kind in ("all", "structure", "text"):
                chosen = [run for run in runs if run.time == time]
                shared = [
                    document.name
                    for document in documents
                    if kind in ("all", document.kind)
                    and not failures.keys() & {("ours", document.name), (other, document.name)}
                ]
                if other == "ours" or not shared:
                    continue
                ours = _sums(chosen, "ours", shared, repeats)
                yield {
                    "figure": "extraction",
                    "sampling": sampling.name,
                    "schemas": time,
                    "kind": kind,
                    "documents": len(shared),
                    "of": sum(kind in ("all", document.kind) for document in documents),
                    "against": other,
                    "unit": "s",
                    **ratio_of(ours, _sums(chosen, other, shared, repeats)).as_record(),
                }
    for (stack, name), reason in failures.items():
        yield {"failure": "extraction", "stack": stack, "document": name, "reason": reason}


def overhead(
    subject: Subject, documents: Sequence[Document], *, repeats: int
) -> Iterator[dict[str, Any]]:
    """Microseconds that a constraint adds to the time per token, by kind of document.

    A negative value means less time per token than the unconstrained model takes.
    """
    runs, _ = write_documents(subject, documents, GREEDY, repeats)
    others = [name for name in subject.stacks if name != "mlx-lm"]
    for stack in others:
        for kind in dict.fromkeys(document.kind for document in documents):
            for time in PASSES:
                added, model = _added(runs, stack, kind, time)
                if added:
                    yield {
                        "stack": stack,
                        "kind": kind,
                        "schemas": time,
                        "model_us": _middle(model),
                        "added_us": _middle(added),
                        "low_us": _middle(added, 25),
                        "high_us": _middle(added, 75),
                        "runs": len(added),
                    }


def _added(
    runs: Sequence[Run], stack: str, kind: str, time: str
) -> tuple[list[float], list[float]]:
    """Microseconds a token that a stack takes beyond mlx-lm, and those of mlx-lm."""
    by_place: dict[tuple[str, int], dict[str, Written]] = {}
    for run in runs:
        if run.document.kind == kind and run.time == time:
            by_place.setdefault((run.document.name, run.repeat), {})[run.stack] = run.written
    pairs = [
        (place[stack].token_seconds * 1e6, place["mlx-lm"].token_seconds * 1e6)
        for place in by_place.values()
        if stack in place and "mlx-lm" in place
    ]
    return [own - model for own, model in pairs], [model for _, model in pairs]


def _middle(values: Sequence[float], percentile: float = 50) -> float:
    return float(f"{np.percentile(values, percentile):.4g}")


def write_documents(
    subject: Subject, documents: Sequence[Document], sampling: Sampling, repeats: int
) -> tuple[list[Run], dict[tuple[str, str], str]]:
    """Return all runs, and by stack and document why there are none of it."""
    runs = []
    failures: dict[tuple[str, str], str] = {}
    for repeat in range(repeats):
        subject.forget()
        for time in PASSES:
            for number, document in enumerate(documents):
                request, script = subject.about(document, sampling)
                for stack in rotated(subject.stacks, repeat + number):
                    if (stack, document.name) in failures:
                        continue
                    settle()
                    try:
                        written = subject.write(stack, request, script)
                    except FAILURES as error:
                        failures[stack, document.name] = sentence_of(error)
                    else:
                        runs.append(Run(stack, document, repeat, time, written))
    return runs, failures


def sentence_of(error: Exception) -> str:
    """Return the message of an error, truncated to one line."""
    text = f"{type(error).__name__}: {error}".split("\n")[0]
    return text if len(text) < 200 else text[:199] + "…"


def _sums(runs: Sequence[Run], stack: str, names: Sequence[str], repeats: int) -> list[float]:
    sums = [0.0] * repeats
    for run in runs:
        if run.stack == stack and run.document.name in names:
            sums[run.repeat] += run.written.seconds
    return sums
