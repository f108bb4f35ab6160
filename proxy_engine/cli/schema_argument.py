"""``--schema``: a file with a JSON Schema, or the name of a type in a module or file of Python."""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import re
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from state_machines import JsonSchemaStateMachine
from state_machines.errors import PatternError, SchemaError, UnsatisfiableSchemaError

from ..errors import InvalidResponseFormatError
from ..extraction.answer_format import AnswerFormat
from ..extraction.schemas import INPUT
from .flags import CommandLineError

_NAME = re.compile(r"(?P<module>[\w.]+|.*\.py):(?P<name>[\w.]+)")
_HINT = "Name a file with a JSON Schema, or a type: --schema invoice.py:Invoice."


def read_response_format(argument: str | None) -> Any:
    """Return the response format that ``--schema`` names.

    Args:
        argument: A path of a JSON Schema; ``module:name`` or ``file.py:name`` of a pydantic model,
            another type or a schema.

    Raises:
        CommandLineError: There is no such file or type.
    """
    if argument is None:
        raise CommandLineError("--schema is missing", hint=_HINT)
    named = _NAME.fullmatch(argument)
    if named is not None and not Path(argument).exists():
        return _import(named["module"], named["name"])
    if argument.endswith(".py") and Path(argument).exists():
        names = _classes(argument)
        example = f"{argument}:{names[0] if names else 'NAME'}"
        others = f"; it has {', '.join(names)}" if names[1:] else ""
        raise CommandLineError(
            f"--schema {argument} is a file of Python, and names no type in it",
            hint=f"Name the type: --schema {example}{others}.",
        )
    return read_schema(argument)


def read_schema(path: str) -> Any:
    """Return the JSON Schema in a file. Raises ``CommandLineError``."""
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandLineError(
            f"cannot read the schema {path!r}: {error.strerror}", hint=_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise CommandLineError(f"the schema {path!r} is not JSON: {error}") from error
    if not isinstance(schema, dict | bool):
        raise CommandLineError(f"the schema {path!r} is neither an object nor a boolean")
    return schema


@contextlib.contextmanager
def refused_schema(argument: str) -> Iterator[None]:
    """Convert errors of a schema to ``CommandLineError``."""
    try:
        yield
    except InvalidResponseFormatError as error:
        raise CommandLineError(f"--schema {argument}: {error.what}", hint=error.hint) from error
    except (SchemaError, PatternError) as error:
        raise CommandLineError(f"the schema {argument!r}: {error}") from error


def check_schema(answers: AnswerFormat) -> None:
    """Compile a schema before the model is loaded. Raises ``SchemaError`` or ``PatternError``.

    The texts of records, which it may quote, are not known yet.
    """
    if answers.schema is None:
        return
    if not answers.has_quotes:
        JsonSchemaStateMachine(answers.schema)
        return
    with contextlib.suppress(UnsatisfiableSchemaError):
        JsonSchemaStateMachine(answers.schema, sources={INPUT: "-", "prompt": "-"})


def _classes(path: str) -> list[str]:
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        return [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return []


def _import(module: str, name: str) -> Any:
    # As `python -m` has it; the installed command has the directory of scripts instead.
    directory = os.getcwd()
    if module.endswith(".py"):
        directory, module = str(Path(module).absolute().parent), Path(module).stem
    if directory not in sys.path:
        sys.path.insert(0, directory)
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
