"""``extract --ray``: files of a directory or an object store, on a cluster of Ray."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

from ..extraction.answer_format import AnswerFormat
from ..extraction.options import ExtractionOptions
from ..extraction.progress import ExtractionProgress, is_terminal, showing_bar
from ..extraction.records import RecordReader
from ..extraction.run import extraction_of
from ..integrations.ray import files
from ..integrations.ray.actors import ActorSettings, engine_arguments
from ..runtime.process_runtime import to_stderr
from .extract_records import problems
from .flags import CommandLineError

_SECONDS_BETWEEN_LINES = 30
# Arguments that change the computation of answers, and not the answers.
_OTHER_ARGUMENTS = ("batch_size", "cache", "draft_model", "num_draft_tokens")


def run_on_ray(
    options: argparse.Namespace,
    response_format: Any,
    settings: ExtractionOptions,
    requests: Mapping[str, Any],
    arguments: Mapping[str, Any],
) -> int:
    """Run the command, and return its exit status.

    Args:
        options: The command line.
        response_format: The response format.
        settings: The options of the extraction.
        requests: The options of the requests.
        arguments: The arguments of engines.

    Raises:
        CommandLineError: The command line, the input or the output is refused.
        ProxyError: As an actor raised it.
    """
    if settings.output is None or len(options.inputs) != 1:
        raise CommandLineError("--ray requires one directory or file, and --output")
    actors = ActorSettings(
        response_format,
        RecordReader(settings.text, "image", is_command_line=True),
        settings,
        engine_arguments(options.model, arguments),
        requests,
    )
    answers = extraction_of(response_format, settings, requests).answers
    source, output = files.Location.of(options.inputs[0]), files.Location.of(settings.output)
    try:
        found = source.files()
    except OSError as error:
        raise CommandLineError(f"cannot read {source.shown!r}: {error}") from error
    if not found:
        raise CommandLineError(f"{source.shown!r} has no files")
    parts = files.parts_of(found)
    files.check_tables(source, parts, actors.reader, answers)
    # Deferred: they import Ray.
    from ..integrations.ray.datasets import (  # noqa: PLC0415
        actor_settings,
        connected,
        run_parts,
    )

    actors = actor_settings(actors)
    directory = files.OutputDirectory(output)
    names = directory.open(
        _manifest(answers, options.schema, actors, found), is_resumed=settings.resume
    )
    left = [part for part in parts if part.name not in names]
    done = len(parts) - len(left)
    if done and not options.quiet:
        rest = "continuing with the others" if left else "nothing left to do"
        to_stderr(f"{options.output!r} has {done} of {len(parts)} parts; {rest}")
    if not left:
        return 0
    started = reported = time.monotonic()
    counts = files.Counts()
    is_bar_shown = is_terminal() and not options.quiet
    with (
        connected(options.ray),
        showing_bar(len(left), unit=" parts", is_shown=is_bar_shown) as advance,
    ):
        running = run_parts(
            actors,
            source,
            output,
            left,
            concurrency=1 if options.concurrency is None else options.concurrency,
            num_cpus=options.num_cpus,
            num_gpus=options.num_gpus,
        )
        for done, part_counts in enumerate(running, start=1):
            counts = counts.plus(part_counts)
            advance(bool(part_counts.failed), bool(part_counts.cut_short))
            # Jobs of a cluster have no terminal.
            is_due = time.monotonic() - reported >= _SECONDS_BETWEEN_LINES
            if is_due and not (is_bar_shown or options.quiet):
                reported = time.monotonic()
                to_stderr(f"{done} of {len(left)} parts")
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


def _manifest(
    answers: AnswerFormat,
    schema: str,
    settings: ActorSettings,
    files: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings that determine the contents of the output files."""
    engine = settings.engine.items()
    return {
        "schema": schema if answers.schema is None else answers.schema,
        "model": None,
        **{name: value for name, value in engine if name not in _OTHER_ARGUMENTS},
        **settings.extraction.model_dump(exclude={"output", "resume", "overwrite", "progress"}),
        "options": dict(settings.options),
        "input": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
    }
