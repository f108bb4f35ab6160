"""Frozen dataclasses that pydantic validates, and pydantic's errors as ``PromptError``.

Fields are declared once, with their types. Constructors and dicts are checked against them.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar, dataclass_transform

import pydantic
import pydantic.dataclasses
from pydantic import BeforeValidator, StringConstraints
from pydantic_core import ArgsKwargs, SchemaValidator

from ..checks.problems import description
from ..checks.texts import short_repr
from ..errors import PromptError

_T = TypeVar("_T", bound="Validated")


def json_copy(value: Any) -> Any:
    """Return a deep copy of a JSON value, with tuples as lists.

    Raises:
        PromptError: The value is not JSON.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode("utf-8")
        return json.loads(text)
    except RecursionError as error:
        raise PromptError("the value is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise PromptError(f"the value is not JSON: {error}") from error


# A constraint of the length makes pydantic refuse lone surrogates, which UTF-8 cannot encode.
PromptText: TypeAlias = Annotated[str, StringConstraints(strict=True, min_length=0)]
JsonValue: TypeAlias = Annotated[Any, BeforeValidator(json_copy)]


class Validated:
    """Base of the classes that ``validated`` decorates."""

    __slots__ = ()
    __pydantic_validator__: ClassVar[SchemaValidator]

    def _set(self, values: dict[str, Any]) -> None:
        """Validate values by the names of fields, and set the fields."""
        try:
            self.__pydantic_validator__.validate_python(ArgsKwargs((), values), self_instance=self)
        except pydantic.ValidationError as error:
            raise _prompt_error(error) from error

    @classmethod
    def _read(cls, values: dict[str, Any]) -> Self:
        """Create an object from fields, without the constructor."""
        made = object.__new__(cls)
        made._set(values)
        return made


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def validated(cls: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass whose constructor raises ``PromptError``.

    A constructor that the class defines is kept. It sets the fields with ``_set``.
    """
    constructor = cls.__dict__.get("__init__")
    config = pydantic.ConfigDict(extra="forbid")
    made = pydantic.dataclasses.dataclass(cls, frozen=True, slots=True, config=config)
    signature = inspect.signature(made)

    @functools.wraps(made.__init__)
    def __init__(self: Validated, *args: Any, **keywords: Any) -> None:
        self._set(signature.bind(*args, **keywords).arguments)

    made.__init__ = constructor or __init__  # type: ignore[method-assign, assignment]
    return made  # type: ignore[return-value]


def _prompt_error(error: pydantic.ValidationError) -> PromptError:
    """Return the first problem, at its location such as ``content[0].text``."""
    fact: Mapping[str, Any] = error.errors(include_url=False)[0]
    location = list(fact["loc"])
    if location[:1] == ["content"]:
        # Behind the index, pydantic adds the kind of the part.
        del location[2:3]
    cause = fact.get("ctx", {}).get("error")
    if isinstance(cause, PromptError):
        return cause.at(_path(location))
    if fact["type"].startswith("union_tag"):
        what = f"a content part is not known: {short_repr(fact['input'])}"
        return PromptError(what, where=_path(location))
    name = "a value" if not location or isinstance(location[-1], int) else location.pop()
    what = description(fact["type"], fact["msg"], fact["input"])
    return PromptError(f"{name} {what}", where=_path(location))


def _path(location: list[int | str]) -> str:
    keys = (f"[{key}]" if isinstance(key, int) else f".{key[:80]}" for key in location)
    return "".join(keys).removeprefix(".")
