"""The arguments of ``extract``, and which of them fit together."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict, get_args

from ..errors import InvalidOptionError
from ..extraction.outputs import FileFormat, format_of
from ..options.generation import SpeculationOptions
from ..prompt_cache.options import CacheOptions
from .errors import CommandLineError
from .flags import add_load_flags, add_option_flags, given_flags
from .input_arguments import STANDARD_INPUT, is_directory

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from ..options.overrides import OptionOverrides


class CacheArguments(TypedDict, total=False):
    """Arguments of ``InferenceEngine``."""

    cache: CacheOptions


InputFormat: TypeAlias = Literal["text"] | FileFormat

_OPTIONS = (
    *("max_tokens", "temperature", "seed", "freeform_first", "speculation"),
    *("additional_properties", "max_retries"),
)
_DESCRIPTION = """\
Reads a text, images, or both, and writes JSON that matches the schema to standard output; progress
is written to standard error. An input file that is an image is recognised by its content. A
directory stands for its files. With several files, or with a file of JSON Lines, CSV or Parquet,
every record of the input has a row in the output, in the same order: its other fields, then the
result. The row of a failed record has the member or column "error", and the exit status is 1. A
record of JSON Lines is a string or an object with a "text", an "image" (a path, relative to the
input file, or a URL; or a list of them), or both. The output is JSON Lines; with --output, the
suffixes .csv and .parquet name other formats. With --output and --resume, an interrupted run
continues."""


def add_arguments(
    commands: _SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """Add the command, and return its parser."""
    parser = commands.add_parser(
        "extract",
        help="turn text and images into JSON that matches a schema",
        description=_DESCRIPTION,
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="FILE",
        help="texts or images; - for standard input (default without --image)",
    )
    _add_input_arguments(parser.add_argument_group("input"))
    _add_answer_arguments(parser.add_argument_group("answers"))
    _add_output_arguments(parser.add_argument_group("output"))
    _add_model_arguments(parser.add_argument_group("model"))
    _add_ray_arguments(parser)
    return parser


def _add_input_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--format",
        choices=("text", *get_args(FileFormat)),
        help="what the input is: one text or image a file, or one record a line or row "
        "(default: by the suffix of a single file, else text)",
    )
    group.add_argument("--jsonl", action="store_true", help="the same as --format jsonl")
    group.add_argument(
        "--text",
        default="text",
        metavar="FIELD",
        help="the field or column with the text (default: text)",
    )
    group.add_argument(
        "--image",
        action="append",
        default=[],
        metavar="FILE",
        help="an image, or its URL, that the result is extracted from; repeatable",
    )
    _add_chunk_arguments(group)


def _add_chunk_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--chunk-tokens",
        type=int,
        metavar="N",
        help="divide longer texts into overlapping pieces of N tokens, and merge the items of "
        "their answers by their quotes; the schema is a list of items with quotes",
    )
    group.add_argument(
        "--chunk-overlap",
        type=int,
        metavar="N",
        help="tokens by which pieces overlap (default: an eighth of --chunk-tokens)",
    )


def _add_answer_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--schema",
        required=True,
        metavar="FILE",
        help="JSON Schema of the result, or module:name of a pydantic model or another type",
    )
    group.add_argument(
        "--instruction",
        metavar="TEXT",
        help="instruction to the model (default: extract the schema's properties)",
    )
    add_option_flags(group, *_OPTIONS)


def _add_output_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output")
    existing = group.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="continue the --output of an interrupted run with the same input",
    )
    existing.add_argument("--overwrite", action="store_true", help="replace an existing --output")
    group.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="text before the names of the result's columns, where the input has the same names",
    )
    group.add_argument(
        "--columns",
        type=_names,
        default=(),
        metavar="NAMES",
        help="further columns, separated by commas: tokens, cut_short, confidence",
    )
    group.add_argument(
        "--quotes",
        action="store_true",
        help="quote the words of the text that state each property, in further columns",
    )
    group.add_argument(
        "--html", metavar="FILE", help="write a page of the texts with their quotes highlighted"
    )
    group.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="write tokens as they are generated (default: if standard output is a terminal)",
    )
    group.add_argument("--quiet", action="store_true", help="show no progress")


def _add_model_arguments(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--model",
        metavar="M",
        help="a directory or a Hugging Face repo id (default: the embedded model)",
    )
    group.add_argument(
        "--draft-model",
        metavar="M",
        help="a smaller model with the same tokenizer, which drafts tokens for --model",
    )
    group.add_argument(
        "--num-draft-tokens",
        type=int,
        metavar="N",
        help="tokens that the draft model drafts per forward pass (default: by acceptance rate)",
    )
    group.add_argument("--batch-size", type=int, metavar="N", help="inputs per batch (default: 8)")
    group.add_argument(
        "--prompt-cache-directory",
        metavar="DIR",
        help="directory in which reused beginnings of prompts are kept for later runs",
    )
    add_load_flags(group)


def _add_ray_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "many machines",
        "With --ray, the tables, texts and images of the input are extracted from by actors of a "
        "Ray cluster, and --output is a directory with a file for each table and each group of "
        "texts.",
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


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


def resume_command(arguments: Sequence[str], *, is_begun: bool = True) -> str:
    """Return the command that continues a run, quoted for a shell.

    Args:
        arguments: The arguments of the run, the command's name first.
        is_begun: Whether the output has rows of the run. Otherwise the command is the same.
    """
    program = [sys.argv[0]]
    if Path(program[0]).name == "__main__.py":
        program = [sys.orig_argv[0], "-m", "proxy_engine"]
    elif shutil.which(Path(program[0]).name) == program[0]:
        program = [Path(program[0]).name]
    name, *given = arguments
    if is_begun:
        end = given.index("--") if "--" in given else len(given)
        # `argparse` takes abbreviations: `--ov` and `--res` are the shortest.
        options = [one for one in given[:end] if not one.startswith("--ov")]
        is_resumed = any(one.startswith("--res") for one in options)
        given = [*([] if is_resumed else ["--resume"]), *options, *given[end:]]
    return shlex.join([*program, name, *given])


def input_format(options: argparse.Namespace) -> InputFormat:
    """Return the format of the input: that of ``--format``, else that of the only file's suffix."""
    if options.jsonl:
        return "jsonl"
    if options.format is not None:
        given: InputFormat = options.format
        return given
    return (format_of(options.inputs[0]) or "text") if len(options.inputs) == 1 else "text"


def has_many(options: argparse.Namespace) -> bool:
    """Whether there may be many records. A shell's pattern can match a single file."""
    has_directory = any(map(is_directory, options.inputs))
    is_resumable = options.resume or options.batch_size is not None or is_table(options)
    is_file = options.inputs not in ([], [STANDARD_INPUT])
    has_rows = input_format(options) != "text"
    is_page = options.html is not None or options.chunk_tokens is not None
    has_more = is_page or options.columns or options.quotes
    return (
        has_rows
        or has_directory
        or len(options.inputs) > 1
        or (bool(is_resumable or has_more) and is_file)
    )


def is_table(options: argparse.Namespace) -> bool:
    """Whether the output is a table."""
    return format_of(options.output or "") in ("csv", "parquet")


def check_combination(options: argparse.Namespace) -> None:
    """Raise ``CommandLineError`` for invalid options, and such that have no effect together."""
    needs: _Needs = []
    if options.ray is not None:
        _check_ray(options)
    else:
        needs = _needs(options)
    has_draft_model = options.draft_model is not None
    drafts = options.num_draft_tokens is not None
    needs.append(("--num-draft-tokens", drafts, "--draft-model", has_draft_model))
    for name, is_given, needed, has_needed in needs:
        if is_given and not has_needed:
            raise CommandLineError(f"{name} requires {needed}")
    for name in ("concurrency", "batch_size"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise CommandLineError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
    if options.ray is None and options.stream and (has_many(options) or options.output is not None):
        raise CommandLineError("--stream requires a single input and standard output")
    cache_arguments(options)


_Needs: TypeAlias = list[tuple[str, bool, str, bool]]
"""An option, whether it is set, its requirement, and whether the requirement is met."""


def _needs(options: argparse.Namespace) -> _Needs:
    """Return what options require without ``--ray``."""
    is_many = has_many(options)
    kind = input_format(options)
    many = "--jsonl or files"
    return [
        *(
            (f"--{name.replace('_', '-')}", getattr(options, name) is not None, "--ray", False)
            for name in ("input", "concurrency", "num_cpus", "num_gpus")
        ),
        ("--batch-size", options.batch_size is not None, many, is_many),
        ("--resume", options.resume, many, is_many),
        ("--columns", bool(options.columns), many, is_many),
        ("--quotes", options.quotes, many, is_many),
        ("--html", options.html is not None, many, is_many),
        ("--chunk-tokens", options.chunk_tokens is not None, many, is_many),
        ("--image", bool(options.image), "a single input", not is_many),
        (
            "--jsonl" if options.jsonl else f"--format {kind}",
            kind != "text",
            "a single file",
            len(options.inputs) <= 1 and not any(map(is_directory, options.inputs)),
        ),
        ("--format parquet", kind == "parquet", "a file", options.inputs not in ([], ["-"])),
        ("--output with this suffix", is_table(options), many, is_many),
        ("--text", options.text != "text", "--jsonl or a table", kind != "text"),
        ("--resume", options.resume, "--output", options.output is not None),
        (
            "--overwrite",
            options.overwrite,
            "--output or --html",
            options.output is not None or options.html is not None,
        ),
    ]


def _check_ray(options: argparse.Namespace) -> None:
    """Raise ``CommandLineError`` for options that do not fit ``--ray``."""
    for name in ("input", "output"):
        if getattr(options, name) is None:
            raise CommandLineError(f"--ray requires --{name}")
    if options.inputs:
        raise CommandLineError("--ray cannot be used with files")
    for name in (
        *("image", "jsonl", "format", "stream", "overwrite", "columns", "html"),
        *("quotes", "chunk_tokens", "chunk_overlap", "distributed"),
    ):
        if getattr(options, name):
            raise CommandLineError(f"--ray cannot be used with --{name.replace('_', '-')}")


def cache_arguments(options: argparse.Namespace) -> CacheArguments:
    """Return the engine's argument for prompt caching, if a flag is given.

    Raises:
        CommandLineError: The flag's value is invalid.
    """
    if options.prompt_cache_directory is None:
        return {}
    try:
        return {"cache": CacheOptions(directory=options.prompt_cache_directory)}
    except InvalidOptionError as error:
        raise CommandLineError(str(error)) from error


def overrides(options: argparse.Namespace) -> OptionOverrides:
    """Return the options of requests. Raises ``CommandLineError``."""
    try:
        # The engine, which loads the model first, checks it again.
        SpeculationOptions(num_draft_tokens=options.num_draft_tokens)
        given = given_flags(options, *_OPTIONS)
    except InvalidOptionError as error:
        raise CommandLineError(str(error)) from error
    scored: OptionOverrides = {"exact_choices": True, "confidence": True}
    return {**scored, **given} if "confidence" in options.columns else given
