"""Record the memory of one engine, in a process that ``memory`` starts.

Writes a JSON line at each point of the curve.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from cases import Case, read_cases
from engines import ENGINES, CompiledSchema, TokenizerSource, load_engine
from residence import peak_memory, resident_memory
from worker import CaseResult, compile_case, time_limit, walk_case

__all__ = ["MemoryJob", "main"]


@dataclass(frozen=True)
class MemoryJob:
    """The job of a worker. It writes a point after every ``every`` cases.

    ``keep``: a compiled schema is kept as long as the next case has the same one. Without it every
    schema is dropped when its instances are through. A process that gets larger than
    ``limit_bytes`` stops there.
    """

    engine: str
    tokenizer: str
    end_token_ids: list[int]
    cases: str
    every: int
    keep: bool
    case_seconds: float
    limit_bytes: int
    points: str


def main(job_path: str) -> None:
    """Do the job that a JSON file describes."""
    job = MemoryJob(**json.loads(Path(job_path).read_text(encoding="utf-8")))
    points = Path(job.points).open("a", encoding="utf-8")  # noqa: SIM115, the process is its owner
    counts = {"schemas": 0, "texts": 0, "tokens": 0, "refused": 0, "failed": 0}
    started = perf_counter()

    def point(after: str) -> None:
        record: dict[str, Any] = {
            "after": after,
            "resident_bytes": resident_memory(),
            "peak_bytes": peak_memory(),
            "seconds": round(perf_counter() - started, 3),
            **counts,
        }
        points.write(json.dumps(record) + "\n")
        points.flush()

    importlib.import_module(ENGINES[job.engine])
    point("imports")
    source = TokenizerSource(Path(job.tokenizer), tuple(job.end_token_ids))
    engine = load_engine(job.engine, source)
    point("vocabulary")
    engine.compile({}).matcher().mask()
    point("first mask")

    kept: tuple[Any, CompiledSchema | None] = (None, None)
    number = 0
    for number, case in enumerate(read_cases(Path(job.cases)), start=1):
        result = CaseResult(case.name)
        with time_limit(job.case_seconds):
            compiled = kept[1] if case.schema == kept[0] else None
            # Before another one is compiled: a server would have dropped it, too.
            kept = (None, None)
            if compiled is None:
                compiled = compile_case(engine, case, result)
                counts["schemas"] += 1
            if compiled is not None:
                walk_case(compiled, case, result)
            if job.keep:
                kept = (case.schema, compiled)
            del compiled
        _count(counts, case, result)
        if resident_memory() > job.limit_bytes:
            point("cases")
            points.close()
            raise SystemExit(f"larger than {job.limit_bytes / 2**20:,.0f} MiB")
        if number % job.every == 0:
            point("cases")
    if number % job.every:
        point("cases")
    points.close()


def _count(counts: dict[str, int], case: Case, result: CaseResult) -> None:
    counts["texts"] += len(case.instances)
    counts["tokens"] += len(result.advance_ns)
    counts["refused"] += result.outcome == "refused"
    counts["failed"] += result.outcome == "crashed"


if __name__ == "__main__":
    main(sys.argv[1])
