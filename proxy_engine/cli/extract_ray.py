"""``extract --ray``: files of a directory or an object store, on a cluster of Ray."""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidOptionError
from ..extraction.answer_format import AnswerFormat
from ..runtime.extras import import_extra
from ..runtime.progress import to_stderr
from .errors import CommandLineError
from .load_flags import given_load_arguments
from .output import refused_output
from .progress import PartitionsProgress
from .schema_argument import read_answer_format

if TYPE_CHECKING:
    from ..integrations.ray.actors import ActorSettings
    from ..integrations.ray.output import OutputDirectory
    from ..integrations.ray.partitions import InputFile, Location, Partition
    from ..options.overrides import OptionOverrides

_PARTITION_ROWS = 10_000
_FORMAT_VERSION = 1


def add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of runs on Ray."""
    group = parser.add_argument_group(
        "many machines",
        "With --ray, every Parquet or JSON Lines file of the input is extracted from by actors of "
        "a Ray cluster, and --output is a directory with a file for each partition of the input.",
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="address of a Ray cluster; auto: the cluster of RAY_ADDRESS or of this machine, else "
        "one that is started here",
    )
    group.add_argument(
        "--input", metavar="DIR", help="directory or file, or its URI such as s3://bucket/directory"
    )
    group.add_argument(
        "--concurrency", type=int, metavar="N", help="actors, each with an engine (default: 1)"
    )
    group.add_argument(
        "--num-cpus", type=float, metavar="N", help="CPUs reserved for each actor (default: 1)"
    )
    group.add_argument(
        "--num-gpus", type=float, metavar="N", help="GPUs reserved for each actor (default: 0)"
    )
    group.add_argument(
        "--partition-rows",
        type=int,
        metavar="N",
        help=f"rows of a partition, roughly for JSON Lines (default: {_PARTITION_ROWS})",
    )


def runs_on_ray(options: argparse.Namespace) -> bool:
    """Whether a run is one on Ray.

    Raises:
        CommandLineError: Options do not fit together.
        MissingExtraError: Ray is not installed.
    """
    if options.ray is not None:
        import_extra("ray", "ray.data", purpose="--ray")
        _check_combination(options)
        return True
    for name in ("input", "concurrency", "num_cpus", "num_gpus", "partition_rows"):
        if getattr(options, name) is not None:
            raise CommandLineError(f"--{name.replace('_', '-')} requires --ray")
    return False


def run_on_ray(
    options: argparse.Namespace, overrides: OptionOverrides, cache: Mapping[str, Any]
) -> int:
    """Run the command, and return its exit status.

    Args:
        options: The command line.
        overrides: The options of requests.
        cache: The arguments of engines about prompt caches.

    Raises:
        CommandLineError: The command line, the input or the output is refused.
        ProxyError: As an actor raised it.
    """
    # Deferred: it imports Ray.
    from ..integrations.ray.output import MANIFEST, OutputDirectory  # noqa: PLC0415
    from ..integrations.ray.partitions import Location, digest_of  # noqa: PLC0415

    answers = read_answer_format(options.schema, options.prefix, overrides)
    try:
        settings = _settings(options, answers, overrides, cache)
        source = Location.of(options.input, "input")
        output = OutputDirectory(Location.of(options.output, "output"), options.output)
        files, partitions = _planned(options, answers, source)
    except InvalidOptionError as error:
        raise CommandLineError(str(error)) from error
    manifest = _manifest(options, answers, settings, digest_of(files))
    with refused_output():
        names = output.open(manifest, is_resumed=options.resume)
    known = {partition.name for partition in partitions} | {MANIFEST}
    if names - known:
        raise CommandLineError(
            f"{options.output!r} has a file {min(names - known)!r}, which is none of this run"
        )
    left = [partition for partition in partitions if partition.name not in names]
    return _extract(options, settings, source, output, left, len(partitions))


def _extract(
    options: argparse.Namespace,
    settings: ActorSettings,
    source: Location,
    output: OutputDirectory,
    partitions: list[Partition],
    total: int,
) -> int:
    # Deferred, as above.
    from ..integrations.ray.run import (  # noqa: PLC0415
        ActorResources,
        Counts,
        connected,
        run_partitions,
    )

    done = total - len(partitions)
    if done and not options.quiet:
        rest = "continuing with the others" if partitions else "nothing left to do"
        to_stderr(f"{options.output!r} has {done} of {total} partitions; {rest}")
    if not partitions:
        return 0
    # Ray reports its plans otherwise. The setting is one of the process, which is the command's.
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    actors = ActorResources(options.concurrency or 1, options.num_cpus, options.num_gpus)
    counts, started = Counts(), time.monotonic()
    progress = PartitionsProgress(total, done=done, is_quiet=options.quiet)
    with connected(options.ray), progress:
        for one in run_partitions(settings, source, output, partitions, actors):
            counts += one
            progress.advance(counts.rows, counts.failed)
    if not options.quiet:
        seconds = time.monotonic() - started
        to_stderr(
            f"{counts.rows:,} rows in {seconds:.1f} s: {counts.completion_tokens:,} completion "
            f"tokens ({counts.completion_tokens / seconds:.1f} tokens/s)"
        )
    if counts.failed:
        to_stderr(f"proxy-engine: {counts.failed:,} of {counts.rows:,} rows failed")
    return 1 if counts.failed else 0


def _settings(
    options: argparse.Namespace,
    answers: AnswerFormat,
    overrides: OptionOverrides,
    cache: Mapping[str, Any],
) -> ActorSettings:
    # Deferred, as above.
    from ..integrations.ray.actors import ActorSettings  # noqa: PLC0415
    from ..integrations.ray.datasets import actor_settings, engine_arguments  # noqa: PLC0415

    batch_size = 8 if options.batch_size is None else options.batch_size
    return actor_settings(
        ActorSettings(
            answers.response_format,
            options.prefix,
            options.text,
            None,
            options.instruction,
            engine_arguments(
                options.model,
                batch_size,
                options.draft_model,
                options.num_draft_tokens,
                given_load_arguments(options),
            )
            | dict(cache),
            overrides,
        )
    )


def _planned(
    options: argparse.Namespace, answers: AnswerFormat, source: Location
) -> tuple[list[InputFile], list[Partition]]:
    # Deferred, as above.
    from ..integrations.ray.partitions import list_files, plan_partitions  # noqa: PLC0415

    def check(file: InputFile, columns: Sequence[str]) -> None:
        if options.text not in columns:
            raise InvalidOptionError(
                f"{file.name!r} has no column {options.text!r}; its columns: "
                f"{', '.join(map(repr, columns)) or 'none'}",
                option="text",
                hint="Name the column of the texts with --text.",
            )
        try:
            answers.check_columns(columns)
        except InvalidOptionError as error:
            hint = "Give a prefix for the names of the result's columns with --prefix."
            raise InvalidOptionError(error.what, option="prefix", hint=hint) from error

    files = list_files(source, options.input)
    rows = _PARTITION_ROWS if options.partition_rows is None else options.partition_rows
    return files, plan_partitions(source, files, rows, check)


def _manifest(
    options: argparse.Namespace, answers: AnswerFormat, settings: ActorSettings, files: str
) -> dict[str, Any]:
    """Return the settings that determine the contents of the output files."""
    # They change how answers are computed, and not which ones.
    others = ("batch_size", "cache", "draft_model", "num_draft_tokens")
    engine = {name: value for name, value in settings.engine.items() if name not in others}
    return {
        "version": _FORMAT_VERSION,
        "schema": options.schema if answers.schema is None else answers.schema,
        "model": None,
        **engine,
        "text": options.text,
        "prefix": options.prefix,
        "instruction": options.instruction,
        "options": dict(settings.options),
        "partition_rows": options.partition_rows or _PARTITION_ROWS,
        "input": files,
    }


def _check_combination(options: argparse.Namespace) -> None:
    """Raise ``CommandLineError`` for options that do not fit to ``--ray``."""
    for name in ("input", "output"):
        if getattr(options, name) is None:
            raise CommandLineError(f"--ray requires --{name}")
    given = {
        "files": options.inputs,
        "--image": options.image,
        "--jsonl": options.jsonl,
        "--format": options.format,
        "--stream": options.stream,
        "--overwrite": options.overwrite,
        "--columns": options.columns,
        "--html": options.html,
        "--chunk-tokens": options.chunk_tokens,
        "--chunk-overlap": options.chunk_overlap,
        "--distributed": options.distributed,
    }
    for name, value in given.items():
        if value:
            raise CommandLineError(f"--ray cannot be used with {name}")
    if options.num_draft_tokens is not None and options.draft_model is None:
        raise CommandLineError("--num-draft-tokens requires --draft-model")
    for name in ("concurrency", "partition_rows", "batch_size"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise CommandLineError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
