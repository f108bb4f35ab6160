"""Measure the correctness and cost of engines' masks on MaskBench.

``README.md`` beside this file describes the method. Code in reading order:
``cases`` (the data), ``engines`` (one adapter each), ``worker`` (the measurement),
``supervisor`` (processes), ``report`` (figures).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from arguments import (
    NamedTokenizer,
    counts_by_engine,
    engine_names,
    environment,
    named_tokenizer,
    positive,
)
from cases import load_cases, read_cases, sample_lines, sample_positions, write_cases
from engines import ENGINES
from records import write_record
from report import common_positions, engine_figures, render_report
from supervisor import EngineRun, EngineUnavailableError, run_engine
from worker import Job

from state_machines.vocabulary import Vocabulary


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    lines = sample_lines(options.data, options.sample, options.seed)
    report = {
        "environment": {
            "data": options.data.name,
            "sample": options.sample,
            "seed": options.seed,
            **environment(),
        },
        "tokenizers": [],
    }
    if options.outcomes:
        options.outcomes.write_text("", encoding="utf-8")
    for named in options.tokenizer:
        try:
            _measure(named, lines, options, report)
        except EngineUnavailableError as error:
            print(f"an engine cannot be set up:\n{error}", file=sys.stderr)
            return 1
    print(render_report(report))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="maskbench.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cases (.jsonl.gz)")
    parser.add_argument(
        "--tokenizer",
        type=named_tokenizer,
        required=True,
        action="append",
        metavar="[NAME=]FILE",
        help="a tokenizer.json; may be given several times",
    )
    parser.add_argument("--sample", type=positive, help="number of schemas (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    parser.add_argument(
        "--engines",
        type=engine_names,
        default=["ours"],
        help=f"comma-separated, of {', '.join(ENGINES)} (ours)",
    )
    parser.add_argument(
        "--engine-sample",
        type=counts_by_engine,
        default={},
        metavar="ENGINE=N,...",
        help="give a slow engine only so many of the sample, by chance",
    )
    parser.add_argument(
        "--passes", type=int, choices=(1, 2), default=1, help="2: once more, with all kept (1)"
    )
    parser.add_argument(
        "--case-seconds", type=float, default=60.0, help="limit for one schema (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--outcomes", type=Path, help="write what came of each schema here")
    return parser


def _measure(
    named: NamedTokenizer, lines: list[str], options: argparse.Namespace, report: dict[str, Any]
) -> None:
    """Run all engines with one tokenizer, and add their figures to the report."""
    tokenizer, vocabulary = named.load()
    part: dict[str, Any] = {**named.facts(vocabulary), "engines": [], "common": {}}
    report["tokenizers"].append(part)
    with tempfile.TemporaryDirectory() as folder:
        cases_file = Path(folder, "cases.jsonl")
        write_cases(load_cases(lines, tokenizer), cases_file)
        names = [case.name for case in read_cases(cases_file)]
        runs: list[EngineRun] = []
        for engine in options.engines:
            positions = sample_positions(
                len(names), options.engine_sample.get(engine), options.seed
            )
            print(f"{named.name}, {engine}: {len(positions)} schemas", file=sys.stderr, flush=True)
            job = Job(
                engine=engine,
                tokenizer=str(named.path),
                end_token_ids=sorted(vocabulary.end_token_ids),
                cases=str(cases_file),
                case_seconds=options.case_seconds,
            )
            run = run_engine(job, names, positions, options.passes)
            runs.append(run)
            part["engines"].append(engine_figures(run, of=len(names)))
            common = common_positions(runs)
            part["common"] = {
                "schemas": len(common),
                "engines": [engine_figures(run, common, of=len(names)) for run in runs],
            }
            # After each engine, so that an interrupted run leaves the figures it has.
            if options.json:
                write_record(options.json, report)
            if options.outcomes:
                with options.outcomes.open("a", encoding="utf-8") as file:
                    _write_outcomes(run, named.name, vocabulary, file)


def _write_outcomes(run: EngineRun, name: str, vocabulary: Vocabulary, file: TextIO) -> None:
    """One line for each pass and case; with the token at which an instance went wrong."""
    for number, results in enumerate(run.passes, start=1):
        for result in results.values():
            wrong = [
                {**asdict(verdict), "bytes": _printed(vocabulary, verdict.token)}
                for verdict in result.wrong
            ]
            record = {
                "tokenizer": name,
                "engine": run.engine,
                "pass": number,
                "name": result.name,
                "outcome": result.outcome,
                "reason": result.reason,
                "wrong": wrong,
                "compile_us": None if result.compile_ns is None else result.compile_ns / 1000,
                "tokens": len(result.advance_ns),
                "masks_us": sum(result.mask_ns) / 1000,
                "slowest_mask_us": max(result.mask_ns, default=0) / 1000,
                "slowest_collection_us": result.collection_ns / 1000,
                "peak_bytes": result.peak_bytes,
            }
            file.write(json.dumps(record) + "\n")


def _printed(vocabulary: Vocabulary, token: int | None) -> str | None:
    return None if token is None else repr(vocabulary.token_bytes[token])


if __name__ == "__main__":
    sys.exit(main())
