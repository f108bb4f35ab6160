"""Checks of input values: lists and texts, pydantic's errors as sentences, directories, options."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, TypeVar

import pydantic
from pydantic import BaseModel, ValidationError

from samplers.parameters import ParameterModel

from .errors import InvalidOptionError


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is a list or another iterable, and no string, bytes or mapping."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return False
    try:
        iter(value)
    except TypeError:
        # A NumPy array without dimensions has `__iter__`, which raises.
        return False
    return True


def as_list(value: object) -> list[Any] | None:
    """Return the items of a list or another iterable; ``None`` for any other value.

    Strings, bytes and mappings do not count as lists.
    """
    return list(value) if is_iterable(value) else None


def reusable(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of several requests with lists in place of iterators, read once."""
    return {
        name: list(value) if isinstance(value, Iterator) else value
        for name, value in arguments.items()
    }


def short_repr(value: object, limit: int = 80) -> str:
    """Return ``repr(value)``, cut to ``limit`` characters; never raises.

    ``repr`` raises for deeply nested values and for integers of more than 4,300 digits. These are
    shown by their type.
    """
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


_SUMMARY_LENGTH = 160
"""Two lines of a terminal."""


def summary(value: object, text: str, **facts: object) -> str:
    """Return a ``repr`` of at most two lines, for objects with many fields.

    Args:
        value: The object.
        text: Its text, which is cut to the space that the facts leave.
        facts: Further facts. Those that are ``None`` or empty are left out.
    """
    name = type(value).__name__
    shown = [
        f"{key}={short_repr(fact, 40)}"
        for key, fact in facts.items()
        if fact is not None and fact != "" and fact != ()
    ]
    room = _SUMMARY_LENGTH - len(name) - len(", ".join(["", *shown])) - 2
    whole = f"{name}({', '.join([short_repr(text, max(room, 20)), *shown])})"
    return whole if len(whole) <= _SUMMARY_LENGTH else f"{whole[: _SUMMARY_LENGTH - 2]}…)"


# What pydantic's messages say before the problem; the value's name takes its place.
_SUBJECT = re.compile(r"^(Value error,|Input|List|Tuple|Set|String|Dictionary) ")

_MODEL = re.compile(r"a valid dictionary or instance of (\w+)")

T = TypeVar("T")

Location = tuple[int | str, ...]
"""Keys and indices that lead from the input to a value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An invalid value of the input.

    Attributes:
        location: Where it is.
        what: A description to follow the value's name, such as ``"should be a valid
            integer, not 'x'"``.
        kind: Pydantic's type of the error, such as ``"missing"`` or ``"extra_forbidden"``.
    """

    location: Location
    what: str
    kind: str

    @property
    def pointer(self) -> str:
        """``location`` as a JSON Pointer (RFC 6901)."""
        return json_pointer(self.location)


def problems_in(error: pydantic.ValidationError, value: object) -> list[Problem]:
    """Return one problem for each location in ``value``, the input that was validated.

    A value of a union type has one error for each alternative; they are one problem here.
    """
    return problems_from(error.errors(include_url=False), value)


def problems_from(facts: Iterable[Mapping[str, Any]], value: object) -> list[Problem]:
    """Return the problems in ``facts``, the items of ``ValidationError.errors()``."""
    found: dict[Location, list[str]] = {}
    kinds: dict[Location, str] = {}
    for fact in facts:
        location = _location_in(value, fact["loc"], is_missing=fact["type"].startswith("missing"))
        kinds.setdefault(location, fact["type"])
        found.setdefault(location, []).append(description(fact["type"], fact["msg"], fact["input"]))
    return [
        Problem(location, _alternatives(whats), kinds[location])
        for location, whats in found.items()
        # An alternative that fits apart from something inside it is the one that was meant.
        if not any(other[: len(location)] == location != other for other in found)
    ]


def _alternatives(whats: Sequence[str]) -> str:
    """Join the descriptions of a value's errors; each alternative of its type has a description."""
    first, *others = dict.fromkeys(whats)
    # Most end with the value.
    value = first.rpartition(", not ")[2]
    texts = [what.removesuffix(f", not {value}") for what in (first, *others)]
    return first if not others else f"{', or '.join(texts)}, not {value}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a sentence that names the known name closest to ``name``, or else all of them."""
    names = list(known)
    close = difflib.get_close_matches(name[:80], names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(names)}."


def description(kind: str, message: str, value: object) -> str:
    """Return a description of an error of pydantic, to follow the value's name."""
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return "is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is unknown"
    if kind == "string_unicode":
        return "has a lone surrogate, which UTF-8 cannot encode"
    if kind == "too_short" and "at least 1 item" in message:
        return "must contain at least one item"
    what = _SUBJECT.sub("", message).replace(" after validation", "")
    what = _MODEL.sub(r"\1 or a dictionary of its fields", what)
    # Lengths say how many there are.
    return what if kind in ("too_short", "too_long") else f"{what}, not {short_repr(value)}"


def _location_in(value: object, location: Sequence[int | str], *, is_missing: bool) -> Location:
    """Leave out what pydantic adds to locations: the names of a union's alternatives."""
    found: list[int | str] = []
    for index, name in enumerate(location):
        is_there = (isinstance(value, dict) and name in value) or (
            isinstance(value, list | tuple) and isinstance(name, int) and name < len(value)
        )
        if is_there:
            value = value[name]  # type: ignore[index]
        if is_there or (is_missing and index == len(location) - 1):
            found.append(name)
    return tuple(found)


def reference_token(name: str) -> str:
    """Return the reference token of a member's name."""
    return name.replace("~", "~0").replace("/", "~1")


def json_pointer(location: Iterable[int | str]) -> str:
    """Return the pointer of keys and indices; each name is cut to 80 characters."""
    return "".join(f"/{reference_token(str(name)[:80])}" for name in location)


def prefixes(pointer: str) -> Iterator[str]:
    """Yield ``pointer`` and the pointers of the values that contain it."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def read_json(adapter: pydantic.TypeAdapter[T], text: str) -> T:
    """Return a JSON text as a value of a type.

    Raises:
        pydantic.ValidationError: The type rejects it; a ``ValueError``.
        ValueError: A validator raised an exception that pydantic does not expect.
    """
    try:
        return adapter.validate_json(text)
    except ValueError:
        raise
    except Exception as error:
        # The caller's code may raise anything.
        raise ValueError(f"a validator raised {type(error).__name__}: {error}") from error


def directory_path(path: object) -> Path | None:
    """Return the path of a directory, with ``~`` expanded; ``None`` as it is.

    Raises:
        ValueError: It is no path, or empty.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ValueError("should be a path")
    if path == "":
        raise ValueError("should be the name of a directory")
    return Path(path).expanduser()


def privacy_problem(directory: Path) -> str | None:
    """Return why users besides this one and root can write to a directory; ``None`` if they cannot.

    A directory that does not exist, or is not accessible, has no problem.
    """
    try:
        found = directory.stat()
    except OSError:
        return None
    if found.st_uid not in (0, os.geteuid()):
        return "should belong to this user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return f"should not be writable by other users (its mode is {mode:o}; use `chmod 700`)"
    return None


_LISTED = 20
"""The most names that an error lists."""

_NO_HINTS: Mapping[str, str] = MappingProxyType({})


class OptionModel(ParameterModel):
    """Base of option models: their constructors raise ``InvalidOptionError``."""

    name_hints: ClassVar[Mapping[str, str]] = _NO_HINTS
    """Hints for unknown names."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            # Before pydantic, which refuses names that are not Unicode without telling them.
            check_names(values, argument_names(type(self)), type(self).name_hints)
            super().__init__(**values)

        __init__.__pydantic_base_init__ = True

    @classmethod
    def _refusal(cls, error: ValidationError, values: Mapping[str, Any]) -> ValueError:
        problem = problems_in(error, values)[0]
        names = problem.location or ("options",)
        hint = ""
        if problem.kind == "extra_forbidden":
            close = difflib.get_close_matches(str(names[-1])[:80], argument_names(cls), n=1)
            hint = f"Did you mean {close[0]!r}?" if close else ""
        return InvalidOptionError(
            f"{'.'.join(map(str, names))} {problem.what}",
            option=str(names[0]),
            pointer=problem.pointer,
            hint=hint,
        )


@cache
def argument_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the arguments of a model's constructor."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def check_names(
    options: Mapping[str, Any], known: Collection[str], hints: Mapping[str, str] = _NO_HINTS
) -> None:
    """Raise ``InvalidOptionError`` for a name that is no option.

    Args:
        options: The options by name.
        known: The names of options.
        hints: Hints for names that are unknown and not misspelled.
    """
    for name in options:
        if name not in known:
            hint = hints.get(name) or suggestion(str(name), known)
            if len(known) > _LISTED and hint.startswith("Known are"):
                hint = "The signature lists the options: help(engine.generate)."
            raise InvalidOptionError(
                f"there is no option {short_repr(name)}", option=str(name), hint=hint
            )
