"""What an earlier run has left in an output file, checked line by line against the input."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from state_machines import StateMachine

from ..validation import JsonValidator, json_validator
from .errors import CommandLineError
from .failures import failure_prefix, is_failure
from .input_lines import InputLines
from .output_file import OutputFile

__all__ = ["Done", "skip_done"]


class Done(NamedTuple):
    """The lines that an output has already, the failures among them, and their size in bytes."""

    lines: int = 0
    failures: int = 0
    size: int = 0


def skip_done(output: OutputFile, lines: InputLines, schema: Any, machine: StateMachine) -> Done:
    """Read as many ``lines`` as ``output`` has results of; a last one that is cut off is not one.

    ``machine`` is that of ``schema``. Raises ``CommandLineError`` where anything in the file is
    neither a result nor the failure of that line, or where there are more of them than lines.
    """
    validator = json_validator(schema)
    done = Done()
    for place, found in enumerate(output.lines(), start=1):
        line = next(lines, None) if found.endswith(b"\n") else lines.peek()
        if line is None:
            raise _refusal(output, f"it has more lines than the input, which has {done.lines}")
        if not found.endswith(b"\n"):
            if not _may_begin_result(found, line.number, machine):
                raise _refusal(output, f"line {place} is cut off, and was no result before")
            break
        value = _parse(found)
        failed = is_failure(value, line.number)
        if not failed and not (value is not _NOTHING and _is_valid(validator, value)):
            raise _refusal(
                output,
                f"line {place} is neither valid for the schema nor the error of the input's line "
                f"{line.number}",
            )
        done = Done(done.lines + 1, done.failures + failed, done.size + len(found))
    return done


def _refusal(output: OutputFile, what: str) -> CommandLineError:
    return CommandLineError(
        f"{output.path!r} was not written by this command from this input: {what}",
        hint="Nothing was changed in it.",
    )


_NOTHING = object()


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return _NOTHING


def _is_valid(validator: JsonValidator, value: Any) -> bool:
    try:
        return validator.is_valid(value)
    except RecursionError:
        return False


def _may_begin_result(text: bytes, number: int, machine: StateMachine) -> bool:
    prefix = failure_prefix(number)
    return text.startswith(prefix) or prefix.startswith(text) or machine.begins(text)
