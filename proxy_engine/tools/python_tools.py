"""Tools from Python functions, pydantic models and dataclasses.

Pydantic derives the schema of the parameters from type hints. Descriptions come from
``Field(description=…)``, a string in ``Annotated``, or the docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import docstring_parser
import pydantic
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaWarningKind

from state_machines.pydantic_schemas import ClosedJsonSchema

from ..checks.texts import short_repr
from ..errors import InvalidToolError
from .tool import ArgumentReader, Tool, instance_arguments, read_instance

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

    Constraints such as ``Annotated[int, Field(ge=0)]`` apply. A parameter without a hint accepts
    any JSON value, one with a default is optional. Parameters bound by ``functools.partial`` are
    hidden from the model.

    Args:
        function: The function, sync or async.
        name: Default: the function's name.
        description: Default: the docstring's text.
        strict: OpenAI's field; every schema is enforced here.

    Raises:
        InvalidToolError: A parameter is positional-only or variadic, or pydantic has no schema for
        it.
    """
    inner, bound = function, set[str]()
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    is_routine = inspect.isroutine(inner)
    tool = name or getattr(inner, "__name__", None) or type(inner).__name__
    try:
        signature = inspect.signature(function)
        hinted = inner if is_routine else type(inner).__call__
        hints = typing.get_type_hints(hinted, include_extras=True)
    except Exception as error:
        # Evaluating annotations runs code, which may raise anything.
        raise InvalidToolError(
            f"the signature cannot be read: {error}",
            tool=tool,
            hint="Type hints must be names of the function's module.",
        ) from error
    docstring = inspect.getdoc(inner) if is_routine else type(inner).__doc__
    text, documented = read_docstring(docstring or inspect.getdoc(hinted))
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    defaults: set[str] = set()
    for parameter in signature.parameters.values():
        if parameter.name in bound:
            continue
        if parameter.kind in _STARS:
            raise InvalidToolError(
                f"parameter {_STARS[parameter.kind]}{parameter.name} cannot be passed by name",
                tool=tool,
                hint="A tool's parameters are ordinary or keyword-only ones.",
            )
        hint = hints.get(parameter.name, Any)
        is_plain = parameter.default is not parameter.empty
        default = parameter.default if is_plain else pydantic.Field()
        info = FieldInfo.from_annotated_attribute(hint, default)
        alias = info.validation_alias or info.alias
        if alias is None:
            hint = Annotated[hint, pydantic.Field(alias=parameter.name)]
        # Not the parameter's name: `json` and `_x` cannot be fields of a model.
        field = f"parameter_{len(fields)}"
        fields[field] = (hint, default)
        names[field] = parameter.name
        if isinstance(default, FieldInfo) and not info.is_required():
            # Python would pass the `Field` as it is.
            defaults.add(field)
        if described := [entry for entry in info.metadata if isinstance(entry, str)]:
            documented[parameter.name] = described[0]
        if isinstance(alias, str) and parameter.name in documented:
            documented[alias] = documented.pop(parameter.name)

    def create() -> pydantic.TypeAdapter[Any]:
        config = pydantic.ConfigDict(extra="forbid")
        return pydantic.TypeAdapter(pydantic.create_model(tool, __config__=config, **fields))

    adapter, parameters = _schema_of(create, tool, documented)

    def read(arguments: Mapping[str, Any]) -> dict[str, Any]:
        value = read_instance(adapter, arguments)
        passed = value.model_fields_set | defaults
        return {name: getattr(value, field) for field, name in names.items() if field in passed}

    return Tool(
        tool,
        text if description is None else description,
        parameters,
        strict,
        function,
        ArgumentReader(read),
    )


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
    tool = name or given.__name__
    docstring = vars(given).get("__doc__") or ""
    # The default docstring of a dataclass is its signature.
    is_written = not docstring.startswith(f"{given.__name__}(")
    text, documented = read_docstring(docstring if is_written else None)
    adapter, parameters = _schema_of(lambda: pydantic.TypeAdapter(given), tool, documented)
    # Not `getattr`: a class is callable even if its instances are not.
    calls = (vars(base)["__call__"] for base in given.__mro__ if "__call__" in vars(base))
    return Tool(
        tool,
        text if description is None else description,
        parameters,
        strict,
        next(calls, None) if function is None else function,
        instance_arguments(adapter),
    )


def read_docstring(docstring: str | None) -> tuple[str, dict[str, str]]:
    """Read a docstring in Google's, NumPy's or Sphinx's style.

    Returns:
        The text before the sections of parameters and results; descriptions by parameter.
    """
    text = inspect.cleandoc(docstring or "")
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text.strip(), {}
    parameters = {
        name.strip().lstrip("*"): " ".join(parameter.description.split())
        for parameter in parsed.params
        # NumPy's style describes several parameters at once: `x, y : int`.
        for name in parameter.arg_name.split(",")
        if parameter.description and parameter.description.strip()
    }
    return (parsed.description or "").strip(), parameters


class _ToolJsonSchema(ClosedJsonSchema):
    # The model may omit a parameter whose default is not JSON.
    ignored_warning_kinds: ClassVar[set[JsonSchemaWarningKind]] = {  # type: ignore[misc]
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles that repeat the name, which would cost prompt tokens."""
        return False


def _schema_of(
    create: Callable[[], pydantic.TypeAdapter[Any]], tool: str, documented: Mapping[str, str]
) -> tuple[pydantic.TypeAdapter[Any], dict[str, Any]]:
    """Return a type's adapter, and its schema with descriptions of properties without one."""
    try:
        adapter = create()
        schema = adapter.json_schema(schema_generator=_ToolJsonSchema)
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        raise InvalidToolError(
            f"pydantic has no schema for the parameters: {error}", tool=tool
        ) from error
    schema.pop("title", None)
    schema.pop("description", None)
    for name, inner in schema.get("properties", {}).items():
        if name in documented:
            inner.setdefault("description", documented[name])
    return adapter, schema
