"""``extract``: text and images in, JSON that matches a schema out."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from ..extraction.inputs import RecordContent
from ..extraction.options import ExtractionOptions
from ..extraction.outcomes import Extraction
from ..extraction.outputs import OutputOptions
from ..extraction.paths import STANDARD_INPUT, expanded, is_directory, is_stream
from ..extraction.progress import is_terminal
from ..extraction.records import RecordReader
from ..extraction.rows import format_of, suffix_of
from ..extraction.run import Run, check_requests, extraction_of
from ..extraction.sources import file_inputs, input_format, opened_inputs
from ..runtime import process_runtime
from ..runtime.extras import import_extra
from ..runtime.process_runtime import to_stderr
from .extract_flags import add_arguments, engine_arguments, extraction_options, request_options
from .extract_records import RecordsRun, extract_record, opened_page, resume_command
from .flags import CommandLineError, as_flag
from .schema_argument import check_schema, read_response_format, refused_schema

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..engine.inference_engine import InferenceEngine
    from .flags import Parser


def add_parser(commands: _SubParsersAction[Parser]) -> None:
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


_WITH_RAY = ("concurrency", "num_cpus", "num_gpus")
_WITHOUT_RAY = ("format", "html", "image", "overwrite", "stream")


def _extract(options: argparse.Namespace) -> int:
    has_ray = options.ray is not None
    for name in _WITHOUT_RAY if has_ray else _WITH_RAY:
        if getattr(options, name):
            how = "with" if has_ray else "without"
            raise CommandLineError(f"{as_flag(name)} cannot be used {how} --ray")
    if has_ray:
        import_extra("ray", "ray.data", purpose="--ray")
    elif options.distributed:
        _lead()
    settings, requests = extraction_options(options), request_options(options)
    engine = engine_arguments(options)
    with refused_schema(options.schema):
        response_format = read_response_format(options.schema)
        hint = "Name a multimodal model with --model."
        extraction = extraction_of(response_format, settings, requests, hint)
        check_schema(extraction.answers)
    options.inputs += [] if options.input is None else [options.input]
    if has_ray:
        # Deferred: other runs need none of it.
        from .extract_ray import run_on_ray  # noqa: PLC0415

        return run_on_ray(options, response_format, settings, requests, engine)
    if not options.inputs and not options.image:
        options.inputs.append(STANDARD_INPUT)
    if settings.text != "text" and input_format(options.inputs, options.format) == "text":
        raise CommandLineError(
            f"--text {settings.text} names a field of rows, and the input is read as texts. Name "
            "its format: --format csv, jsonl or parquet."
        )
    is_read = STANDARD_INPUT in options.inputs and sys.stdin is not None
    if is_read and sys.stdin.isatty() and not options.quiet:
        to_stderr("Reading from the terminal; end with Ctrl-D.")
    run = _run_record if _is_single(options, settings) else _run_records
    return run(options, settings, extraction, partial(_engine, options, engine, extraction))


def _is_single(options: argparse.Namespace, settings: ExtractionOptions) -> bool:
    """Whether the output is the answer to one text or image, and has no rows."""
    output = settings.output or ""
    has_rows = settings.resume or options.columns or settings.quotes or options.html
    return not (
        len(options.inputs) > 1
        or any(map(is_directory, options.inputs))
        or (options.inputs and input_format(options.inputs, options.format) != "text")
        or (output and (suffix_of(output) not in ("", ".json") or is_stream(output)))
        or has_rows
        or settings.chunk_tokens is not None
        or options.batch_size is not None
    )


def _run_record(
    options: argparse.Namespace, settings: ExtractionOptions, extraction: Extraction, engine: Any
) -> int:
    names = [name for given in options.inputs for name in expanded(given)]
    inputs = file_inputs(names)
    inputs.add_images(_images(options))
    item = next(inputs, None)
    try:
        content = RecordContent(images=_images(options)) if item is None else item.read()
    except ValueError as error:
        label = "--image" if item is None else item.label
        raise CommandLineError(f"{label}: {error}") from error
    is_streaming = sys.stdout.isatty() if options.stream is None else options.stream
    extract_record(
        engine, extraction, content, settings, _files(options), is_streaming, options.quiet
    )
    return 0


def _run_records(
    options: argparse.Namespace, settings: ExtractionOptions, extraction: Extraction, engine: Any
) -> int:
    reader = RecordReader(settings.text, "image", repeats_content=False, is_command_line=True)
    is_table = format_of(settings.output or "") in ("csv", "parquet")
    is_counted = is_terminal() and not options.quiet
    with contextlib.ExitStack() as stack:
        opened = opened_inputs(
            options.inputs,
            reader,
            given=options.format,
            are_named=is_table,
            is_counted=is_counted,
        )
        inputs = stack.enter_context(opened)
        inputs.add_images(_images(options))
        run = Run(extraction, inputs, OutputOptions.of(settings, _files(options)), engine)
        run.check_columns(has_error=is_table or bool(run.fields) or bool(settings.prefix))
        is_replaced = settings.overwrite or settings.resume
        page = stack.enter_context(opened_page(options.html, extraction, is_replaced=is_replaced))
        command = resume_command(options.arguments)
        return 1 if RecordsRun(run, page, command, options.quiet).run() else 0


def _images(options: argparse.Namespace) -> tuple[Any, ...]:
    try:
        return RecordReader(image="image").read({"image": options.image}).images
    except ValueError as error:
        if not options.image:
            return ()
        raise CommandLineError(f"--image: {error}") from error


def _files(options: argparse.Namespace) -> list[IO[bytes] | str]:
    """Return the files that the output must not be."""
    names = (*options.inputs, *options.image)
    files: list[IO[bytes] | str] = [name for name in names if not is_stream(name)]
    return files + ([sys.stdin.buffer] if STANDARD_INPUT in names and sys.stdin else [])


def _lead() -> None:
    """Join the process group. Ranks other than 0 read no input: they end here."""
    # Deferred: this imports MLX.
    from ..distributed.leader import lead_or_follow  # noqa: PLC0415

    process_runtime.take_over()
    lead_or_follow()


@contextlib.contextmanager
def _engine(
    options: argparse.Namespace, arguments: dict[str, Any], extraction: Extraction
) -> Iterator[InferenceEngine]:
    # Deferred: this imports MLX, which a wrong command line need not wait for.
    from ..engine.inference_engine import InferenceEngine  # noqa: PLC0415

    process_runtime.take_over()
    on_progress = None if options.quiet else to_stderr
    with InferenceEngine(options.model, on_progress=on_progress, **arguments) as engine:
        check_requests(engine, extraction)
        process_runtime.freeze()
        yield engine
