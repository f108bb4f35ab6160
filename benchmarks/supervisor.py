"""Run an engine over all cases in separate processes, and continue after a process died."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from worker import CaseResult, Job, Verdict

__all__ = [
    "Ending",
    "EngineRun",
    "EngineUnavailableError",
    "read_results",
    "run_engine",
    "run_worker",
]

_WORKER = Path(__file__).with_name("worker.py")


class EngineUnavailableError(Exception):
    """The set-up of an engine failed. The message is the end of its output."""


@dataclass
class EngineRun:
    """All results of an engine and facts about its set-up.

    ``first`` and ``second`` are the passes: by position, one result for each case it was given.
    Memory of the two is kept apart, since the second one keeps every compiled schema.
    """

    engine: str
    version: str = ""
    setup_seconds: float = 0.0
    setup_peak_bytes: int = 0
    restarts: int = 0
    case_seconds: float = 0.0
    first: dict[int, CaseResult] = field(default_factory=dict)
    second: dict[int, CaseResult] = field(default_factory=dict)

    @property
    def passes(self) -> list[dict[int, CaseResult]]:
        """The passes there are."""
        return [self.first, self.second] if self.second else [self.first]


@dataclass
class Ending:
    """A worker's output: its set-up, its results, and the case at which it died, if any."""

    setup: dict[str, Any] | None = None
    results: dict[int, CaseResult] = field(default_factory=dict)
    died_at: int | None = None


def run_engine(job: Job, names: Sequence[str], positions: Sequence[int], passes: int) -> EngineRun:
    """Run the cases at some positions, where ``names`` are those of all cases.

    A case at which the process dies has crashed, one that takes longer than ``job.case_seconds``
    has timed out; a new process continues behind it. Raises :class:`EngineUnavailableError` if a
    process cannot be set up.
    """
    others = sorted(set(range(len(names))) - set(positions))
    run = EngineRun(job.engine, case_seconds=job.case_seconds)
    while len(run.first) < len(positions):
        left = replace(job, skip=others + sorted(run.first))
        run.first |= _run_process(left, names, run).results
    if passes > 1:
        dead = {
            position: result.without_times()
            for position, result in run.first.items()
            if result.outcome in ("crashed", "timed out")
        }
        while True:
            # A process that dies loses its compiled schemas, so the next one starts over.
            ending = _run_process(replace(job, again=True, skip=others + sorted(dead)), names, run)
            if ending.died_at is None:
                break
            dead[ending.died_at] = ending.results[ending.died_at]
        run.second = dict(sorted((dead | ending.results).items()))
    return run


def run_worker(worker: Path, job_file: Path) -> subprocess.CompletedProcess[str]:
    """Run a worker's script to its end, whatever that is."""
    return subprocess.run(
        [sys.executable, str(worker), str(job_file)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )


def _run_process(job: Job, names: Sequence[str], run: EngineRun) -> Ending:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.jsonl")
        job_file = Path(folder, "job.json")
        job_file.write_text(json.dumps(asdict(replace(job, results=str(results)))))
        process = run_worker(_WORKER, job_file)
        complaint = process.stderr.strip()
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    ending = read_results(lines)
    if ending.setup is None or (process.returncode != 0 and ending.died_at is None):
        raise EngineUnavailableError(complaint)
    run.version = ending.setup["version"]
    run.setup_seconds = run.setup_seconds or ending.setup["setup_seconds"]
    run.setup_peak_bytes = run.setup_peak_bytes or ending.setup["setup_peak_bytes"]
    if ending.died_at is not None:
        run.restarts += 1
        result = CaseResult(names[ending.died_at])
        if "Timeout (" in complaint:
            result.outcome = "timed out"
            result.reason = f"took more than {job.case_seconds:g} s"
        else:
            result.outcome = "crashed"
            result.reason = f"process died with status {process.returncode}: {complaint[-300:]}"
        ending.results[ending.died_at] = result
    return ending


def read_results(lines: Iterable[str]) -> Ending:
    """Read the output of a worker up to its last complete line."""
    ending = Ending()
    for line in lines:
        record = json.loads(line)
        if "setup" in record:
            ending.setup = record["setup"]
        elif "begin" in record:
            ending.died_at = record["begin"]
        else:
            ending.died_at = None
            result = record["result"]
            if result is not None:
                wrong = [Verdict(**verdict) for verdict in result.pop("wrong")]
                ending.results[record["end"]] = CaseResult(wrong=wrong, **result)
    return ending
