"""Drafts: documents written with drafts, without, and by other stacks, in turn."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from alternation import ratio_of, rotated, settle
from document_runs import FAILURES, PASSES, sentence_of
from scripted_model import Script
from speculation_tasks import Task, share_in_prompt
from stacks import GREEDY, Sampling, Setting, Stack, Written
from stacks.ours import OurStack
from subject import Subject

from proxy_engine import Usage

__all__ = [
    "OFF",
    "Measured",
    "Runs",
    "ScriptedDraft",
    "counted",
    "extra_stacks",
    "off_stack",
    "passes_record",
    "ratio_record",
    "speculation",
    "write_tasks",
]

OFF = "ours, off"


class ScriptedDraft(Protocol):
    """A draft model that writes a text of its own for each document."""

    def follow(self, script: Script, prompt_ids: Sequence[int], name: str) -> None:
        """Write the draft model's version of a script after a prompt."""


@dataclass(frozen=True)
class Measured:
    """A written document. ``processor_seconds`` are those of all threads of the process."""

    written: Written
    processor_seconds: float


@dataclass
class Runs:
    """Documents by stack, name, repeat and time, and the reasons for those that are missing."""

    measured: dict[tuple[str, str, int, str], Measured] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def shared(self, tasks: Sequence[Task], *stacks: str) -> list[Task]:
        """Return the documents that all of some stacks wrote."""
        return [
            task
            for task in tasks
            if not any((stack, task.name) in self.failures for stack in stacks)
        ]

    def sums(self, stack: str, tasks: Sequence[Task], when: str) -> dict[str, list[float]]:
        """Return the seconds of all documents together, by kind of time, for each repeat."""
        repeats = 1 + max((repeat for _, _, repeat, _ in self.measured), default=-1)
        sums: dict[str, list[float]] = {"time": [], "processor": [], "after_first": []}
        for repeat in range(repeats):
            runs = [self.measured[stack, task.name, repeat, when] for task in tasks]
            sums["time"].append(sum(run.written.seconds for run in runs))
            sums["processor"].append(sum(run.processor_seconds for run in runs))
            sums["after_first"].append(
                sum(run.written.seconds - run.written.first_seconds for run in runs)
            )
        return sums


def speculation(
    subject: Subject,
    sampling: Sampling = GREEDY,
    *,
    repeats: int,
    sets: Mapping[str, Sequence[Task]],
) -> Iterator[dict[str, Any]]:
    """Time and forward passes with drafts, beside the other stacks, by set of documents."""
    with extra_stacks(subject, {OFF: off_stack(subject)}):
        for kind, tasks in sets.items():
            has_schema = any(task.schema is not None for task in tasks)
            # Stacks with a constraint would write JSON.
            unconstrained = [name for name in ("ours", OFF, "mlx-lm") if name in subject.stacks]
            stacks = list(subject.stacks) if has_schema else unconstrained
            runs = write_tasks(subject, tasks, sampling, repeats, stacks=stacks)
            facts = {"set": kind, "sampling": sampling.name, "of": len(tasks)}
            for when in PASSES:
                if when == "new" and not has_schema:
                    continue
                for other in stacks:
                    shared = runs.shared(tasks, "ours", other)
                    if other != "ours" and shared:
                        yield {
                            "figure": "speculation",
                            **facts,
                            "schemas": when,
                            "against": other,
                            "documents": len(shared),
                            **ratio_record(runs, "ours", other, shared, when),
                        }
            shared = runs.shared(tasks, "ours", OFF)
            shares = [share_in_prompt(task) for task in shared if task.schema is not None]
            for stack in ("ours", OFF):
                yield {
                    "figure": "forward passes",
                    **facts,
                    "stack": stack,
                    "share_in_prompt": sum(shares) / len(shares) if shares else None,
                    **passes_record(runs, stack, shared),
                }
            for (stack, name), reason in runs.failures.items():
                yield {
                    "failure": "speculation",
                    "stack": stack,
                    "document": f"{kind}: {name}",
                    "reason": reason,
                }


def off_stack(subject: Subject) -> OurStack:
    """Return the engine without drafts, with the same model in memory."""
    return OurStack(Setting(subject.model, subject.tokenizer), speculation="off")


@contextlib.contextmanager
def extra_stacks(subject: Subject, stacks: Mapping[str, Stack]) -> Iterator[None]:
    """Have further stacks run beside those of a subject, and close them at the end."""
    before = dict(subject.stacks)
    subject.stacks |= stacks
    try:
        yield
    finally:
        subject.stacks = before
        for stack in stacks.values():
            stack.close()


def write_tasks(
    subject: Subject,
    tasks: Sequence[Task],
    sampling: Sampling,
    repeats: int,
    *,
    stacks: Sequence[str] | None = None,
    draft_model: ScriptedDraft | None = None,
) -> Runs:
    """Have all stacks write the documents in turn, each with a new schema and with a known one."""
    runs = Runs()
    for repeat in range(repeats):
        subject.forget()
        for when in PASSES:
            for number, task in enumerate(tasks):
                request, script = subject.prompted(task, task.prompt, sampling)
                if draft_model is not None:
                    draft_model.follow(script, request.prompt_ids, task.name)
                for stack in rotated(stacks or subject.stacks, repeat + number):
                    if (stack, task.name) in runs.failures:
                        continue
                    settle()
                    started = time.process_time()
                    try:
                        written = subject.write(stack, request, script)
                    except FAILURES as error:
                        runs.failures[stack, task.name] = sentence_of(error)
                    else:
                        taken = time.process_time() - started
                        runs.measured[stack, task.name, repeat, when] = Measured(written, taken)
    return runs


def ratio_record(
    runs: Runs, stack: str, other: str, tasks: Sequence[Task], when: str
) -> dict[str, Any]:
    """Return the ratio of the times of two stacks, and those of other kinds of time."""
    own, theirs = runs.sums(stack, tasks, when), runs.sums(other, tasks, when)
    ratios = {kind: ratio_of(own[kind], theirs[kind]).as_record() for kind in own}
    return {
        "unit": "s",
        **ratios["time"],
        "processor": ratios["processor"],
        "after_first": ratios["after_first"],
    }


def passes_record(runs: Runs, stack: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return tokens, forward passes and draft tokens of the documents with known schemas."""
    names = {task.name for task in tasks}
    usages = [
        run.written.usage
        for (name, task, _, when), run in runs.measured.items()
        if name == stack and task in names and when == PASSES[-1] and run.written.usage
    ]
    return counted(usages)


def counted(usages: Sequence[Usage]) -> dict[str, Any]:
    """Return tokens, forward passes and draft tokens of some requests."""
    tokens = sum(usage.completion_tokens for usage in usages)
    forced = sum(usage.forced_tokens for usage in usages)
    passes = sum(usage.forward_passes for usage in usages)
    drafted = sum(usage.drafted_tokens for usage in usages)
    accepted = sum(usage.accepted_tokens for usage in usages)
    return {
        "tokens": tokens,
        "forced": forced,
        "passes": passes,
        "tokens_per_pass": tokens / passes if passes else None,
        "sampled_per_pass": (tokens - forced) / passes if passes else None,
        "drafted": drafted,
        "accepted": accepted,
        "acceptance": accepted / drafted if drafted else None,
    }
