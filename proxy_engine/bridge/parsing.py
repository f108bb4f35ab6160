"""From a line of input to a command, or to what is wrong with it."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pydantic

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
            hint=_among(COMMANDS),
        )
    if cmd not in COMMANDS:
        raise UnknownCommandError(
            f"there is no command {_shown(cmd)}", cmd=cmd[:_SHOWN], hint=_similar(cmd, COMMANDS)
        )
    model = COMMANDS[cmd]
    try:
        return model.model_validate(given)
    except pydantic.ValidationError as error:
        raise _invalid(error, given, model) from error


def _invalid(
    error: pydantic.ValidationError, given: dict[str, Any], model: type[pydantic.BaseModel]
) -> InvalidFieldError:
    found: dict[str, list[str]] = {}
    hint = ""
    for fact in error.errors(include_url=False, include_input=False):
        is_missing = fact["type"] == "missing"
        found.setdefault(_pointer(fact["loc"], given, is_missing), []).append(
            _what(fact["type"], fact["msg"])
        )
        if fact["type"] == "extra_forbidden" and len(fact["loc"]) == 1 and not hint:
            hint = _similar(str(fact["loc"][0]), model.model_fields)
    # The forms that a field may have each say why they are not meant.
    problems = [
        {"field": field, "what": ", or: ".join(dict.fromkeys(whats))}
        for field, whats in found.items()
    ]
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    return InvalidFieldError(
        f"{problems[0]['what']}{more}", field=problems[0]["field"], problems=problems, hint=hint
    )


def _what(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such field"
    return "the field is missing" if kind == "missing" else message[:1].lower() + message[1:]


def _pointer(location: Sequence[int | str], given: Any, is_missing: bool) -> str:
    """The JSON Pointer of a place; pydantic's also names the forms that a value may have."""
    tokens = []
    for index, token in enumerate(location):
        is_there = (isinstance(given, dict) and token in given) or (
            isinstance(given, list) and isinstance(token, int)
        )
        if is_there:
            given = given[token]
        if is_there or (is_missing and index == len(location) - 1):
            tokens.append(str(token)[:_SHOWN].replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{token}" for token in tokens)


def _similar(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name[:_SHOWN], list(known), n=1)
    return f"Did you mean {close[0]!r}?" if close else _among(known)


def _among(known: Iterable[str]) -> str:
    return f"Known are {', '.join(map(repr, known))}."


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
