"""``--schema``: a file with a JSON Schema, or a Python type."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

from state_machines import JsonSchemaStateMachine
from state_machines.errors import PatternError, SchemaError, UnsatisfiableSchemaError

from ..errors import InvalidOptionError, InvalidResponseFormatError
from ..extraction.answer_format import INPUT, AnswerFormat
from ..extraction.details import DetailColumns
from .errors import CommandLineError
from .input_arguments import read_schema

_NAME = re.compile(r"[\w.]+:[\w.]+")


def read_answer_format(
    argument: str,
    prefix: str,
    options: Mapping[str, Any],
    columns: Sequence[DetailColumns] = (),
) -> AnswerFormat:
    """Return the format of the answers that ``--schema`` names.

    Args:
        argument: A path, or ``module:name`` of a pydantic model or another type.
        prefix: Text before the names of columns.
        options: The options of the requests.
        columns: The groups of columns about the generation of answers.

    Raises:
        CommandLineError: There is no such file or type, its schema is refused, or there are no such
            columns.
    """
    is_name = _NAME.fullmatch(argument) is not None and not Path(argument).exists()
    response_format = _import(argument) if is_name else read_schema(argument)
    try:
        answers = AnswerFormat.of(response_format, prefix, options, columns)
        if answers.schema is not None:
            _check(answers)
    except InvalidResponseFormatError as error:
        raise CommandLineError(f"--schema {argument}: {error}") from error
    except InvalidOptionError as error:
        raise CommandLineError(f"--columns: {error}") from error
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
