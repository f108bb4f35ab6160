"""Output lines of ``extract --jsonl``: results, failures, and those of an interrupted run."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from state_machines import StateMachine

from ..errors import OutputValidationError
from ..validation import JsonValidator, json_validator
from .errors import CommandLineError
from .input_lines import InputLines
from .output import OutputFile


def failure_line(number: int, error: Exception) -> str:
    """Return the output line for the input's line ``number``, which has no result."""
    facts: dict[str, Any] = {"line": number, "type": type(error).__name__, "message": str(error)}
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    line = json.dumps({"error": facts}, ensure_ascii=False)
    # A lone surrogate is not UTF-8; its Python escape is also JSON's.
    return line.encode("utf-8", "backslashreplace").decode("utf-8")


def _failure_prefix(number: int) -> bytes:
    """The beginning that all failure lines of the input's line ``number`` share."""
    return f'{{"error": {{"line": {number}, "type": "'.encode()


def _is_failure(value: Any, number: int) -> bool:
    match value:
        case {"error": {"line": int(line), "type": str(), "message": str(), **others}, **more}:
            return line == number and not more and not others.keys() - {"text"}
    return False


class Done(NamedTuple):
    """The lines of an output file, the failures among them, and their size in bytes."""

    lines: int = 0
    failures: int = 0
    size: int = 0


def skip_done(output: OutputFile, lines: InputLines, schema: Any, machine: StateMachine) -> Done:
    """Skip the input lines that ``output`` has results of, and validate these results.

    Args:
        output: The output of an interrupted run; its last line may be cut off, and does not count.
        lines: The input.
        schema: The schema of the results.
        machine: The state machine of ``schema``.

    Raises:
        CommandLineError: A line of the output is neither a result nor the failure of its input
            line, or there are more lines than in the input.
    """
    validator = json_validator(schema)
    done = Done()
    for position, found in enumerate(output.lines(), start=1):
        line = next(lines, None) if found.endswith(b"\n") else lines.peek()
        if line is None:
            raise _refusal(output, f"it has more lines than the input, which has {done.lines}")
        if not found.endswith(b"\n"):
            if not _is_result_prefix(found, line.number, machine):
                raise _refusal(output, f"line {position} is cut off and not part of a result")
            break
        value = _parse(found)
        failed = _is_failure(value, line.number)
        if not failed and not (value is not _INVALID and _is_valid(validator, value)):
            raise _refusal(
                output,
                f"line {position} is neither valid for the schema nor the error of the input's "
                f"line {line.number}",
            )
        done = Done(done.lines + 1, done.failures + failed, done.size + len(found))
    return done


def _refusal(output: OutputFile, reason: str) -> CommandLineError:
    return CommandLineError(
        f"{output.path!r} was not written by this command from this input: {reason}",
        hint="The file was not changed.",
    )


_INVALID = object()


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return _INVALID


def _is_valid(validator: JsonValidator, value: Any) -> bool:
    try:
        return validator.is_valid(value)
    except RecursionError:
        return False


def _is_result_prefix(text: bytes, number: int, machine: StateMachine) -> bool:
    prefix = _failure_prefix(number)
    return text.startswith(prefix) or prefix.startswith(text) or machine.begins(text)
