"""``extract --ray``: files of a directory or an object store, on a cluster of Ray."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..extraction.answer_format import AnswerFormat
from ..extraction.details import DEFAULT_COLUMNS
from ..extraction.progress import Advance, ExtractionProgress, is_terminal, showing_bar
from ..extraction.records import RecordReader
from ..runtime.process_runtime import to_stderr
from .errors import CommandLineError, refused
from .extract_records import problems
from .flags import given_load_arguments
from .input_arguments import read_answer_format

if TYPE_CHECKING:
    from ..integrations.ray.actors import ActorSettings
    from ..options.overrides import OptionOverrides

_SECONDS_BETWEEN_LINES = 30
# They change how answers are computed, and not which ones.
_OTHER_ARGUMENTS = ("batch_size", "cache", "draft_model", "num_draft_tokens")


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
    from ..integrations.ray import files  # noqa: PLC0415
    from ..integrations.ray.run import connected, run_parts  # noqa: PLC0415

    answers = read_answer_format(options.schema, options.prefix, overrides, DEFAULT_COLUMNS)
    with refused():
        settings = _settings(options, answers, overrides, cache)
        source = files.Location.of(options.input, "input")
        output = files.Location.of(options.output, "output")
        try:
            found = source.files()
        except OSError as error:
            raise CommandLineError(f"cannot read {options.input!r}: {error}") from error
        if not found:
            raise CommandLineError(f"{options.input!r} has no files")
        parts = files.parts_of(found)
        files.check_tables(source, parts, settings.reader, answers)
        directory = files.OutputDirectory(output)
        manifest = _manifest(options, answers, settings, found)
        names = directory.open(manifest, is_resumed=options.resume)
    left = [part for part in parts if part.name not in names]
    done = len(parts) - len(left)
    if done and not options.quiet:
        rest = "continuing with the others" if left else "nothing left to do"
        to_stderr(f"{options.output!r} has {done} of {len(parts)} parts; {rest}")
    if not left:
        return 0
    started = time.monotonic()
    with connected(options.ray), _progress(options, len(left)) as advance:
        counts = files.Counts()
        for one in run_parts(
            settings,
            source,
            output,
            left,
            concurrency=options.concurrency or 1,
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
        ):
            counts = files.Counts(*map(sum, zip(counts, one, strict=True)))
            advance(bool(one.failed), bool(one.cut_short))
    directory.finish()
    seconds = time.monotonic() - started
    if not options.quiet:
        to_stderr(
            f"{counts.rows:,} rows in {seconds:.1f} s: {counts.completion_tokens:,} completion "
            f"tokens ({counts.completion_tokens / seconds:.1f} tokens/s)"
        )
    outcome = ExtractionProgress(counts.rows, counts.failed, None, counts.cut_short)
    if outcome.has_problems:
        to_stderr(f"proxy-engine: {problems(outcome, 'row')}")
    return 1 if counts.failed else 0


@contextlib.contextmanager
def _progress(options: argparse.Namespace, total: int) -> Iterator[Advance]:
    """Show a bar of parts; without a terminal, as in jobs of a cluster, a line from time to time.

    Yields a function to call with each part, whether rows of it failed, and were cut short.
    """
    if options.quiet or is_terminal():
        with showing_bar(total, unit=" parts", is_shown=not options.quiet) as advance:
            yield advance
        return
    done, written = 0, time.monotonic()

    def count(is_failure: bool, is_cut: bool) -> None:
        nonlocal done, written
        done += 1
        if time.monotonic() - written >= _SECONDS_BETWEEN_LINES:
            written = time.monotonic()
            to_stderr(f"{done} of {total} parts")

    yield count


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
            RecordReader(options.text, "image", requires_image=False),
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
            options.retry_cut_short,
        )
    )


def _manifest(
    options: argparse.Namespace,
    answers: AnswerFormat,
    settings: ActorSettings,
    files: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings that determine the contents of the output files."""
    engine = settings.engine.items()
    return {
        "schema": options.schema if answers.schema is None else answers.schema,
        "model": None,
        **{name: value for name, value in engine if name not in _OTHER_ARGUMENTS},
        "text": options.text,
        "prefix": options.prefix,
        "instruction": options.instruction,
        "options": dict(settings.options),
        "retry_cut_short": settings.retry_cut_short,
        "input": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
    }
