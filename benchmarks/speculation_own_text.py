"""The model's own answers with drafts and without: equal texts, forward passes, time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from alternation import rotated, settle
from mlx_lm import tokenizer_utils
from speculation_runs import OFF, Measured, Runs, passes_record, ratio_record
from speculation_tasks import Task, make_tasks
from stacks import Request, Setting, Written
from stacks.ours import OurStack
from subject import Subject

from proxy_engine.models.embedded import embedded_model

__all__ = ["own_text"]

_SETS = ("copied", "paraphrased", "free text")
_MAX_TOKENS = 256


def own_text(subject: Subject, *, repeats: int, each: int) -> Iterator[dict[str, Any]]:
    """Greedy answers to the prompts of the sets, in the model's chat template."""
    # That of the subject has no template.
    setting = Setting(subject.model, tokenizer_utils.load(embedded_model()))
    stacks = {
        "ours": OurStack(setting),
        OFF: OurStack(setting, speculation="off"),
    }
    try:
        for kind in _SETS:
            tasks = make_tasks(kind, each)
            runs, equal = _answers(subject, stacks, tasks, repeats)
            facts = {"set": f"own text, {kind}", "of": len(tasks) * repeats}
            yield {
                "figure": "speculation",
                **facts,
                "against": OFF,
                "equal_texts": equal,
                **ratio_record(runs, "ours", OFF, tasks, "known"),
            }
            for stack in stacks:
                yield {"figure": "forward passes", **facts, "stack": stack} | passes_record(
                    runs, stack, tasks
                )
    finally:
        for engine in stacks.values():
            engine.close()


def _answers(
    subject: Subject, stacks: dict[str, OurStack], tasks: list[Task], repeats: int
) -> tuple[Runs, int]:
    """Return the runs, and how many of them have equal texts with drafts and without."""
    runs = Runs()
    equal = 0
    # The first repeat compiles the schemas.
    for repeat in range(-1, repeats):
        for number, task in enumerate(tasks):
            schema = None if task.schema is None else json.dumps(task.schema)
            request = Request(subject.prompt(task.prompt), [], schema, _MAX_TOKENS)
            texts = set()
            for stack in rotated(stacks, number + repeat):
                settle()
                started, used = time.perf_counter(), time.process_time()
                result = stacks[stack].generate(request)
                seconds, used = time.perf_counter() - started, time.process_time() - used
                texts.add(result.text)
                usage = result.usage
                first = seconds - usage.completion_seconds
                written = Written(result.text, usage.completion_tokens, seconds, first, usage)
                if repeat >= 0:
                    runs.measured[stack, task.name, repeat, "known"] = Measured(written, used)
            equal += repeat >= 0 and len(texts) == 1
    return runs, equal
