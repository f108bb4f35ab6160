"""Count what engines refuse, and what they get wrong, for each keyword of JSON Schema.

An engine *over-constrains* if it refuses a valid instance, and *under-constrains* if it accepts an
invalid one. The data is MaskBench. Which keyword is the reason:

* of an accepted instance, the keywords that refuse it by jsonschema;
* of a refused schema or instance, each keyword without which the engine takes it, where the
  instance stays valid. If there is none, several keywords are the reason together.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arguments import engine_names, environment, named_tokenizer, positive
from audit_keywords import is_valid, keywords_of, violated_keywords, without_keyword
from cases import Case, load_cases, sample_lines, write_cases
from engines import ENGINES
from records import write_record
from supervisor import EngineUnavailableError, run_engine
from tables import aligned
from tokenizers import Tokenizer
from worker import CaseResult, Job

__all__ = ["KINDS", "Audit", "audit_rows", "main"]

KINDS = ("refused", "over", "under")
"""The schema is refused (or the engine fails); a valid instance is; an invalid one is accepted."""

_TOGETHER = "several together"


@dataclass(frozen=True)
class _Variant:
    """A schema without a keyword, and the instance that an engine wrongly refuses, if any."""

    case: int
    instance: int | None
    keyword: str
    schema: Any


@dataclass
class Audit:
    """The findings about one engine.

    Attributes:
        engine: Its name.
        version: Its version.
        schemas: Numbers of schemas that are right, and that have an error of each kind.
        keywords: For each kind, the number of schemas with such an error for each keyword.
    """

    engine: str
    version: str
    schemas: Counter[str] = field(default_factory=Counter)
    keywords: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def as_record(self) -> dict[str, Any]:
        """Return the findings for a JSON file."""
        return {
            "engine": self.engine,
            "version": self.version,
            "schemas": dict(self.schemas),
            "keywords": {kind: dict(self.keywords[kind].most_common()) for kind in KINDS},
        }


class _Data:
    """The sample, and the job that all engines get."""

    def __init__(self, options: argparse.Namespace, tokenizer: Tokenizer, job: Job) -> None:
        lines = sample_lines(options.data, options.sample, options.seed)
        self._tokenizer = tokenizer
        self._job = job
        records = [json.loads(line) for line in lines]
        # Verdicts are numbered by instance, so every instance has to be text.
        cases = list(load_cases(lines, tokenizer))
        self.cases = [case for case in cases if not case.skipped]
        self.records: list[dict[str, Any]] = [
            record for record, case in zip(records, cases, strict=True) if not case.skipped
        ]

    def run(self, engine: str, cases: Sequence[Case]) -> tuple[str, list[CaseResult]]:
        """Return the version of an engine and its results for cases, in their order."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "cases.jsonl")
            write_cases(cases, file)
            job = Job(
                engine=engine,
                tokenizer=self._job.tokenizer,
                end_token_ids=self._job.end_token_ids,
                cases=str(file),
                case_seconds=self._job.case_seconds,
            )
            run = run_engine(job, [case.name for case in cases], range(len(cases)), passes=1)
        return run.version, [run.first[position] for position in range(len(cases))]

    def variants(self, variants: Sequence[_Variant]) -> list[Case]:
        """Return variants as cases, with the instances that engines have refused."""
        records = []
        for variant in variants:
            tests = self.records[variant.case]["tests"]
            kept = [] if variant.instance is None else [tests[variant.instance]]
            records.append({"name": variant.keyword, "schema": variant.schema, "tests": kept})
        return list(load_cases(map(json.dumps, records), self._tokenizer))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit status."""
    options = _parser().parse_args(arguments)
    tokenizer, vocabulary = options.tokenizer.load()
    ends = sorted(vocabulary.end_token_ids)
    job = Job("", str(options.tokenizer.path), ends, "", options.case_seconds)
    data = _Data(options, tokenizer, job)
    used = Counter(keyword for record in data.records for keyword in keywords_of(record["schema"]))
    report = {
        "environment": {
            "data": options.data.name,
            "schemas": len(data.records),
            "seed": options.seed,
            **environment(),
        },
        "used": dict(used.most_common()),
        "engines": [],
    }
    for engine in options.engines:
        print(f"{engine}: {len(data.records)} schemas", file=sys.stderr, flush=True)
        try:
            audit = _audit(data, engine)
        except EngineUnavailableError as error:
            print(f"an engine cannot be set up:\n{error}", file=sys.stderr)
            return 1
        report["engines"].append(audit.as_record())
        if options.json:
            write_record(options.json, report)
    print(aligned(audit_rows(report), texts=1))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="audit.py", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="cases (.jsonl.gz)")
    parser.add_argument(
        "--tokenizer",
        type=named_tokenizer,
        required=True,
        metavar="[NAME=]FILE",
        help="a tokenizer.json; a small one is faster and gives the same figures",
    )
    parser.add_argument("--sample", type=positive, help="number of schemas (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample (%(default)s)")
    parser.add_argument(
        "--engines",
        type=engine_names,
        default=list(ENGINES),
        help=f"comma-separated (all: {','.join(ENGINES)})",
    )
    parser.add_argument(
        "--case-seconds", type=float, default=10.0, help="limit for one schema (%(default)g)"
    )
    parser.add_argument("--json", type=Path, help="write all figures here")
    return parser


def _audit(data: _Data, engine: str) -> Audit:
    version, results = data.run(engine, data.cases)
    audit = Audit(engine, version)
    for position, result in enumerate(results):
        kinds = _kinds(result)
        audit.schemas.update(kinds or ["right"])
        audit.keywords["under"].update(_ignored(data.records[position], result))
    variants = list(_variants(data, results))
    _, answers = data.run(engine, data.variants(variants))
    reasons: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for variant, answer in zip(variants, answers, strict=True):
        kind = "refused" if variant.instance is None else "over"
        if answer.outcome == "done" and not answer.wrong:
            reasons[kind, variant.case].add(variant.keyword)
    for position, result in enumerate(results):
        for kind in set(_kinds(result)) - {"under"}:
            other = _TOGETHER if result.outcome in ("done", "refused") else result.outcome
            audit.keywords[kind].update(reasons[kind, position] or {other})
    return audit


def _kinds(result: CaseResult) -> list[str]:
    if result.outcome != "done":
        return ["refused"]
    found = {"over" if verdict.valid else "under" for verdict in result.wrong}
    return sorted(found)


def _ignored(record: dict[str, Any], result: CaseResult) -> set[str]:
    """Return the keywords that refuse the instances that an engine has accepted."""
    found: set[str] = set()
    for verdict in result.wrong:
        if not verdict.valid and result.outcome == "done":
            test = record["tests"][verdict.instance]
            found |= violated_keywords(record["schema"], test["data"]) or {_TOGETHER}
    return found


def _variants(data: _Data, results: Sequence[CaseResult]) -> Iterator[_Variant]:
    """Yield the schemas without each of their keywords, of what an engine wrongly refuses."""
    for position, result in enumerate(results):
        record = data.records[position]
        refused = next((verdict.instance for verdict in result.wrong if verdict.valid), None)
        is_refusal = result.outcome == "refused"
        if not is_refusal and (result.outcome != "done" or refused is None):
            continue
        for keyword in sorted(keywords_of(record["schema"])):
            reduced = without_keyword(record["schema"], keyword)
            if is_refusal:
                yield _Variant(position, None, keyword, reduced)
            elif is_valid(reduced, record["tests"][refused]["data"]):
                yield _Variant(position, refused, keyword, reduced)


def audit_rows(report: dict[str, Any], at_most: int = 30) -> list[list[str]]:
    """Return a table: schemas with an error of each kind, by keyword and engine.

    Args:
        report: The figures.
        at_most: The number of keywords, the most frequent errors first.
    """
    engines = report["engines"]
    total = report["environment"]["schemas"]
    head = [f"{engine['engine']} {engine['version']}" for engine in engines]
    rows = [["keyword", "schemas", *head]]
    counts = [[engine["schemas"].get(kind, 0) for kind in KINDS] for engine in engines]
    rows.append(["all", str(total), *map(_cell, counts)])
    found = Counter[str]()
    for engine in engines:
        for kind in KINDS:
            found.update(engine["keywords"][kind])
    for keyword, _ in found.most_common(at_most):
        cells = [
            _cell([engine["keywords"][kind].get(keyword, 0) for kind in KINDS])
            for engine in engines
        ]
        rows.append([keyword, str(report["used"].get(keyword, "–")), *cells])
    return rows


def _cell(counts: Sequence[int]) -> str:
    return " / ".join(str(count) if count else "·" for count in counts)


if __name__ == "__main__":
    sys.exit(main())
