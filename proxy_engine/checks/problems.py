"""Validation errors of pydantic: the location in the input as a JSON Pointer, and a description."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from .texts import short_repr

# What pydantic's messages say before the problem; the value's name takes its place.
_SUBJECT = re.compile(r"^(Value error,|Input|List|Tuple|Set|String|Dictionary) ")

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
    """Join the descriptions of a value's errors, one for each alternative of its type."""
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
