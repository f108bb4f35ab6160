"""Tools from pydantic models and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pydantic

from ..checks.texts import short_repr
from ..errors import InvalidToolError
from .arguments import InstanceArguments
from .docstrings import read_docstring
from .schemas import described, generated_schema
from .tool import Tool


def is_tool_type(given: Any) -> bool:
    """Return whether ``tool_from_type`` accepts ``given``."""
    return isinstance(given, type) and (
        issubclass(given, pydantic.BaseModel) or dataclasses.is_dataclass(given)
    )


def tool_from_type(
    given: type[Any],
    *,
    function: Callable[[Any], Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> Tool:
    """Return a tool whose arguments are an instance of ``given``.

    Args:
        given: A pydantic model or a dataclass.
        function: Called with the instance. Default: the instance itself, if it is callable.
        name: Default: the class's name.
        description: Default: the class's docstring.
        strict: OpenAI's field; every schema is enforced here.

    Raises:
        InvalidToolError: ``given`` is neither, or pydantic has no schema for it.
    """
    if not is_tool_type(given):
        raise InvalidToolError(f"{short_repr(given)} is neither a pydantic model nor a dataclass")
    own_name = name or given.__name__
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(given)
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=own_name
        ) from error
    documentation = read_docstring(_docstring(given))
    if function is None:
        function = _own_call(given)
    return Tool(
        own_name,
        documentation.text if description is None else description,
        described(generated_schema(adapter, own_name), documentation.parameters),
        strict,
        function,
        InstanceArguments(adapter),
    )


def _own_call(given: type[Any]) -> Callable[[Any], Any] | None:
    # Not `getattr`: a class is callable even if its instances are not.
    calls = (vars(base)["__call__"] for base in given.__mro__ if "__call__" in vars(base))
    return next(calls, None)


def _docstring(given: type[Any]) -> str | None:
    docstring = vars(given).get("__doc__")
    # The default docstring of a dataclass is its signature.
    written = not (docstring or "").startswith(f"{given.__name__}(")
    return docstring if written else None
