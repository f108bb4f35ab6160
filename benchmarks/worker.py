"""Measure one engine over one pass, in a process that ``supervisor`` starts.

A JSON line is written before and after each case, so the output of a process that died names the
case.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TextIO

from cases import Case, Instance, read_cases
from engines import CompiledSchema, Engine, RefusedSchemaError, TokenizerSource, load_engine
from residence import peak_memory

__all__ = ["CaseResult", "Job", "Verdict", "compile_case", "main", "time_limit", "walk_case"]


@dataclass(frozen=True)
class Job:
    """The job of a worker.

    ``skip`` are positions of cases to leave out. ``again``: this is the second pass. All cases
    are compiled and walked once without being measured, every compiled schema is kept, and then
    they are walked again.
    """

    engine: str
    tokenizer: str
    end_token_ids: list[int]
    cases: str
    case_seconds: float
    again: bool = False
    skip: list[int] = field(default_factory=list)
    results: str = ""


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

    ``outcome`` is ``done``, ``refused``, ``crashed`` or ``timed out``, and ``reason`` belongs to
    the latter three. ``between_ns`` is mask plus advance for each token taken. ``mask_ns`` has,
    beyond those, the masks that refused a token and those after the last token. ``collection_ns``
    is the longest run of Python's garbage collector: if it came during a mask, that took as long.
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
    collection_ns: int = 0

    def without_times(self) -> CaseResult:
        """Return the outcome without times, which belong to another pass."""
        return CaseResult(self.name, self.outcome, self.reason, self.wrong, self.skipped)


def compile_case(engine: Engine, case: Case, result: CaseResult) -> CompiledSchema | None:
    """Compile a case's schema or tools; ``None`` where the result says why not."""
    with _outcome(result):
        started = perf_counter_ns()
        compiled = engine.compile_tools(case.tools) if case.tools else engine.compile(case.schema)
        result.compile_ns = perf_counter_ns() - started
        return compiled
    return None


def walk_case(compiled: CompiledSchema, case: Case, result: CaseResult) -> None:
    """Put each of a case's instances through the masks, each with a new matcher."""
    with _outcome(result):
        for position, instance in enumerate(case.instances):
            _walk_instance(compiled, position, instance, result)


@contextmanager
def _outcome(result: CaseResult) -> Iterator[None]:
    try:
        yield
    except RefusedSchemaError as error:
        result.outcome, result.reason = "refused", str(error)
    except Exception as error:  # Whatever an engine raises beyond a refusal is the finding.
        result.outcome, result.reason = "crashed", f"{type(error).__name__}: {error}"


def _walk_instance(
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


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the process after some time, from outside the interpreter: native code hangs as well."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class _Collections:
    """Times the runs of the garbage collector, which come whenever they like."""

    def __init__(self) -> None:
        self._longest = 0
        self._started = 0
        gc.callbacks.append(self._called)

    def _called(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._started = perf_counter_ns()
        else:
            self._longest = max(self._longest, perf_counter_ns() - self._started)

    def longest(self) -> int:
        """Return the longest run since this was last asked."""
        longest, self._longest = self._longest, 0
        return longest


_COLLECTIONS = _Collections()


def _first_pass(job: Job, engine: Engine, lines: TextIO) -> None:
    """Every schema is met for the first time, and dropped when its instances are through."""
    for position, case in _cases(job):
        result = CaseResult(case.name, skipped=case.skipped)
        with _noted(lines, position, job.case_seconds, result):
            compiled = compile_case(engine, case, result)
            if compiled is not None:
                walk_case(compiled, case, result)
            # Before the next one is compiled, and within the limit.
            del compiled


def _second_pass(job: Job, engine: Engine, lines: TextIO) -> None:
    """Every schema is compiled, walked and kept; when all are there, they are walked again."""
    kept: dict[int, CompiledSchema] = {}
    refused: dict[int, CaseResult] = {}
    for position, case in _cases(job):
        result = CaseResult(case.name, skipped=case.skipped)
        with _noted(lines, position, job.case_seconds):
            compiled = compile_case(engine, case, result)
            if compiled is not None:
                walk_case(compiled, case, result)
            if compiled is not None and result.outcome == "done":
                kept[position] = compiled
            else:
                refused[position] = result.without_times()
    for position, case in _cases(job):
        result = refused.get(position) or CaseResult(case.name, skipped=case.skipped)
        with _noted(lines, position, job.case_seconds, result):
            if position in kept:
                walk_case(kept[position], case, result)


@contextmanager
def _noted(
    lines: TextIO, position: int, seconds: float, result: CaseResult | None = None
) -> Iterator[None]:
    """Note beginning, end and result of a case, which may take some seconds."""
    _write(lines, {"begin": position})
    _COLLECTIONS.longest()
    with time_limit(seconds):
        yield
    if result is not None:
        result.collection_ns = _COLLECTIONS.longest()
        result.peak_bytes = peak_memory()
    _write(lines, {"end": position, "result": None if result is None else asdict(result)})


def _cases(job: Job) -> Iterator[tuple[int, Case]]:
    skip = set(job.skip)
    for position, case in enumerate(read_cases(Path(job.cases))):
        if position not in skip:
            yield position, case


def _write(lines: TextIO, record: dict[str, Any]) -> None:
    lines.write(json.dumps(record) + "\n")
    lines.flush()


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
    with Path(job.results).open("a", encoding="utf-8") as lines:
        _write(lines, {"setup": setup})
        (_second_pass if job.again else _first_pass)(job, engine, lines)


if __name__ == "__main__":
    main(sys.argv[1])
