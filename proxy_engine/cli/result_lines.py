"""Output lines of ``extract``: results, failures, and those of an interrupted run."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from state_machines import StateMachine

from ..errors import OutputValidationError
from ..validation import JsonValidator, json_validator
from .errors import CommandLineError
from .inputs import Inputs, Item
from .output import OutputFile


def failure_line(item: Item, error: Exception) -> str:
    """Return the output line for an item of the input that has no result."""
    facts = {**item.key, "type": type(error).__name__, "message": str(error)}
    if isinstance(error, OutputValidationError):
        facts["text"] = error.text
    return _encoded({"error": facts}).decode("utf-8")


def _encoded(value: Any) -> bytes:
    # A lone surrogate is not UTF-8; its Python escape is also JSON's.
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _failure_prefix(item: Item) -> bytes:
    """The beginning that all failure lines of an item share."""
    return _encoded({"error": {**item.key, "type": ""}}).removesuffix(b'"}}')


def _is_failure(value: Any, item: Item) -> bool:
    match value:
        case {"error": {"type": str(), "message": str(), **others}, **more}:
            return not more and {**others, "text": ""} == {**item.key, "text": ""}
    return False


class Done(NamedTuple):
    """The lines of an output file, the failures among them, and their size in bytes."""

    lines: int = 0
    failures: int = 0
    size: int = 0


def skip_done(output: OutputFile, inputs: Inputs, schema: Any, machine: StateMachine) -> Done:
    """Skip the items of the input that ``output`` has results of, and validate these results.

    Args:
        output: The output of an interrupted run; its last line may be cut off, and does not count.
        inputs: The input.
        schema: The schema of the results.
        machine: The state machine of ``schema``.

    Raises:
        CommandLineError: A line of the output is neither a result nor the failure of its item, or
            there are more lines than items.
    """
    validator = json_validator(schema)
    done = Done()
    for position, found in enumerate(output.lines(), start=1):
        item = next(inputs, None) if found.endswith(b"\n") else inputs.peek()
        if item is None:
            raise _refusal(output, f"it has more lines than the input, which has {done.lines}")
        if not found.endswith(b"\n"):
            if not _is_result_prefix(found, item, machine):
                raise _refusal(output, f"line {position} is cut off and not part of a result")
            break
        value = _parse(found)
        failed = _is_failure(value, item)
        if not failed and not (value is not _INVALID and _is_valid(validator, value)):
            raise _refusal(
                output,
                f"line {position} is neither valid for the schema nor the error of the input's "
                f"{item.label}",
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


def _is_result_prefix(text: bytes, item: Item, machine: StateMachine) -> bool:
    prefix = _failure_prefix(item)
    return text.startswith(prefix) or prefix.startswith(text) or machine.begins(text)
