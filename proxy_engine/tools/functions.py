"""Tools from Python functions: signature, type hints and docstring."""

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
    """Return a tool that calls ``function`` with keyword arguments.

    Pydantic derives the schema from the type hints; constraints such as ``Annotated[int,
    Field(ge=0)]`` apply. A parameter without a hint accepts any JSON value, one with a default is
    optional. Parameters bound by ``functools.partial`` are hidden from the model. Descriptions
    come from ``Field(description=…)``, a string in ``Annotated``, or the docstring.

    Args:
        function: The function, sync or async.
        name: Default: the function's name.
        description: Default: the docstring's text.
        strict: OpenAI's field; every schema is enforced here.

    Raises:
        InvalidToolError: A parameter is positional-only or variadic, or pydantic has no schema for
        it.
    """
    inner, bound = _unwrapped(function)
    own_name: str = name or getattr(inner, "__name__", None) or type(inner).__name__
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(_hinted(inner), include_extras=True)
    except Exception as error:
        # Evaluating annotations runs code, which may raise anything.
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
    """Return the function inside ``functools.partial``, and the names that are bound."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= set(function.keywords)
        function = function.func
    return function, bound


def _hinted(function: Callable[..., Any]) -> Any:
    if inspect.isroutine(function):
        return function
    # A callable object.
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
                f"parameter {_STARS[parameter.kind]}{name} cannot be passed by name",
                tool=tool,
                hint="A tool's parameters are ordinary or keyword-only ones.",
            )
        # Not the parameter's name: `json` and `_x` cannot be fields of a model.
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
        # A type's own code, called for its schema, may raise anything.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=tool
        ) from error
    schema = generated_schema(pydantic.TypeAdapter(model), tool)
    return KeywordArguments(model, names, frozenset(defaults)), described(schema, documented)


def _text_of(info: FieldInfo) -> str | None:
    """Return a string in ``Annotated``, a common form of descriptions."""
    return next((entry for entry in info.metadata if isinstance(entry, str)), None)
