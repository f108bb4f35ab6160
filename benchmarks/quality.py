"""Measure the quality of constrained answers, beside free text and another engine's masks.

See ``README.md`` beside this file. Code in reading order: ``quality_tasks`` (records with gold
answers), ``quality_arms`` (**the table of arms**), ``quality_prompts``, ``quality_parsing`` (values
from free text), ``quality_llguidance``, ``quality_runner`` (answers), ``quality_outcomes`` (scored
answers in a file), ``quality_scores`` (bootstrap), ``quality_tables``, ``quality_processes``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter

from arguments import positive
from quality_arms import ARMS, MAIN_ARMS
from quality_outcomes import append_outcomes, read_outcomes
from quality_processes import jobs, run_jobs
from quality_tables import render
from quality_tasks import TASKS

from proxy_engine.models.embedded import EMBEDDED_MODEL

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    model = options.model or EMBEDDED_MODEL
    if not options.tables:
        _measure(options, model)
    outcomes = [
        outcome
        for outcome in read_outcomes(*options.out).values()
        if outcome.model == model and outcome.arm in options.arms and outcome.task in options.tasks
    ]
    if not outcomes:
        print("there are no outcomes", file=sys.stderr)
        return 1
    # The order of the tables does not depend on which process ended first.
    outcomes.sort(key=lambda each: (options.tasks.index(each.task), each.seed, each.number))
    print(render(outcomes, options.reference))
    return 0


def _measure(options: argparse.Namespace, model: str) -> None:
    out: Path = options.out[0]
    done = {
        (outcome.arm, outcome.task, outcome.number)
        for outcome in read_outcomes(out).values()
        if outcome.model == model and outcome.seed == options.seed
    }
    numbers = range(options.first, options.first + options.records)
    left = jobs(options.tasks, options.arms, numbers, done, batch=options.batch)
    started = perf_counter()
    results = run_jobs(left, model=options.model, seed=options.seed, processes=options.processes)
    total = sum(len(job.numbers) for job in left)
    for number, outcomes in enumerate(results, start=1):
        append_outcomes(out, outcomes)
        print(
            f"{number} of {total}, {perf_counter() - started:.0f} s: "
            f"{outcomes[0].task}, {outcomes[0].arm}",
            file=sys.stderr,
            flush=True,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="quality.py", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        nargs="+",
        default=[Path("quality.jsonl")],
        metavar="FILE.jsonl",
        help="outcomes are appended to the first file, and records that it has are not run again; "
        "the tables are those of all files (quality.jsonl)",
    )
    parser.add_argument(
        "--tables", action="store_true", help="print the tables of the files, and run nothing"
    )
    parser.add_argument(
        "--tasks", type=_names(TASKS), default=list(TASKS), help=f"of {', '.join(TASKS)} (all)"
    )
    parser.add_argument(
        "--arms",
        type=_names(ARMS),
        default=list(MAIN_ARMS),
        help=f"all, or comma-separated of {', '.join(ARMS)} ({', '.join(MAIN_ARMS)})",
    )
    parser.add_argument("--reference", default="ours", help="the arm to compare with (%(default)s)")
    parser.add_argument(
        "--records", type=positive, default=40, help="records per task (%(default)s)"
    )
    parser.add_argument("--first", type=int, default=0, help="first record (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of records and sampling (%(default)s)")
    parser.add_argument("--batch", type=positive, default=16, help="records at once (%(default)s)")
    parser.add_argument("--processes", type=positive, default=1, help="(%(default)s)")
    parser.add_argument("--model", help="a model directory (the embedded model)")
    return parser


def _names(known: Iterable[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = list(known) if text == "all" else [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r} (of {', '.join(known)})")
        return names

    return read


if __name__ == "__main__":
    sys.exit(main())
