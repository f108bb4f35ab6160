"""Jobs of the quality benchmark, run in this process or in several others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from quality_arms import ARMS
from quality_outcomes import Outcome, outcome_of
from quality_runner import ArmRunner
from quality_tasks import TASKS

__all__ = ["Job", "jobs", "run_jobs"]


@dataclass(frozen=True)
class Job:
    """Records of a task, by arm. All arms of a job run in the same process, one after the other."""

    task: str
    numbers: Mapping[str, Sequence[int]]


def jobs(
    tasks: Sequence[str],
    arms: Sequence[str],
    numbers: Sequence[int],
    done: set[tuple[str, str, int]],
    *,
    batch: int,
) -> list[Job]:
    """Return the jobs that are left, alternating between the tasks.

    Args:
        tasks: Names of tasks.
        arms: Names of arms.
        numbers: Numbers of records.
        done: Arm, task and number of the records that have an outcome already.
        batch: Maximum number of records per job.
    """
    found = []
    for start in range(0, len(numbers), batch):
        for task in tasks:
            left = {}
            for arm in arms:
                chunk = numbers[start : start + batch]
                missing = [number for number in chunk if (arm, task, number) not in done]
                if missing and ARMS[arm].runs(task):
                    left[arm] = missing
            if left:
                found.append(Job(task, left))
    return found


def run_jobs(
    given: Sequence[Job], *, model: str | None, seed: int, processes: int
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of each arm of each job: at once, or with several processes per job."""
    if processes == 1:
        worker = _Worker(model, seed)
        try:
            for job in given:
                yield from worker.run(job)
        finally:
            worker.close()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _begin, (model, seed)) as pool:
        pending = [pool.submit(_run, job) for job in given]
        try:
            for future in as_completed(pending):
                yield from future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class _Worker:
    def __init__(self, model: str | None, seed: int) -> None:
        self._runner = ArmRunner(model, seed)
        self._seed = seed

    def run(self, job: Job) -> Iterator[list[Outcome]]:
        for arm, numbers in job.numbers.items():
            records = [TASKS[job.task](self._seed, number) for number in numbers]
            yield [
                outcome_of(answer, model=self._runner.model_name, seed=self._seed, arm=arm)
                for answer in self._runner.answers(ARMS[arm], records)
            ]

    def close(self) -> None:
        self._runner.close()


_WORKERS: list[_Worker] = []
"""The worker of this process, in a process of the pool."""


def _begin(model: str | None, seed: int) -> None:
    _WORKERS.append(_Worker(model, seed))


def _run(job: Job) -> list[list[Outcome]]:
    return list(_WORKERS[0].run(job))
