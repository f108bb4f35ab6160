"""Measure engines on MaskBench: are their masks right, and what do they cost?

See ``README.md`` beside this file for what is measured and how. Code in reading order:
``cases`` (the data), ``engines`` (one adapter each), ``worker`` (the measurement),
``supervisor`` (processes), ``report`` (figures).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, TextIO

from cases import load_cases, read_cases, sample_lines, write_cases
from engines import ENGINES
from report import engine_figures, render_table
from supervisor import EngineRun, EngineUnavailableError, run_engine
from tokenizers import Tokenizer
from worker import Job

from state_machines.vocabulary import Vocabulary


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    if vocabulary.strips_first_space:
        print("a tokenizer that adds a first space cannot spell JSON here", file=sys.stderr)
        return 2
    lines = sample_lines(options.data, options.sample, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        cases_file = Path(folder, "cases.jsonl")
        write_cases(load_cases(lines, tokenizer), cases_file)
        names = [case.name for case in read_cases(cases_file)]
        runs = []
        for engine in options.engines:
            print(f"{engine}: {len(names)} schemas ...", file=sys.stderr, flush=True)
            job = Job(
                engine=engine,
                tokenizer=str(options.tokenizer),
                end_token_ids=sorted(vocabulary.end_token_ids),
                cases=str(cases_file),
                count=len(names),
                passes=options.passes,
                first=0,
                case_seconds=options.case_seconds,
                results="",
            )
            try:
                runs.append(run_engine(job, names))
            except EngineUnavailableError as error:
                print(f"{engine} cannot be set up:\n{error}", file=sys.stderr)
                return 1
            # After each engine, so that an interrupted run leaves the figures it has.
            _write_files(runs, vocabulary, options)
    print(render_table([engine_figures(run) for run in runs]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="maskbench.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cases (.jsonl.gz)")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a tokenizer.json")
    parser.add_argument("--sample", type=_positive, help="number of schemas (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    parser.add_argument(
        "--engines",
        type=_engine_names,
        default=["ours"],
        help=f"comma-separated, of {', '.join(ENGINES)} (ours)",
    )
    parser.add_argument("--passes", type=_positive, default=1, help="2: once more, warm (1)")
    parser.add_argument(
        "--case-seconds", type=float, default=60.0, help="limit for one schema (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--outcomes", type=Path, help="write what came of each schema here")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _engine_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in ENGINES:
            raise argparse.ArgumentTypeError(f"no engine {name!r} (of {', '.join(ENGINES)})")
    return names


def _environment(options: argparse.Namespace, vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "data": options.data.name,
        "sample": options.sample,
        "seed": options.seed,
        "tokenizer_sha256": sha256(options.tokenizer.read_bytes()).hexdigest(),
        "vocabulary_size": vocabulary.size,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
    }


def _write_files(
    runs: Sequence[EngineRun], vocabulary: Vocabulary, options: argparse.Namespace
) -> None:
    if options.json:
        figures = [engine_figures(run) for run in runs]
        report = {"environment": _environment(options, vocabulary), "engines": figures}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if options.outcomes:
        with options.outcomes.open("w", encoding="utf-8") as file:
            _write_outcomes(runs, vocabulary, file)


def _write_outcomes(runs: Sequence[EngineRun], vocabulary: Vocabulary, file: TextIO) -> None:
    """One line for each engine, pass and case; with the token at which an instance went wrong."""
    for run in runs:
        for number, results in enumerate(run.passes, start=1):
            for result in results:
                wrong = [
                    {**asdict(verdict), "bytes": _printed(vocabulary, verdict.token)}
                    for verdict in result.wrong
                ]
                record = {
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
                }
                file.write(json.dumps(record) + "\n")


def _printed(vocabulary: Vocabulary, token: int | None) -> str | None:
    return None if token is None else repr(vocabulary.token_bytes[token])


if __name__ == "__main__":
    sys.exit(main())
