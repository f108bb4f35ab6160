"""Measure one engine. Runs as a process of its own, started by ``supervisor``.

Writes one JSON line for each case as soon as it is done: if the process dies, the number of
lines tells at which case.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import resource
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns

from cases import Case, Instance, read_cases
from engines import CompiledSchema, Engine, RefusedSchemaError, TokenizerSource, load_engine

__all__ = ["CaseResult", "Job", "Verdict", "main"]


@dataclass(frozen=True)
class Job:
    """What a worker has to do. ``first`` counts cases over all passes."""

    engine: str
    tokenizer: str
    end_token_ids: list[int]
    cases: str
    count: int
    passes: int
    first: int
    case_seconds: float
    results: str


@dataclass
class Verdict:
    """An instance that came out wrong: ``after`` of its tokens were taken."""

    instance: int
    valid: bool
    after: int
    token: int | None


@dataclass
class CaseResult:
    """What came of a case; times in nanoseconds.

    ``outcome`` is ``done``, ``refused`` or ``crashed``, and ``reason`` belongs to the latter two.
    ``between_ns`` is mask plus advance for each token taken. ``mask_ns`` has, beyond those, the
    masks that refused a token and those after the last token.
    """

    name: str
    outcome: str = "done"
    reason: str = ""
    wrong: list[Verdict] = field(default_factory=list)
    skipped: int = 0
    compile_ns: int | None = None
    first_mask_ns: int | None = None
    mask_ns: list[int] = field(default_factory=list)
    advance_ns: list[int] = field(default_factory=list)
    between_ns: list[int] = field(default_factory=list)
    peak_bytes: int = 0


def run_case(engine: Engine, case: Case) -> CaseResult:
    """Compile a case's schema and put each of its instances through the masks."""
    result = CaseResult(case.name, skipped=case.skipped)
    try:
        started = perf_counter_ns()
        compiled = engine.compile(case.schema)
        result.compile_ns = perf_counter_ns() - started
        for position, instance in enumerate(case.instances):
            _run_instance(compiled, position, instance, result)
    except RefusedSchemaError as error:
        result.outcome, result.reason = "refused", str(error)
    except Exception as error:  # Whatever an engine raises beyond a refusal is the finding.
        result.outcome, result.reason = "crashed", f"{type(error).__name__}: {error}"
    return result


def _run_instance(
    compiled: CompiledSchema, position: int, instance: Instance, result: CaseResult
) -> None:
    started = perf_counter_ns()
    matcher = compiled.matcher()
    start_ns = perf_counter_ns() - started
    for after, token in enumerate(instance.tokens):
        before_mask = perf_counter_ns()
        matcher.mask()
        mask_ns = perf_counter_ns() - before_mask
        result.mask_ns.append(mask_ns)
        if result.first_mask_ns is None:
            result.first_mask_ns = start_ns + mask_ns
        if not matcher.allows(token):
            if instance.valid:
                result.wrong.append(Verdict(position, True, after, token))
            return
        before_advance = perf_counter_ns()
        matcher.advance(token)
        advance_ns = perf_counter_ns() - before_advance
        result.advance_ns.append(advance_ns)
        result.between_ns.append(mask_ns + advance_ns)
    before_mask = perf_counter_ns()
    matcher.mask()
    result.mask_ns.append(perf_counter_ns() - before_mask)
    if matcher.accepts_end() != instance.valid:
        result.wrong.append(Verdict(position, instance.valid, len(instance.tokens), None))


def peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux's ru_maxrss is inherited from the process that started this one.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(job_path: str) -> None:
    """Do the job that a JSON file describes."""
    job = Job(**json.loads(Path(job_path).read_text(encoding="utf-8")))
    source = TokenizerSource(Path(job.tokenizer), tuple(job.end_token_ids))
    started = perf_counter_ns()
    engine = load_engine(job.engine, source)
    setup = {
        "version": engine.version,
        "setup_seconds": (perf_counter_ns() - started) / 1e9,
        "setup_peak_bytes": peak_memory(),
    }
    all_passes = itertools.chain.from_iterable(
        read_cases(Path(job.cases)) for _ in range(job.passes)
    )
    with Path(job.results).open("a", encoding="utf-8") as results:
        results.write(json.dumps({"setup": setup}) + "\n")
        for case in itertools.islice(all_passes, job.first, None):
            # Ends the process from outside the interpreter: native code can hang as well.
            faulthandler.dump_traceback_later(job.case_seconds, exit=True)
            result = run_case(engine, case)
            faulthandler.cancel_dump_traceback_later()
            result.peak_bytes = peak_memory()
            results.write(json.dumps(asdict(result)) + "\n")
            results.flush()


if __name__ == "__main__":
    main(sys.argv[1])
