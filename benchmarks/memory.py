"""Measure how an engine's memory grows with the schemas and the texts it has met.

See ``README.md`` beside this file. Code in reading order: ``mutations`` and ``long_lived`` (what
is met), ``memory_worker`` (the measurement).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arguments import engine_names, environment, named_tokenizer, positive
from cases import load_cases, sample_lines, write_cases
from long_lived import LONG_LIVED, lines
from memory_worker import MemoryJob
from mutations import different_lines
from records import write_record
from supervisor import run_worker
from tables import aligned

__all__ = ["curve_rows", "main", "point_after"]

_WORKER = Path(__file__).with_name("memory_worker.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    tokenizer, vocabulary = options.tokenizer.load()
    end_token_ids = sorted(vocabulary.end_token_ids)
    facts = options.tokenizer.facts(vocabulary)
    del vocabulary
    report: dict[str, Any] = {
        "environment": {"data": options.data.name, "seed": options.seed, **environment()},
        **facts,
        "curves": [],
    }
    originals = sample_lines(options.data, None, options.seed)
    subjects: list[tuple[str, Iterable[str]]] = [
        ("schemas", different_lines(originals, options.schemas, options.seed))
    ]
    if options.texts:
        subjects += [(each.name, lines(each, options.texts, options.seed)) for each in LONG_LIVED]
    for subject, found in subjects:
        with tempfile.TemporaryDirectory() as folder:
            cases = Path(folder, "cases.jsonl")
            write_cases(load_cases(found, tokenizer), cases)
            for engine in options.engines:
                print(f"{subject}, {engine}", file=sys.stderr, flush=True)
                job = MemoryJob(
                    engine=engine,
                    tokenizer=str(options.tokenizer.path),
                    end_token_ids=end_token_ids,
                    cases=str(cases),
                    every=options.every if subject == "schemas" else 1,
                    keep=subject != "schemas",
                    case_seconds=options.case_seconds,
                    limit_bytes=options.limit_mib << 20,
                    points=str(Path(folder, f"{engine}.jsonl")),
                )
                report["curves"].append(_curve(job, subject))
                if options.json:
                    write_record(options.json, report)
    report["tokenizer_bytes"] = _tokenizer_alone(options.tokenizer.path)
    if options.json:
        write_record(options.json, report)
    print(aligned(curve_rows(report["curves"]), texts=3))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memory.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cases (.jsonl.gz)")
    parser.add_argument("--tokenizer", type=named_tokenizer, required=True, metavar="[NAME=]FILE")
    parser.add_argument("--engines", type=engine_names, default=["ours"], help="(ours)")
    parser.add_argument(
        "--schemas", type=positive, default=10_000, help="different schemas (%(default)s)"
    )
    parser.add_argument(
        "--texts", type=int, default=10_000, help="of a machine that is kept (%(default)s)"
    )
    parser.add_argument(
        "--every", type=positive, default=100, help="schemas from point to point (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    parser.add_argument(
        "--case-seconds", type=float, default=120.0, help="limit for one schema (%(default)g)"
    )
    parser.add_argument(
        "--limit-mib", type=positive, default=2_000, help="a curve ends there (%(default)s)"
    )
    parser.add_argument("--json", type=Path, help="write the curves here")
    return parser


def _curve(job: MemoryJob, subject: str) -> dict[str, Any]:
    """Run a worker to its end, or to where it dies: the curve then says why it ends there."""
    job_file = Path(job.points).with_suffix(".job")
    job_file.write_text(json.dumps(asdict(job)), encoding="utf-8")
    process = run_worker(_WORKER, job_file)
    points = Path(job.points)
    found = points.read_text(encoding="utf-8").splitlines() if points.exists() else []
    died = None
    if process.returncode != 0:
        # A traceback ends with the message of the exception.
        died = process.stderr.strip().rpartition("\n")[2] or f"status {process.returncode}"
        if "Timeout (" in process.stderr:
            died = f"a case took more than {job.case_seconds:g} s"
    return {
        "subject": subject,
        "engine": job.engine,
        "kept": job.keep,
        "died": died,
        "points": [json.loads(line) for line in found],
    }


def _tokenizer_alone(path: Path) -> int:
    """Measure the memory of the tokenizer itself, which every engine needs."""
    program = (
        "import sys\nfrom residence import resident_memory\nfrom tokenizers import Tokenizer\n"
        "before = resident_memory()\ntokenizer = Tokenizer.from_file(sys.argv[1])\n"
        "print(resident_memory() - before)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=_WORKER.parent,
        capture_output=True,
        check=True,
    )
    return int(process.stdout)


def point_after(curve: dict[str, Any], count: int) -> dict[str, Any] | None:
    """Return the first point with ``count`` schemas, or texts of a kept machine."""
    unit = "texts" if curve["kept"] else "schemas"
    found = (p for p in curve["points"] if p["after"] == "cases" and p[unit] >= count)
    return next(found, None)


def curve_rows(curves: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return rows of resident sizes in MiB: set-up, and at powers of ten on the way."""
    rows = [["subject", "engine", "after", "MiB", "peak MiB"]]
    for curve in curves:
        head = [curve["subject"], curve["engine"]]
        unit = "texts" if curve["kept"] else "schemas"
        chosen = [(p["after"], p) for p in curve["points"] if p["after"] != "cases"]
        for count in (10, 100, 1_000, 10_000):
            point = point_after(curve, count)
            if point:
                chosen.append((f"{point[unit]} {unit}", point))
        last = curve["points"][-1] if curve["points"] else None
        if last and last["after"] == "cases":
            chosen.append((f"{last[unit]} {unit}", last))
        seen = set()
        for after, point in chosen:
            if after not in seen:
                sizes = [f"{point[key] / 2**20:.0f}" for key in ("resident_bytes", "peak_bytes")]
                rows.append([*head, after, *sizes])
            seen.add(after)
        if curve["died"]:
            rows.append([*head, f"ended: {curve['died']}", "", ""])
    return rows


if __name__ == "__main__":
    sys.exit(main())
