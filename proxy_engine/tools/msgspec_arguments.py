"""Parameters of functions as the fields of a ``Struct`` of msgspec."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from annotated_types import BaseMetadata
from pydantic.fields import FieldInfo

from ..errors import InvalidToolError
from ..runtime.extras import import_extra

ReadArguments: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Returns arguments as a value of a type; raises ``ValueError`` if they are invalid."""


_SHOWN_DEFAULTS = (str, int, float, bool, type(None))


def arguments_type(
    parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any], *, tool: str
) -> Any:
    """Return a ``Struct`` whose fields are the parameters of a function.

    Args:
        parameters: The parameters.
        hints: Their types by name.
        tool: The name of the tool, for errors.

    Raises:
        InvalidToolError: A parameter has a constraint of pydantic, which msgspec does not read.
        MissingExtraError: msgspec is not installed.
    """
    msgspec = import_extra("msgspec", "msgspec", purpose="a parameter of a function")
    fields: list[tuple[Any, ...]] = []
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        if any(map(_is_of_pydantic, (parameter.default, *getattr(hint, "__metadata__", ())))):
            raise InvalidToolError(
                f"the parameter {parameter.name!r} has a constraint of pydantic, and msgspec reads "
                "the parameters of this function",
                tool=tool,
                hint="Give msgspec.Meta in place of pydantic.Field, or no type of msgspec.",
            )
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        elif type(parameter.default) in _SHOWN_DEFAULTS:
            fields.append((parameter.name, hint, parameter.default))
        else:
            # A factory, since msgspec copies or refuses mutable defaults. The function is called
            # with the default itself, as it is without the argument.
            factory = functools.partial(_same, parameter.default)
            fields.append((parameter.name, hint, msgspec.field(default_factory=factory)))
    return msgspec.defstruct("Arguments", fields, kw_only=True)


def read_arguments(read: ReadArguments, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as values by parameter, given the reader of their ``Struct``."""
    value = read(arguments)
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _is_of_pydantic(value: Any) -> bool:
    return isinstance(value, FieldInfo | BaseMetadata)


def _same(value: Any) -> Any:
    return value
