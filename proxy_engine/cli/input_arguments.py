"""The inputs that the command line names, and ``--schema``, checked before any work."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import IO, Any

from state_machines import JsonSchemaStateMachine
from state_machines.errors import PatternError, SchemaError, UnsatisfiableSchemaError

from ..errors import InvalidOptionError, InvalidResponseFormatError
from ..extraction.answer_format import AnswerFormat
from ..extraction.details import DetailColumns
from ..extraction.inputs import Content
from ..extraction.records import RecordReader
from ..extraction.schemas import INPUT
from ..extraction.sources import content_of, files_in
from .errors import CommandLineError

STANDARD_INPUT = "-"


@contextlib.contextmanager
def opened_input(path: str) -> Iterator[IO[bytes]]:
    """Open a file or standard input.

    Raises:
        CommandLineError: It cannot be read.
    """
    if path == STANDARD_INPUT:
        # `None` if it was closed at the start.
        if sys.stdin is None:
            raise CommandLineError("standard input is closed; give a file")
        yield sys.stdin.buffer
        return
    try:
        source = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
    except ValueError as error:
        # The name has a null byte.
        raise CommandLineError(f"cannot read {path!r}: {error}") from error
    with source:
        yield source


def check_files(paths: Sequence[str]) -> None:
    """Raise ``CommandLineError`` for paths that are no readable files. Opens none of them."""
    for path in paths:
        if path == STANDARD_INPUT:
            raise CommandLineError("standard input cannot be one of several inputs")
        try:
            reason = "" if os.access(path, os.R_OK) else _reason(path)
        except ValueError as error:
            reason = str(error)
        if not reason and Path(path).is_dir():
            reason = "it is a directory; name its files"
        if reason:
            raise CommandLineError(f"cannot read {path!r}: {reason}")


def expanded(paths: Sequence[str]) -> list[str]:
    """Return the paths with directories replaced by their files, in the order of names.

    Subdirectories are read as well; hidden files are left out.

    Raises:
        CommandLineError: A directory cannot be read, or has no files.
    """
    files: list[str] = []
    for path in paths:
        if not is_directory(path):
            files.append(path)
            continue
        try:
            found = sorted(map(str, files_in(Path(path))))
        except OSError as error:
            raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
        if not found:
            raise CommandLineError(f"the directory {path!r} has no files")
        files += found
    return files


def read_record(source: IO[bytes] | None, path: str, images: Sequence[str]) -> Content:
    """Read the only record of a run.

    Args:
        source: A text or an image; ``None`` without one.
        path: The name of ``source``.
        images: Paths and URLs of further images, before that of ``source``.

    Raises:
        CommandLineError: An input cannot be read.
    """
    try:
        first = RecordReader(image="image").read({"image": list(images)}).images if images else ()
    except ValueError as error:
        raise CommandLineError(f"--image: {error}") from error
    if source is None:
        return Content(images=first)
    try:
        record = content_of(source.read())
    except OSError as error:
        raise CommandLineError(f"cannot read {path!r}: {error.strerror}") from error
    except ValueError as error:
        raise CommandLineError(f"{path!r}: {error}") from error
    return Content(record.text, (*first, *record.images))


def read_schema(path: str) -> Any:
    """Return the JSON Schema in a file. Raises ``CommandLineError``."""
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandLineError(f"cannot read the schema {path!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise CommandLineError(f"the schema {path!r} is not JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise CommandLineError(f"the schema {path!r} is neither an object nor a boolean")
    return schema


def is_directory(path: str) -> bool:
    """Whether there is a directory of that name."""
    try:
        return Path(path).is_dir()
    except ValueError:
        # A name with a null byte.
        return False


def _reason(path: str) -> str:
    try:
        Path(path).stat()
    except OSError as error:
        return str(error.strerror)
    return "permission denied"


_NAME = re.compile(r"[\w.]+:[\w.]+")


def read_answer_format(
    argument: str,
    prefix: str,
    options: Mapping[str, Any],
    columns: Sequence[DetailColumns] = (),
    *,
    quotes: bool = False,
) -> AnswerFormat:
    """Return the format of the answers that ``--schema`` names.

    Args:
        argument: A path, or ``module:name`` of a pydantic model or another type.
        prefix: Text before the names of columns.
        options: The options of the requests.
        columns: The groups of columns about the generation of answers.
        quotes: Whether a quote follows each property.

    Raises:
        CommandLineError: There is no such file or type, its schema is refused, there are no such
            columns, or the properties cannot have quotes.
    """
    is_name = _NAME.fullmatch(argument) is not None and not Path(argument).exists()
    response_format = _import(argument) if is_name else read_schema(argument)
    try:
        answers = AnswerFormat.of(response_format, prefix, options, columns, quotes=quotes)
        if answers.schema is not None:
            _check(answers)
    except InvalidResponseFormatError as error:
        raise CommandLineError(f"--schema {argument}: {error}") from error
    except InvalidOptionError as error:
        raise CommandLineError(f"--{error.option}: {error}") from error
    except (SchemaError, PatternError) as error:
        raise CommandLineError(f"the schema {argument!r}: {error}") from error
    return answers


def _check(answers: AnswerFormat) -> None:
    """Compile a schema; the texts of records, which it may quote, are not known yet."""
    if not answers.has_quotes:
        JsonSchemaStateMachine(answers.schema)
        return
    with suppress(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(answers.schema, sources={INPUT: "-", "prompt": "-"})


def _import(argument: str) -> Any:
    module, _, name = argument.partition(":")
    # As `python -m` has it; the installed command has the directory of scripts instead.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except Exception as error:
        # The code of the module may raise anything.
        reason = f"{type(error).__name__}: {error}"
        raise CommandLineError(f"--schema: cannot import {module!r}: {reason}") from error
    try:
        return reduce(getattr, name.split("."), found)
    except AttributeError as error:
        raise CommandLineError(f"--schema: the module {module!r} has no {name!r}") from error
