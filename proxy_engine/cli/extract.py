"""``extract``: text and images in, JSON that matches a schema out."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..errors import InvalidOptionError
from ..extraction.answer_format import AnswerFormat
from ..extraction.chunks import Chunks
from ..extraction.inputs import Inputs
from ..extraction.outputs import Done, Output, OutputOptions, format_of
from ..extraction.prompts import Prompts
from ..runtime import process_runtime
from ..runtime.progress import to_stderr
from .errors import CommandLineError
from .extract_lines import extract_lines
from .extract_options import (
    InputFormat,
    add_arguments,
    cache_arguments,
    check_combination,
    has_many,
    input_format,
    overrides,
    resume_command,
)
from .extract_ray import run_on_ray, runs_on_ray
from .extraction import Extraction, extract_record
from .input_arguments import STANDARD_INPUT, check_files, is_directory, opened_input, read_record
from .input_files import FILE, InputFiles, expanded
from .input_lines import InputLines
from .input_tables import TableInputs, read_csv, read_parquet
from .load_flags import given_load_arguments
from .output import refused_output
from .page_file import PageFile, opened_page
from .progress import LinesProgress, is_shown
from .records import is_url
from .schema_argument import read_answer_format

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
    if runs_on_ray(options):
        return run_on_ray(options, overrides(options), cache_arguments(options))
    if options.distributed:
        _lead()
    check_combination(options)
    answers = read_answer_format(
        options.schema, options.prefix, overrides(options), options.columns
    )
    prompts = Prompts(options.instruction, answers.properties, is_json=answers.schema is not None)
    extraction = Extraction(answers, prompts, overrides(options), _chunks(options, answers))
    are_named = any(map(is_directory, options.inputs))
    is_many, kind = has_many(options), input_format(options)
    options.inputs = expanded(options.inputs)
    with _open_source(options, kind, is_many) as source:
        if source is not None and source.isatty() and not options.quiet:
            to_stderr("Reading from the terminal; end with Ctrl-D.")
        if not is_many:
            return _run_record(options, extraction, source)
        inputs = _inputs(options, kind, source, are_named)
        return _run_inputs(options, extraction, inputs, source)


def _inputs(
    options: argparse.Namespace, kind: InputFormat, source: IO[bytes] | None, are_named: bool
) -> Inputs:
    path = options.inputs[0] if options.inputs else STANDARD_INPUT
    if kind == "parquet":
        return read_parquet(path, options.text)
    if source is None:
        is_table = options.output is not None and format_of(options.output) in ("csv", "parquet")
        return InputFiles(options.inputs, are_named=are_named or is_table)
    directory = Path(path).parent
    if kind == "csv":
        return read_csv(source, directory, options.text, is_counted=is_shown(options.quiet))
    return InputLines(source, directory, options.text)


def _run_record(
    options: argparse.Namespace, extraction: Extraction, source: IO[bytes] | None
) -> int:
    path = options.inputs[0] if options.inputs else STANDARD_INPUT
    is_streaming = sys.stdout.isatty() if options.stream is None else options.stream
    with _open_output(options, extraction.answers, source) as output:
        content = read_record(source, path, options.image)
        with _engine(options) as engine:
            extract_record(
                engine,
                extraction,
                content,
                output,
                is_streaming=is_streaming and output is None,
                is_quiet=options.quiet,
            )
    return 0


def _run_inputs(
    options: argparse.Namespace,
    extraction: Extraction,
    inputs: Inputs,
    source: IO[bytes] | None,
) -> int:
    total = inputs.count() if is_shown(options.quiet) else None
    if isinstance(inputs, InputLines):
        inputs.check_text()
    columns = _check_columns(options, extraction.answers, inputs)
    answers = extraction.answers
    with (
        _open_output(options, answers, source, inputs, columns) as output,
        opened_page(
            options.html,
            answers,
            extraction.overrides,
            is_replaced=options.overwrite or options.resume,
        ) as page,
    ):
        done = Done()
        if output is not None and options.resume:
            done = _skip_done(output, inputs, page)
            is_all = inputs.peek() is None
            if done.rows and not options.quiet:
                rest = "nothing left to do" if is_all else "continuing after them"
                to_stderr(f"{output.path!r} has {done.rows} rows; {rest}")
            if done.rows and is_all:
                output.finish()
                return 1 if done.failures else 0
            with refused_output():
                output.check_continuable(done, inputs)
        progress = LinesProgress(
            total,
            done=done.rows,
            failed=done.failures,
            is_beside_results=output is None and sys.stdout.isatty(),
            is_quiet=options.quiet,
        )
        with _engine(options) as engine:
            failed = extract_lines(
                engine,
                extraction,
                inputs,
                output,
                progress,
                done,
                page=page,
                resume_command=resume_command(options.arguments),
                is_quiet=options.quiet,
            )
    return 1 if failed else 0


def _skip_done(output: Output, inputs: Inputs, page: PageFile | None) -> Done:
    """Skip the records whose rows the output has."""
    with refused_output():
        earlier = output.earlier(inputs)
        for item, read in earlier:
            if page is not None:
                page.add_earlier(item, read)
    return earlier.done


def _check_columns(
    options: argparse.Namespace, answers: AnswerFormat, inputs: Inputs
) -> tuple[str, ...]:
    """Return the fields of the records, as far as they are known.

    Raises:
        CommandLineError: A field has the name of a column of the result.
    """
    names: tuple[str, ...] = ()
    if isinstance(inputs, TableInputs):
        names = inputs.columns
    elif isinstance(inputs, InputFiles):
        names = (FILE,) if inputs.are_named else ()
    elif isinstance(inputs, InputLines) and inputs.is_file:
        first = inputs.peek()
        names = () if first is None else tuple(first.fields())
    is_table = options.output is not None and format_of(options.output) in ("csv", "parquet")
    try:
        answers.check_columns(names, has_error=is_table or bool(names) or bool(options.prefix))
    except InvalidOptionError as error:
        hint = "Give a prefix for the names of the result's columns with --prefix."
        raise CommandLineError(error.what, hint=hint) from error
    return names


def _chunks(options: argparse.Namespace, answers: AnswerFormat) -> Chunks | None:
    try:
        return Chunks.of(options.chunk_tokens, options.chunk_overlap, answers)
    except InvalidOptionError as error:
        hint = error.hint.replace("QuoteFrom('input')", '"x-substring-of": "input"')
        raise CommandLineError(error.what, hint=hint) from error


def _lead() -> None:
    """Join the process group. Ranks other than 0 read no input: they end here."""
    # Deferred: this imports MLX.
    from ..distributed.loading import lead_or_follow  # noqa: PLC0415

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


@contextlib.contextmanager
def _open_output(
    options: argparse.Namespace,
    answers: AnswerFormat,
    source: IO[bytes] | None,
    inputs: Inputs | None = None,
    columns: tuple[str, ...] = (),
) -> Iterator[Output | None]:
    if options.output is None:
        yield None
        return
    files = [path for path in (*options.inputs, *options.image) if not is_url(path)]
    described = OutputOptions(
        options.output,
        format_of(options.output) or "jsonl",
        is_resumed=options.resume,
        is_replaced=options.overwrite,
        inputs=(*files, *([] if source is None else [source])),
    )
    types = inputs.types if isinstance(inputs, TableInputs) else {}
    with contextlib.ExitStack() as stack:
        with refused_output():
            output = stack.enter_context(described.opened(answers, columns, lambda: types))
        yield output
