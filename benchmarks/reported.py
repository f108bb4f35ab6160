"""Run the kinds of schemas that users of engines report, with several engines.

A case is a schema or a set of tools (``reported_cases``), with texts to admit and to refuse. Each
engine runs each case in a process of its own, with a limit on time and memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from arguments import add_engines, add_tokenizer, environment, positive
from cases import Case, Instance, write_cases
from default_tokenizer import default_tokenizer
from records import write_record
from reported_cases import REPORTED, ReportedCase
from supervisor import run_engine
from tables import aligned, duration
from tokenizers import Tokenizer
from worker import CaseResult, Job

__all__ = ["as_case", "main", "reported_rows"]

_ENGINES = ("ours", "llguidance", "xgrammar", "outlines")
_WRONG = {True: "refuses a valid text", False: "admits an invalid text"}
_WARM_UP = Case("warm up", {"type": "object", "properties": {"a": {"type": "string"}}}, [], 0)


def as_case(reported: ReportedCase, tokenizer: Tokenizer) -> Case:
    """Tokenise the texts of a case."""
    texts = [(text, True) for text in reported.admits] + [
        (text, False) for text in reported.refuses
    ]
    instances = [
        Instance(valid, tokenizer.encode(text, add_special_tokens=False).ids)
        for text, valid in texts
    ]
    return Case(reported.kind, reported.schema, instances, 0, list(reported.tools))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    limit = options.memory_gib * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    named = options.tokenizer or default_tokenizer()
    tokenizer, vocabulary = named.load()
    report: dict[str, Any] = {
        "environment": environment(),
        **named.facts(vocabulary),
        "case_seconds": options.case_seconds,
        "memory_gib": options.memory_gib,
        "versions": {},
        "cases": [],
    }
    for reported in REPORTED:
        if options.only not in reported.kind:
            continue
        outcomes = {}
        for engine in options.engines:
            if engine in reported.beyond:
                outcomes[engine] = {"verdict": "beyond the limits"}
                continue
            print(f"{reported.kind}: {engine}", file=sys.stderr, flush=True)
            job = Job(
                engine=engine,
                tokenizer=str(named.path),
                end_token_ids=sorted(vocabulary.end_token_ids),
                cases="",
                case_seconds=options.case_seconds,
            )
            report["versions"][engine], result = _run(job, as_case(reported, tokenizer))
            outcomes[engine] = _outcome(result)
        report["cases"].append(
            {"kind": reported.kind, "reports": reported.reports, "engines": outcomes}
        )
        # After each case, so that an interrupted run leaves the figures it has.
        if options.json:
            write_record(options.json, report)
    print(aligned(reported_rows(report), texts=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reported.py", description=__doc__.splitlines()[0])
    add_tokenizer(parser)
    add_engines(parser, _ENGINES)
    parser.add_argument("--only", default="", help="cases whose kind has this text")
    parser.add_argument(
        "--case-seconds", type=float, default=60.0, help="limit for one case (%(default)g)"
    )
    parser.add_argument(
        "--memory-gib", type=positive, default=4, help="limit for one process (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def _run(job: Job, case: Case) -> tuple[str, CaseResult]:
    """Run a case in a process that has compiled another schema before."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "cases.jsonl")
        write_cases([_WARM_UP, case], file)
        job = Job(**{**vars(job), "cases": str(file)})
        run = run_engine(job, [_WARM_UP.name, case.name], range(2), passes=1)
        return run.version, run.first[1]


def _outcome(result: CaseResult) -> dict[str, Any]:
    """Return the verdict in words, and the times in microseconds or the reason of a failure."""
    if result.outcome != "done":
        has_ended = result.reason.startswith("process died")
        is_error = result.outcome == "crashed" and not has_ended
        verdict = "stops with an error" if is_error else result.outcome
        return {"verdict": verdict, "reason": result.reason[:200]}
    wrong = {verdict.valid for verdict in result.wrong}
    verdicts = [text for is_valid, text in _WRONG.items() if is_valid in wrong]
    first = (result.compile_ns or 0) + (result.first_mask_ns or 0)
    return {
        "verdict": ", ".join(verdicts) or "right",
        "first_mask": float(f"{first / 1000:.4g}"),
        "between_masks": float(f"{fmean(result.between_ns or [0]) / 1000:.4g}"),
    }


def reported_rows(report: dict[str, Any], link: bool = False) -> list[list[str]]:
    """Return a row for each case: the verdict, the time to the first mask, the time of a token.

    Args:
        report: The figures.
        link: Whether reports are links in Markdown.
    """
    engines = list(report["versions"])
    rows = [["case", *(f"{name} {report['versions'][name]}" for name in engines)]]
    for case in report["cases"]:
        kind = f"{case['kind']} ({_links(case['reports'])})" if link else case["kind"]
        rows.append([kind, *(_cell(case["engines"][name]) for name in engines)])
    return rows


def _links(reports: Sequence[str]) -> str:
    links = []
    for report in reports:
        repository, _, number = report.partition("#")
        name = repository.partition("/")[2]
        links.append(f"[{name} {number}](https://github.com/{repository}/issues/{number})")
    return ", ".join(links)


def _cell(outcome: dict[str, Any]) -> str:
    if "first_mask" not in outcome:
        return str(outcome["verdict"])
    times = [duration(outcome[name]) for name in ("first_mask", "between_masks")]
    return " · ".join([outcome["verdict"], *times])


if __name__ == "__main__":
    sys.exit(main())
