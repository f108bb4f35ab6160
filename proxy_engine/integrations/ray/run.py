"""Actors on a cluster of Ray that extract from the parts of an input."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from state_machines.errors import ProxyError

from ...errors import EngineError, OutputFileError
from ...runtime.extras import requires_extra
from .actors import ActorSettings
from .files import Counts, FileActor, Location, OutputGroup

with requires_extra("ray", purpose="An extraction on Ray"):
    import ray
    from ray.util import ActorPool

_MAX_RETRIES = 3
"""How often a part is repeated if its actors die."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a cluster, unless the process is connected to one.

    Args:
        address: The address of a cluster. ``"auto"`` is the cluster of ``RAY_ADDRESS`` or of this
            machine, or a new one on this machine, which ends with the run.

    Raises:
        EngineError: There is no such cluster.
    """
    if ray.is_initialized():
        yield
        return
    # The settings are those of the command's process.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        ray.init(
            None if address == "auto" else address,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"cannot connect to Ray at {address!r}: {error}",
            hint="--ray auto uses the cluster of this machine, or starts one.",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def run_parts(
    settings: ActorSettings,
    source: Location,
    output: Location,
    parts: list[OutputGroup],
    *,
    concurrency: int = 1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
) -> Iterator[Counts]:
    """Extract from parts, and yield the counts of each as it is finished.

    If an actor dies, Ray starts another one, which continues its part.

    Args:
        settings: The settings of the run.
        source: The input.
        output: The output directory.
        parts: The parts that are left.
        concurrency: The number of actors.
        num_cpus: CPUs that Ray reserves for each actor; ``None`` for one.
        num_gpus: GPUs that Ray reserves for each actor; ``None`` for none.

    Raises:
        ProxyError: As an actor raised it. Parts that are finished are kept.
        OutputFileError: Parts are not finished: their actors have died repeatedly.
    """
    remote = ray.remote(
        max_restarts=-1, max_task_retries=_MAX_RETRIES, num_cpus=num_cpus or 1, num_gpus=num_gpus
    )(FileActor)
    count = min(concurrency, len(parts))
    pool = ActorPool([remote.remote(settings, source, output) for _ in range(count)])
    for part in parts:
        pool.submit(lambda actor, given: actor.extract.remote(given), part)
    reasons = []
    while pool.has_next():
        try:
            outcome = pool.get_next_unordered()
        except ray.exceptions.RayError as error:
            # The last line is the reason; before it is a stack trace.
            reasons.append(str(error).strip().rpartition("\n")[2])
            continue
        if isinstance(outcome, ProxyError):
            raise outcome
        yield outcome
    if reasons:
        raise OutputFileError(
            f"{len(reasons)} of {len(parts)} parts are not finished: {reasons[0]}",
            path=output.shown,
            hint="Run the same command with --resume. All machines must share a local directory.",
        )
