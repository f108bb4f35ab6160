"""Tools from Python functions: signature, type hints and docstring say all there is to know."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import pydantic
from pydantic.fields import FieldInfo

from ..errors import InvalidToolError
from .arguments import KeywordArguments
from .docstrings import Documentation, read_docstring
from .schemas import described, generated_schema
from .tool import Tool

__all__ = ["tool_from_function"]


_STARS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def tool_from_function(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> Tool:
    """A tool that calls ``function`` with keywords.

    The schema is made of the type hints by pydantic (``Annotated[int, Field(ge=0)]`` and the
    like hold) and admits no other arguments. Parameters with a default may be left out.
    Descriptions come from ``Field(description=…)``, from a string in ``Annotated``, or from the
    docstring. A parameter without a hint takes any JSON value. Keywords bound by
    ``functools.partial`` are hidden from the model.

    Raises ``InvalidToolError`` for parameters that no JSON object can give by name.
    """
    inner, bound = _unwrapped(function)
    own_name: str = name or getattr(inner, "__name__", None) or type(inner).__name__
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(_hinted(inner), include_extras=True)
    except Exception as error:
        # Annotations are code, which can raise any exception.
        raise InvalidToolError(
            f"the signature cannot be read: {error}",
            tool=own_name,
            hint="Type hints must be names of the function's module.",
        ) from error
    documentation = read_docstring(_docstring(inner))
    parameters = {
        parameter_name: parameter
        for parameter_name, parameter in signature.parameters.items()
        if parameter_name not in bound
    }
    reader, schema = _compiled(parameters, hints, documentation, own_name)
    return Tool(
        own_name,
        documentation.text if description is None else description,
        schema,
        strict,
        function,
        reader,
    )


def _unwrapped(function: Callable[..., Any]) -> tuple[Callable[..., Any], set[str]]:
    """The function inside of ``functools.partial``, and the keywords that are bound."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= set(function.keywords)
        function = function.func
    return function, bound


def _hinted(function: Callable[..., Any]) -> Any:
    if inspect.isroutine(function):
        return function
    # An object that can be called.
    return type(function).__call__


def _docstring(function: Callable[..., Any]) -> str | None:
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return type(function).__doc__ or inspect.getdoc(type(function).__call__)


def _compiled(
    parameters: dict[str, inspect.Parameter],
    hints: dict[str, Any],
    documentation: Documentation,
    tool: str,
) -> tuple[KeywordArguments, dict[str, Any]]:
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    documented: dict[str, str] = {}
    defaults = set()
    for index, (name, parameter) in enumerate(parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidToolError(
                f"parameter {_STARS[parameter.kind]}{name} cannot be given by name",
                tool=tool,
                hint="A tool's parameters are ordinary or keyword-only ones.",
            )
        # Names of the model's own: a parameter may be called `json`, or `_x`.
        field = f"parameter_{index}"
        hint = hints.get(name, Any)
        default = pydantic.Field() if parameter.default is parameter.empty else parameter.default
        if isinstance(default, FieldInfo):
            info = FieldInfo.from_annotated_attribute(hint, default)
            if not info.is_required():
                defaults.add(field)
        else:
            info = FieldInfo.from_annotation(hint)
        alias = info.validation_alias or info.alias
        if alias is None:
            hint = Annotated[hint, pydantic.Field(alias=name)]
        property_name = alias if isinstance(alias, str) else name
        fields[field] = (hint, default)
        names[field] = name
        text = _text_of(info) or documentation.parameters.get(name)
        if text:
            documented[property_name] = text
    try:
        model = pydantic.create_model(
            tool, __config__=pydantic.ConfigDict(extra="forbid"), **fields
        )
    except Exception as error:
        # A type can run its own code when pydantic builds its schema.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=tool
        ) from error
    schema = generated_schema(pydantic.TypeAdapter(model), tool)
    return KeywordArguments(model, names, frozenset(defaults)), described(schema, documented)


def _text_of(info: FieldInfo) -> str | None:
    """A string in ``Annotated``, which many write for a description."""
    return next((entry for entry in info.metadata if isinstance(entry, str)), None)
