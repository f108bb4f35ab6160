"""``extract``: text and images in, JSON that matches a schema out."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from state_machines import JsonSchemaStateMachine
from state_machines.errors import PatternError, SchemaError

from .. import own_process
from ..errors import InvalidOptionError
from ..progress import to_stderr
from .errors import CommandLineError
from .extract_lines import extract_lines
from .extraction import Extraction, extract_record
from .input_arguments import (
    STANDARD_INPUT,
    check_files,
    opened_input,
    read_record,
    read_schema,
)
from .input_files import InputFiles
from .input_lines import InputLines
from .inputs import Inputs
from .output import OutputFile, open_output
from .progress import LinesProgress, is_shown
from .records import Record, is_url
from .result_lines import Done, skip_done

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..engine import InferenceEngine
    from ..option_overrides import OptionOverrides

_OPTIONS = ("max_tokens", "temperature", "seed", "speculation")
_DESCRIPTION = """\
Reads a text, images, or both, and writes JSON that matches the schema to standard output; progress
is written to standard error. An input file that is an image is recognised by its content. With
several input files, or with --jsonl, every line of the output is the result of one input, in the
same order; the line of a failed input is {"error": {"file": path or "line": number, ...}}, and the
exit status is 1. With --jsonl, every line of the input is a JSON string or an object with a "text",
an "image" (a path, relative to the input file, or a URL; or a list of them), or both. Blank lines
are skipped. With --output and --resume, an interrupted run continues."""


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    # Deferred: `import proxy_engine.__main__` imports no pydantic.
    from ..option_fields import add_option_flags  # noqa: PLC0415

    parser = commands.add_parser(
        "extract",
        help="turn text and images into JSON that matches a schema",
        description=_DESCRIPTION,
    )
    parser.add_argument("--schema", required=True, metavar="FILE", help="JSON Schema of the result")
    parser.add_argument(
        "--model",
        metavar="M",
        help="a directory or a Hugging Face repo id (default: the embedded model)",
    )
    parser.add_argument(
        "--draft-model",
        metavar="M",
        help="a smaller model with the same tokenizer, which drafts tokens for --model",
    )
    parser.add_argument(
        "--num-draft-tokens",
        type=int,
        metavar="N",
        help="tokens that the draft model drafts per forward pass (default: by acceptance rate)",
    )
    parser.add_argument(
        "--instruction",
        metavar="TEXT",
        help="instruction to the model (default: extract the schema's properties)",
    )
    parser.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="an image, or its URL, that the result is extracted from; repeatable",
    )
    parser.add_argument("--jsonl", action="store_true", help="read one input a line")
    parser.add_argument("--batch-size", type=int, metavar="N", help="inputs per batch (default: 8)")
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="continue the --output of an interrupted run with the same input",
    )
    existing.add_argument("--overwrite", action="store_true", help="replace an existing --output")
    add_option_flags(parser, *_OPTIONS)
    parser.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="write tokens as they are generated (default: if standard output is a terminal)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="FILE",
        help="texts or images; - for standard input (default without --image)",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    _check_combination(options)
    schema = read_schema(options.schema)
    try:
        machine = JsonSchemaStateMachine(schema)
    except (SchemaError, PatternError) as error:
        raise CommandLineError(f"the schema {options.schema!r}: {error}") from error
    extraction = Extraction(schema, options.instruction, _overrides(options))
    with _open_source(options) as source, _open_output(options, source) as output:
        if source is not None and source.isatty() and not options.quiet:
            to_stderr("Reading from the terminal; end with Ctrl-D.")
        path = options.inputs[0] if options.inputs else STANDARD_INPUT
        if options.jsonl:
            assert source is not None, "--jsonl has a single input"
            lines = InputLines(source, Path(path).parent)
            return _run_inputs(options, extraction, machine, lines, output)
        if _has_many(options):
            files = InputFiles(options.inputs)
            return _run_inputs(options, extraction, machine, files, output)
        record = read_record(source, path, options.image)
        return _run_record(options, extraction, record, output)


def _run_record(
    options: argparse.Namespace,
    extraction: Extraction,
    record: Record,
    output: OutputFile | None,
) -> int:
    is_streaming = sys.stdout.isatty() if options.stream is None else options.stream
    with _engine(options) as engine:
        extract_record(
            engine,
            extraction,
            record,
            output,
            is_streaming=is_streaming and output is None,
            is_quiet=options.quiet,
        )
    return 0


def _run_inputs(
    options: argparse.Namespace,
    extraction: Extraction,
    machine: JsonSchemaStateMachine,
    inputs: Inputs,
    output: OutputFile | None,
) -> int:
    total = inputs.count() if is_shown(options.quiet) else None
    done = Done()
    if output is not None and options.resume:
        done = skip_done(output, inputs, extraction.schema, machine)
        is_all = inputs.peek() is None
        if done.lines and not options.quiet:
            rest = "nothing left to do" if is_all else "continuing after them"
            to_stderr(f"{output.path!r} has {done.lines} lines; {rest}")
        if done.lines and is_all:
            return 1 if done.failures else 0
    progress = LinesProgress(
        total,
        done=done.lines,
        failed=done.failures,
        is_beside_results=output is None and sys.stdout.isatty(),
        is_quiet=options.quiet,
    )
    with _engine(options) as engine:
        failed = extract_lines(
            engine, extraction, inputs, output, progress, done, is_quiet=options.quiet
        )
    return 1 if failed else 0


def _has_many(options: argparse.Namespace) -> bool:
    """Whether there may be many records. A shell's pattern can match a single file."""
    is_resumable = options.resume or options.batch_size is not None
    is_file = options.inputs not in ([], [STANDARD_INPUT])
    return options.jsonl or len(options.inputs) > 1 or (is_resumable and is_file)


def _check_combination(options: argparse.Namespace) -> None:
    """Raise ``CommandLineError`` for options that have no effect together."""
    has_many = _has_many(options)
    many = "--jsonl or files"
    needs = [
        ("--batch-size", options.batch_size is not None, many, has_many),
        (
            "--num-draft-tokens",
            options.num_draft_tokens is not None,
            "--draft-model",
            options.draft_model is not None,
        ),
        ("--resume", options.resume, many, has_many),
        ("--image", bool(options.image), "a single input", not has_many),
        ("--jsonl", options.jsonl, "a single file", len(options.inputs) <= 1),
        ("--resume", options.resume, "--output", options.output is not None),
        ("--overwrite", options.overwrite, "--output", options.output is not None),
    ]
    for name, is_given, needed, has_needed in needs:
        if is_given and not has_needed:
            raise CommandLineError(f"{name} requires {needed}")
    if options.stream and (has_many or options.output is not None):
        raise CommandLineError("--stream requires a single input and standard output")
    if options.batch_size is not None and options.batch_size < 1:
        raise CommandLineError(f"--batch-size must be at least 1, not {options.batch_size}")


def _overrides(options: argparse.Namespace) -> OptionOverrides:
    # Deferred, as above.
    from ..option_fields import given_flags  # noqa: PLC0415
    from ..options import SpeculationOptions  # noqa: PLC0415

    try:
        # The engine, which loads the model first, checks it again.
        SpeculationOptions(num_draft_tokens=options.num_draft_tokens)
        return given_flags(options, *_OPTIONS)
    except InvalidOptionError as error:
        raise CommandLineError(str(error)) from error


def _engine(options: argparse.Namespace) -> InferenceEngine:
    # Deferred: this imports MLX, which a wrong command line need not wait for.
    from ..engine import InferenceEngine  # noqa: PLC0415

    on_progress = None if options.quiet else to_stderr
    own_process.take_over()
    names = ("batch_size", "draft_model", "num_draft_tokens")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    engine = InferenceEngine(options.model, on_progress=on_progress, **given)
    own_process.freeze()
    return engine


@contextlib.contextmanager
def _open_source(options: argparse.Namespace) -> Iterator[IO[bytes] | None]:
    """Open the only input; ``None`` for several files, and for ``--image`` alone."""
    if _has_many(options) and not options.jsonl:
        check_files(options.inputs)
        yield None
    elif options.image and not options.inputs:
        yield None
    else:
        with opened_input(options.inputs[0] if options.inputs else STANDARD_INPUT) as source:
            yield source


@contextlib.contextmanager
def _open_output(
    options: argparse.Namespace, source: IO[bytes] | None
) -> Iterator[OutputFile | None]:
    if options.output is None:
        yield None
        return
    files = [path for path in (*options.inputs, *options.image) if not is_url(path)]
    with open_output(
        options.output,
        inputs=[*files, *([] if source is None else [source])],
        is_resumed=options.resume,
        is_replaced=options.overwrite,
    ) as output:
        yield output
