"""The flags of ``extract``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, get_args

from ..extraction.options import ExtractionOptions
from ..extraction.rows import FileFormat
from ..options.generation import GenerationOptions
from .flags import (
    Flag,
    Parser,
    ShortHelp,
    add_flags,
    add_load_flags,
    add_option_flags,
    given_flags,
    given_load_arguments,
)

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_DESCRIPTION = """\
Reads a text, images, or both, and writes JSON that matches the schema to standard output; progress
is written to standard error. An input file that is an image is recognised by its content. A
directory stands for its files. With several files, or with a file of JSON Lines, CSV or Parquet,
every record of the input has a row in the output, in the same order: its other fields, then the
result. The row of a failed record has the member or column "error", and the exit status is 1. A
record of JSON Lines is a string or an object with a "text", an "image" (a path, relative to the
input file, or a URL; or a list of them), or both. The output is JSON Lines; with --output, the
suffixes .csv and .parquet name other formats. With --output and --resume, an interrupted run
continues. Inputs and outputs may be URLs, such as s3://bucket/texts."""

_FREQUENT = (
    *("schema", "instruction", "text", "output", "resume", "columns", "model", "max_tokens"),
)
"""The options that ``--help`` shows, with ``--help`` and ``--help-all`` ten."""
_REQUESTS = (
    *("max_tokens", "temperature", "seed", "freeform_first", "speculation"),
    *("additional_properties", "max_retries"),
)
_EXTRACTION = (
    *("text", "instruction", "prefix", "columns", "quotes", "chunk_tokens", "chunk_overlap"),
    *("retry_cut_short", "output", "resume", "overwrite"),
)
_ENGINE = ("batch_size", "draft_model", "num_draft_tokens")

_INPUT: dict[str, Flag] = {
    "format": {
        "choices": ("text", *get_args(FileFormat)),
        "help": "what the input is: one text or image a file, or one record a line or row "
        "(default: by the suffix of a single file, else text)",
    },
    "jsonl": {
        "action": "store_const",
        "const": "jsonl",
        "dest": "format",
        "help": "the same as --format jsonl",
    },
    "image": {
        "action": "append",
        "default": [],
        "metavar": "FILE",
        "help": "an image, or its URL, that is read with each record; repeatable",
    },
}
_SCHEMA: dict[str, Flag] = {
    "schema": {
        "metavar": "FILE",
        "help": "JSON Schema of the result; or module:Class or file.py:Class of a pydantic model "
        "or another type",
    },
}
_OUTPUT: dict[str, Flag] = {
    "html": {
        "metavar": "FILE",
        "help": "write a page of the texts with their quotes highlighted",
    },
    "stream": {
        "action": argparse.BooleanOptionalAction,
        "help": "write the tokens of a single result as they are generated (default: if standard "
        "output is a terminal)",
    },
    "quiet": {"action": "store_true", "help": "show no progress"},
}
_MODEL: dict[str, Flag] = {
    "model": {
        "metavar": "M",
        "help": "a directory or a Hugging Face repo id (default: the embedded model)",
    },
    "draft_model": {
        "metavar": "M",
        "help": "a smaller model with the same tokenizer, which drafts tokens for --model",
    },
    "num_draft_tokens": {
        "type": int,
        "metavar": "N",
        "help": "tokens that the draft model drafts per forward pass (default: by acceptance rate)",
    },
    "batch_size": {"type": int, "metavar": "N", "help": "inputs per batch (default: 8)"},
    "prompt_cache_directory": {
        "metavar": "DIR",
        "help": "directory in which reused beginnings of prompts are kept for later runs",
    },
}
_RAY: dict[str, Flag] = {
    "ray": {
        "metavar": "ADDRESS",
        "help": "address of a Ray cluster; auto: the cluster of RAY_ADDRESS or of this machine, "
        "else one that is started here",
    },
    "input": {
        "metavar": "DIR",
        "help": "directory or file, or its URL such as s3://bucket/directory; the same as FILE",
    },
    "concurrency": {
        "type": int,
        "metavar": "N",
        "help": "actors, each with an engine (default: 1)",
    },
    "num_cpus": {
        "type": float,
        "metavar": "N",
        "help": "CPUs reserved for each actor (default: 1)",
    },
    "num_gpus": {
        "type": float,
        "metavar": "N",
        "help": "GPUs reserved for each actor (default: 0)",
    },
}


def add_arguments(
    commands: _SubParsersAction[Parser],
) -> argparse.ArgumentParser:
    """Add the command, and return its parser."""
    parser = commands.add_parser(
        "extract",
        help="turn text and images into JSON that matches a schema",
        description=_DESCRIPTION,
        add_help=False,
    )
    for flags, about in (
        (("-h", "--help"), "show the most frequent options and exit"),
        (("--help-all",), "show all options and exit"),
    ):
        parser.add_argument(*flags, action=ShortHelp, shown=_FREQUENT, help=about)
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="FILE",
        help="texts, images, a table, or a directory; - for standard input (default without "
        "--image)",
    )
    group = parser.add_argument_group("input")
    add_flags(group, _INPUT)
    add_option_flags(group, ExtractionOptions, "text", "chunk_tokens", "chunk_overlap")
    group = parser.add_argument_group("answers")
    add_flags(group, _SCHEMA)
    add_option_flags(group, ExtractionOptions, "instruction")
    add_option_flags(group, GenerationOptions, *_REQUESTS)
    add_option_flags(group, ExtractionOptions, "retry_cut_short")
    group = parser.add_argument_group("output")
    names = ("output", "resume", "overwrite", "prefix", "columns", "quotes")
    add_option_flags(group, ExtractionOptions, *names)
    add_flags(group, _OUTPUT)
    group = parser.add_argument_group("model")
    add_flags(group, _MODEL)
    add_load_flags(group)
    group = parser.add_argument_group(
        "many machines",
        "With --ray, the tables, texts and images of the input are extracted from by actors of a "
        "Ray cluster, and --output is a directory with a file for each table and each group of "
        "texts.",
    )
    add_flags(group, _RAY)
    return parser


def extraction_options(options: argparse.Namespace) -> ExtractionOptions:
    """Return the options of the extraction. Raises ``InvalidOptionError``."""
    given = given_flags(options, *_EXTRACTION)
    if "columns" in given:
        given["columns"] = tuple(name.strip() for name in given["columns"].split(",") if name)
    return ExtractionOptions.of({"image": "image", **given})


def request_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the requests. Raises ``InvalidOptionError``."""
    given = given_flags(options, *_REQUESTS)
    GenerationOptions(**given)
    return given


def engine_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of the engine besides its model.

    Raises:
        InvalidOptionError: The directory of the prompt cache is invalid.
    """
    given = {**given_flags(options, *_ENGINE), **given_load_arguments(options)}
    if options.prompt_cache_directory is not None:
        # Deferred: `--help` need not wait for it.
        from ..prompt_cache import CacheOptions  # noqa: PLC0415

        given["cache"] = CacheOptions(directory=options.prompt_cache_directory)
    return given
