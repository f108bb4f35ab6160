"""Run an engine over all cases in a process of its own, and go on after its deaths."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from worker import CaseResult, Job, Verdict

__all__ = ["EngineRun", "EngineUnavailableError", "run_engine"]

_WORKER = Path(__file__).with_name("worker.py")


class EngineUnavailableError(Exception):
    """An engine could not even be set up. Its sentence is the end of what it wrote."""


@dataclass
class EngineRun:
    """All results of an engine, pass by pass, and facts about its set-up."""

    engine: str
    version: str = ""
    setup_seconds: float = 0.0
    setup_peak_bytes: int = 0
    peak_bytes: int = 0
    restarts: int = 0
    passes: list[list[CaseResult]] = field(default_factory=list)


def run_engine(job: Job, names: Sequence[str]) -> EngineRun:
    """Run a job to its end, where ``names`` are the cases' names.

    A case at which the process dies or takes longer than ``job.case_seconds`` has crashed; a new
    process goes on with the next one. Raises :class:`EngineUnavailableError` if no process gets
    as far as the first case.
    """
    run = EngineRun(job.engine)
    done: list[CaseResult] = []
    total = job.count * job.passes
    while len(done) < total:
        status, complaint, setup, results = _run_process(replace(job, first=len(done)))
        if setup is None:
            raise EngineUnavailableError(complaint)
        run.version = setup["version"]
        run.setup_seconds = run.setup_seconds or setup["setup_seconds"]
        run.setup_peak_bytes = run.setup_peak_bytes or setup["setup_peak_bytes"]
        done += results
        if len(done) < total:
            run.restarts += 1
            reason = (
                f"took more than {job.case_seconds:g} s"
                if "Timeout (" in complaint
                else f"process died with status {status}: {complaint[-300:]}"
            )
            done.append(CaseResult(names[len(done) % job.count], "crashed", reason))
    run.peak_bytes = max(result.peak_bytes for result in done)
    run.passes = [done[start : start + job.count] for start in range(0, total, job.count)]
    return run


def _run_process(job: Job) -> tuple[int, str, dict[str, Any] | None, list[CaseResult]]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results.jsonl")
        job_file = Path(folder, "job.json")
        job_file.write_text(json.dumps(asdict(replace(job, results=str(results)))))
        process = subprocess.run(
            [sys.executable, str(_WORKER), str(job_file)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        complaint = process.stderr.strip()
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    if not lines:
        return process.returncode, complaint, None, []
    return (
        process.returncode,
        complaint,
        json.loads(lines[0])["setup"],
        [_case_result(line) for line in lines[1:]],
    )


def _case_result(line: str) -> CaseResult:
    record = json.loads(line)
    wrong = [Verdict(**verdict) for verdict in record.pop("wrong")]
    return CaseResult(wrong=wrong, **record)
