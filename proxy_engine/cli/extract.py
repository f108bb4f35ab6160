"""``extract``: text and images in, JSON that matches a schema out."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..errors import PromptError
from ..extraction.chunks import Chunks
from ..extraction.details import DEFAULT_COLUMNS
from ..extraction.inputs import Inputs
from ..extraction.outcomes import Extraction
from ..extraction.output_file import open_output
from ..extraction.outputs import OutputOptions, format_of
from ..extraction.progress import is_terminal
from ..extraction.records import CHECKED_RECORDS, RecordReader, is_url
from ..extraction.sources import csv_inputs, file_inputs, line_inputs, parquet_inputs
from ..runtime import process_runtime
from ..runtime.extras import import_extra
from ..runtime.process_runtime import to_stderr
from .errors import CommandLineError, refused
from .extract_options import (
    InputFormat,
    add_arguments,
    cache_arguments,
    check_combination,
    has_many,
    input_format,
    is_table,
    overrides,
    resume_command,
)
from .extract_ray import run_on_ray
from .extract_records import RecordsRun, extract_record, opened_page
from .flags import given_load_arguments
from .input_arguments import (
    STANDARD_INPUT,
    check_files,
    expanded,
    is_directory,
    opened_input,
    read_answer_format,
    read_record,
)

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..engine.inference_engine import InferenceEngine


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    add_arguments(commands).set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        return _extract(options)
    except KeyboardInterrupt as error:
        # With a message, rows have been written.
        if error.args or options.output is None:
            raise
        command = resume_command(options.arguments, is_begun=options.ray is not None)
        raise KeyboardInterrupt(f"interrupted; to continue: {command}") from None


def _extract(options: argparse.Namespace) -> int:
    if options.ray is not None:
        import_extra("ray", "ray.data", purpose="--ray")
    elif options.distributed:
        _lead()
    check_combination(options)
    given = overrides(options)
    if options.ray is not None:
        return run_on_ray(options, given, cache_arguments(options))
    answers = read_answer_format(
        options.schema,
        options.prefix,
        given,
        DEFAULT_COLUMNS if options.columns is None else options.columns,
        quotes=options.quotes,
    )
    hint = "Name a multimodal model with --model."
    with refused():
        chunks = Chunks.of(options.chunk_tokens, options.chunk_overlap, answers)
    extraction = Extraction(
        answers,
        options.instruction,
        given,
        chunks,
        hint,
        retry_cut_short=options.retry_cut_short,
    )
    are_named = any(map(is_directory, options.inputs)) or is_table(options)
    is_many, kind = has_many(options), input_format(options)
    options.inputs = expanded(options.inputs)
    with _open_source(options, kind, is_many) as source:
        if source is not None and source.isatty() and not options.quiet:
            to_stderr("Reading from the terminal; end with Ctrl-D.")
        if not is_many:
            return _run_record(options, extraction, source)
        with refused():
            inputs = _inputs(options, kind, source, are_named=are_named)
            return _run_records(options, extraction, inputs, source)


def _inputs(
    options: argparse.Namespace, kind: InputFormat, source: IO[bytes] | None, *, are_named: bool
) -> Inputs:
    path = options.inputs[0] if options.inputs else STANDARD_INPUT
    reader = RecordReader(
        options.text, "image", Path(path).parent, repeats_content=False, requires_image=False
    )
    if kind == "parquet":
        return parquet_inputs(path, reader)
    if source is None:
        return file_inputs(options.inputs, are_named=are_named)
    is_counted = is_terminal() and not options.quiet
    if kind == "csv":
        return csv_inputs(source, reader, is_counted=is_counted)
    inputs = line_inputs(source, reader, is_counted=is_counted)
    if inputs.is_stored:
        reader.check_records(item.record for item in inputs.first(CHECKED_RECORDS))
    return inputs


def _run_record(
    options: argparse.Namespace, extraction: Extraction, source: IO[bytes] | None
) -> int:
    path = options.inputs[0] if options.inputs else STANDARD_INPUT
    is_streaming = sys.stdout.isatty() if options.stream is None else options.stream
    with contextlib.ExitStack() as stack:
        output = None
        if options.output is not None:
            with refused():
                inputs, is_replaced = _files(options, source), options.overwrite
                opened = open_output(options.output, inputs=inputs, is_replaced=is_replaced)
                output = stack.enter_context(opened)
        content = read_record(source, path, options.image)
        engine = stack.enter_context(_engine(options))
        with _refused_images():
            extraction.check_reads(engine, content)
        extract_record(
            engine,
            extraction,
            content,
            output,
            is_streaming=is_streaming and output is None,
            is_quiet=options.quiet,
        )
    return 0


def _run_records(
    options: argparse.Namespace,
    extraction: Extraction,
    inputs: Inputs,
    source: IO[bytes] | None,
) -> int:
    fields = inputs.fields()
    has_error = is_table(options) or bool(fields) or bool(options.prefix)
    extraction.answers.check_columns(fields, has_error=has_error)
    output = None
    if options.output is not None:
        output = OutputOptions(
            options.output,
            format_of(options.output) or "jsonl",
            is_resumed=options.resume,
            is_replaced=options.overwrite,
            inputs=tuple(_files(options, source)),
        )
    is_replaced = options.overwrite or options.resume
    with opened_page(options.html, extraction, is_replaced=is_replaced) as page, _refused_images():
        run = RecordsRun(
            extraction,
            inputs,
            fields,
            output,
            page,
            lambda: _engine(options),
            resume_command(options.arguments),
            options.quiet,
        )
        return 1 if run.run() else 0


@contextlib.contextmanager
def _refused_images() -> Iterator[None]:
    """Convert the error of a model that does not read images to ``CommandLineError``."""
    try:
        yield
    except PromptError as error:
        raise CommandLineError(error.what, hint=error.hint) from error


def _lead() -> None:
    """Join the process group. Ranks other than 0 read no input: they end here."""
    # Deferred: this imports MLX.
    from ..distributed.leader import lead_or_follow  # noqa: PLC0415

    process_runtime.take_over()
    lead_or_follow()


def _engine(options: argparse.Namespace) -> InferenceEngine:
    # Deferred: this imports MLX, which a wrong command line need not wait for.
    from ..engine.inference_engine import InferenceEngine  # noqa: PLC0415

    on_progress = None if options.quiet else to_stderr
    process_runtime.take_over()
    names = ("batch_size", "draft_model", "num_draft_tokens")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    engine = InferenceEngine(
        options.model,
        on_progress=on_progress,
        **cache_arguments(options),
        **given,
        **given_load_arguments(options),
    )
    process_runtime.freeze()
    return engine


@contextlib.contextmanager
def _open_source(
    options: argparse.Namespace, kind: InputFormat, is_many: bool
) -> Iterator[IO[bytes] | None]:
    """Open the only input; ``None`` for several files, Parquet, and ``--image`` alone."""
    if kind == "parquet" or (kind == "text" and is_many):
        check_files(options.inputs)
        yield None
    elif options.image and not options.inputs:
        yield None
    else:
        with opened_input(options.inputs[0] if options.inputs else STANDARD_INPUT) as source:
            yield source


def _files(options: argparse.Namespace, source: IO[bytes] | None) -> list[IO[bytes] | str]:
    """Return the files that the output must not be."""
    files: list[IO[bytes] | str] = [] if source is None else [source]
    return files + [path for path in (*options.inputs, *options.image) if not is_url(path)]
