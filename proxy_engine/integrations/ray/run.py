"""Extraction from files to files on Ray: each partition is a task of an actor.

Actors read and write the files themselves; the driver has the names of the partitions alone.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias, cast

from state_machines.errors import ProxyError

from ...errors import EngineError, OutputFileError
from ...extraction.rows import JsonLines
from ...runtime.extras import requires_extra
from .actors import ActorSettings, Extractor
from .datasets import actor_pool
from .output import OutputDirectory
from .partitions import Location, Partition, PartitionLines, empty_table, read_tables

with requires_extra("ray", purpose="An extraction on Ray"):
    import ray
    from ray.data import Dataset

_ROUNDS = 2
"""How often unfinished partitions are run. Ray repeats those of actors that die, except those that
``ray.kill`` ended."""
_MAX_ATTEMPTS = 4
"""How often a partition is begun, if its actors die."""
_MAX_UNFINISHED = 10
"""The run ends if more partitions than these cannot be finished."""

_Row: TypeAlias = dict[str, Any]


class Counts(NamedTuple):
    """The outcome of partitions.

    Attributes:
        partitions: Their number.
        rows: The number of rows.
        failed: The number of rows with errors.
        completion_tokens: Tokens of the answers.
    """

    partitions: int = 0
    rows: int = 0
    failed: int = 0
    completion_tokens: int = 0

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class ActorResources:
    """The actors of a run.

    Attributes:
        concurrency: Their number.
        num_cpus: CPUs that Ray reserves for each; ``None`` for Ray's default.
        num_gpus: GPUs that Ray reserves for each; ``None`` for none.
    """

    concurrency: int = 1
    num_cpus: float | None = None
    num_gpus: float | None = None


class PartitionActor:
    """A class for ``map_batches``: extracts from partitions to their output files.

    A ``ProxyError`` is part of the result, since it ends the run. Ray repeats the partitions of
    actors that die.

    Args:
        settings: The settings of the run.
        source: The input.
        output: The output.
    """

    def __init__(self, settings: ActorSettings, source: Location, output: OutputDirectory) -> None:
        self._source = source
        self._output = output
        self._error: ProxyError | None = None
        try:
            self._extractor = Extractor(settings)
        except ProxyError as error:
            self._error = error

    def __call__(self, rows: Any) -> Iterator[_Row]:
        """Yield the outcome of each partition of a table."""
        for row in rows.to_pylist():
            error, counts = self._error, Counts()
            if error is None:
                try:
                    counts = self._extract(Partition(**row))
                except ProxyError as raised:
                    error = raised
            outcome = pickle.dumps((counts, error))
            yield {"outcome": [outcome]}

    def _extract(self, partition: Partition) -> Counts:
        if self._output.begin(partition) > _MAX_ATTEMPTS:
            return Counts()
        counter = _Counter()
        before = self._extractor.completion_tokens
        if partition.format == "parquet":
            empty = empty_table(self._source.filesystem, partition)
            schema = next(self._extractor.extend([empty])).schema
            tables = read_tables(self._source.filesystem, partition)
            extended = self._extractor.extend(tables)
            error = schema.names[-1]
            self._output.write_tables(partition, counter.tables(extended, error), schema)
        else:
            self._output.write_lines(partition, self._lines(partition, counter))
        tokens = self._extractor.completion_tokens - before
        return Counts(1, counter.rows, counter.failed, tokens)

    def _lines(self, partition: Partition, counter: _Counter) -> Iterator[str]:
        rows = JsonLines(self._extractor.answers, is_bare=False)
        lines = PartitionLines(self._source.filesystem, partition, self._extractor.reader)
        with contextlib.closing(self._extractor.outcomes(lines, rows.admit)) as outcomes:
            for outcome in outcomes:
                counter.add(outcome.error is not None)
                yield rows.row(outcome)


class _Counter:
    """Counts rows and errors."""

    def __init__(self) -> None:
        self.rows = 0
        self.failed = 0

    def add(self, is_failure: bool) -> None:
        self.rows += 1
        self.failed += is_failure

    def tables(self, tables: Iterable[Any], error: str) -> Iterator[Any]:
        for table in tables:
            self.rows += table.num_rows
            self.failed += table.num_rows - table.column(error).null_count
            yield table


@contextlib.contextmanager
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
    try:
        ray.init(None if address == "auto" else address, logging_level="warning")
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"cannot connect to Ray at {address!r}: {error}",
            hint="--ray auto uses the cluster of this machine, or starts one.",
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def run_partitions(
    settings: ActorSettings,
    source: Location,
    output: OutputDirectory,
    partitions: list[Partition],
    actors: ActorResources,
) -> Iterator[Counts]:
    """Extract from partitions, and yield the counts of each as it is finished.

    Raises:
        ProxyError: As an actor raised it. Partitions that are finished are kept.
        OutputFileError: Partitions are not finished: their actors have died repeatedly.
    """
    left, reason = partitions, "their actors have died repeatedly"
    output.forget_attempts()
    try:
        for _ in range(_ROUNDS):
            yield from _run_once(settings, source, output, left, actors)
            names = output.names()
            left = [partition for partition in partitions if partition.name not in names]
            if not left:
                output.remove_temporary()
                return
    except ray.exceptions.RayError as error:
        # Before the last line is a stack trace.
        reason = str(error).strip().rpartition("\n")[2]
    raise OutputFileError(
        f"{len(left)} of {len(partitions)} partitions are not finished, such as "
        f"{left[0].name!r}: {reason}",
        path=output.shown,
        hint="Run the same command with --resume. All machines must share a local directory.",
    )


def _run_once(
    settings: ActorSettings,
    source: Location,
    output: OutputDirectory,
    partitions: list[Partition],
    actors: ActorResources,
) -> Iterator[Counts]:
    """Extract from partitions, and yield the counts of those that are finished."""
    items = [asdict(partition) for partition in partitions]
    dataset = ray.data.from_items(items, override_num_blocks=len(items))
    outcomes: Dataset = dataset.map_batches(
        cast(Any, PartitionActor),
        fn_constructor_args=(settings, source, output),
        batch_format="pyarrow",
        batch_size=1,
        # A partition that waits for an actor could be run by another one.
        compute=actor_pool(min(actors.concurrency, len(items)), calls=1),
        num_cpus=actors.num_cpus,
        num_gpus=actors.num_gpus,
    )
    # The context belongs to these datasets alone.
    context = outcomes.context
    context.enable_progress_bars = False
    context.max_errored_blocks = _MAX_UNFINISHED
    for row in outcomes.iter_rows():
        counts, error = pickle.loads(row["outcome"])
        if error is not None:
            raise error
        if counts.partitions:
            yield counts
