"""From a line of input to a command, or to what is wrong with it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pydantic

from ..problems import problems_in, suggestion
from .commands import COMMANDS, Command, RequestId
from .errors import InvalidFieldError, MalformedLineError, UnknownCommandError

__all__ = ["id_of", "read_command", "read_object"]

_ID: pydantic.TypeAdapter[RequestId] = pydantic.TypeAdapter(
    RequestId, config=pydantic.ConfigDict(strict=True)
)
_SHOWN = 80


def read_object(line: bytes) -> dict[str, Any]:
    """The JSON object that ``line`` holds; a byte order mark before it is no part of it.

    JSON is that of RFC 8259: no ``NaN``, and no name twice in one object. Raises
    ``MalformedLineError``.
    """
    try:
        value = json.loads(
            line.decode("utf-8-sig"), parse_constant=_no_number, object_pairs_hook=_named_once
        )
    except UnicodeDecodeError as error:
        raise MalformedLineError(f"the line is not UTF-8: {error}") from error
    except ValueError as error:
        raise MalformedLineError(f"the line is not JSON: {error}") from error
    except RecursionError as error:
        raise MalformedLineError("the line is nested too deeply") from error
    if not isinstance(value, dict):
        raise MalformedLineError(
            f"the line is no JSON object, but {_shown(value)}",
            hint='A command is {"cmd": …, "id": …}.',
        )
    return value


def id_of(given: dict[str, Any]) -> RequestId:
    """What the replies to ``given`` are to carry; ``None`` where that is no identifier."""
    try:
        return _ID.validate_python(given.get("id"))
    except pydantic.ValidationError:
        return None


def read_command(given: dict[str, Any]) -> Command:
    """The command that ``given`` is. Raises ``UnknownCommandError``, ``InvalidFieldError``."""
    cmd = given.get("cmd")
    if not isinstance(cmd, str):
        raise UnknownCommandError(
            "'cmd' is missing" if cmd is None else f"'cmd' is no string: {_shown(cmd)}",
            cmd=None,
            hint=f"Known are {', '.join(COMMANDS)}.",
        )
    if cmd not in COMMANDS:
        raise UnknownCommandError(
            f"there is no command {_shown(cmd)}", cmd=cmd[:_SHOWN], hint=suggestion(cmd, COMMANDS)
        )
    model = COMMANDS[cmd]
    try:
        return model.model_validate(given)
    except pydantic.ValidationError as error:
        raise _invalid(error, given, model) from error


def _invalid(
    error: pydantic.ValidationError, given: dict[str, Any], model: type[pydantic.BaseModel]
) -> InvalidFieldError:
    found = problems_in(error, given)
    unknown = [
        problem.location[0]
        for problem in found
        if problem.kind == "extra_forbidden" and len(problem.location) == 1
    ]
    hint = suggestion(str(unknown[0]), model.model_fields) if unknown else ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return InvalidFieldError(
        f"{'.'.join(map(str, found[0].location))} {found[0].what}{more}",
        field=found[0].pointer,
        problems=[{"field": problem.pointer, "what": problem.what} for problem in found],
        hint=hint,
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON's")


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has the name {_shown(twice)} twice")
    return made
