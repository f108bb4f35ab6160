"""Measure the masks of grammars in GBNF and Lark, beside llguidance and XGrammar.

See ``README.md`` beside this file. Code in reading order: ``grammar_cases`` (grammars and texts),
``engines`` (one adapter each), ``grammar_worker`` (the measurement), ``grammar_figures`` (figures
and tables).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from alternation import rotated
from arguments import add_engines, add_tokenizer, environment, positive
from default_tokenizer import default_tokenizer
from grammar_cases import NOTATIONS, GrammarCase, further_cases, load_cases, warm_up_case
from grammar_figures import case_figures, engine_rows, ratio_rows, refusals, slowest_rows
from grammar_worker import CLOCKS, GrammarJob, GrammarResult, PassTimes, Refusal
from records import write_record
from supervisor import run_worker
from tables import aligned
from tokenizers import Tokenizer

__all__ = ["main", "measure"]

_WORKER = Path(__file__).with_name("grammar_worker.py")
_ENGINES = ("ours", "llguidance", "xgrammar")
"""The engines that read both notations."""
_SHOWN_CHARACTERS = 24


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    named = options.tokenizer or default_tokenizer()
    tokenizer, vocabulary = named.load()
    cases = [
        case
        for case in load_cases(notations=options.notations)
        if options.only in f"{case.name}.{case.notation}"
    ]
    for folder in options.gbnf:
        cases += [case for case in further_cases(folder) if options.only in case.name]
    report: dict[str, Any] = {
        "environment": environment(),
        **named.facts(vocabulary),
        "repeats": options.repeats,
        "clock": options.clock,
        "cases": [],
    }
    for case in cases:
        results: dict[str, list[GrammarResult]] = {name: [] for name in options.engines}
        for repeat in range(options.repeats):
            for engine in rotated(results, repeat):
                print(f"{case.name}.{case.notation}: {engine}", file=sys.stderr, flush=True)
                job = GrammarJob(
                    engine=engine,
                    tokenizer=str(named.path),
                    end_token_ids=tuple(sorted(vocabulary.end_token_ids)),
                    case=case,
                    warm_up=warm_up_case(case.notation),
                    passes=options.passes,
                    clock=options.clock,
                    seconds=options.case_seconds,
                )
                results[engine].append(measure(job))
        report["cases"].append(
            {"name": case.name, "notation": case.notation, **case_figures(results)}
        )
        # After each grammar, so that an interrupted run leaves the figures it has.
        if options.json:
            write_record(options.json, report)
    _print_tables(report["cases"], cases, tokenizer, options.passes)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="grammars.py", description=__doc__.splitlines()[0])
    add_tokenizer(parser)
    add_engines(parser, _ENGINES)
    parser.add_argument(
        "--notations",
        type=lambda text: text.split(","),
        default=list(NOTATIONS),
        help=f"comma-separated, of {', '.join(NOTATIONS)} (both)",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="names with this, like json.lark"
    )
    parser.add_argument(
        "--gbnf",
        type=_folder,
        default=[],
        action="append",
        metavar="DIRECTORY",
        help="measure its .gbnf files as well, on NAME/*.txt there or on this benchmark's texts",
    )
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="wall, or the processor time of the measuring thread, for a machine in use",
    )
    parser.add_argument("--passes", type=positive, default=2, help="(%(default)s)")
    parser.add_argument("--repeats", type=positive, default=3, help="(%(default)s)")
    parser.add_argument(
        "--case-seconds", type=float, default=300.0, help="limit for one process (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def _folder(text: str) -> Path:
    path = Path(text).resolve()
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"no directory {text!r}")
    return path


def measure(job: GrammarJob) -> GrammarResult:
    """Run a job in a process of its own. A process that dies gives its reason as the result's."""
    with tempfile.TemporaryDirectory() as folder:
        results, job_file = Path(folder, "results.json"), Path(folder, "job.json")
        job_file.write_text(json.dumps(asdict(replace(job, results=str(results)))))
        process = run_worker(_WORKER, job_file)
        if not results.exists():
            if "Timeout (" in process.stderr:
                return GrammarResult(reason=f"took more than {job.seconds:g} s")
            return GrammarResult(reason=f"the process died: {process.stderr.strip()[-300:]}")
        record = json.loads(results.read_text(encoding="utf-8"))
    record["passes"] = [PassTimes(**times) for times in record["passes"]]
    record["refusals"] = [Refusal(**refusal) for refusal in record["refusals"]]
    return GrammarResult(**record)


def _print_tables(
    figures: Sequence[dict[str, Any]],
    cases: Sequence[GrammarCase],
    tokenizer: Tokenizer,
    passes: int,
) -> None:
    texts = {(case.name, name): text for case in cases for name, text in case.texts.items()}

    def before(case: str, text: str, position: int) -> str:
        ids = tokenizer.encode(texts[case, text], add_special_tokens=False).ids
        return str(tokenizer.decode(ids[:position]))[-_SHOWN_CHARACTERS:]

    for number in range(min(passes, 2)):
        print(("First pass", "Second pass")[number], end="\n\n")
        print(aligned(engine_rows(figures, number), texts=3), end="\n\n")
    print("Ours over the faster peer", end="\n\n")
    print(aligned(ratio_rows(figures), texts=2), end="\n\n")
    print("Slowest masks of ours", end="\n\n")
    print(aligned(slowest_rows(figures, before), texts=3), end="\n\n")
    for sentence in refusals(figures):
        print(sentence)


if __name__ == "__main__":
    sys.exit(main())
