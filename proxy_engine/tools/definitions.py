"""Tools from dicts, Python functions, pydantic models, dataclasses and types of msgspec.

Pydantic derives the schema of the parameters from type hints, or msgspec if one of them is of
msgspec or attrs. Descriptions come from ``Field(description=…)``, ``Meta(description=…)``, a string
in ``Annotated``, or the docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import typing
from collections.abc import Callable, Mapping
from typing import Any

import docstring_parser
import pydantic
from pydantic.fields import FieldInfo

from state_machines.type_readers import uses_msgspec
from state_machines.type_readers.pydantic_reader import OptionalDefaults, pydantic_schema

from ..checks import problems_in, read_json, short_repr
from ..errors import InvalidToolError, MissingExtraError
from ..type_reader import (
    ReadArguments,
    TypeReader,
    arguments_type,
    read_arguments,
    type_reader,
    warn_of_left_out,
)
from .input_format import input_format_from_dict
from .tool import Tool, written

_log = logging.getLogger(__name__)

_KEYS = {"name", "description", "parameters", "strict"}
# The members that hold the schema, each with the types that tools with it have.
_TYPES: Mapping[str, tuple[str | None, ...]] = {
    "parameters": (None, "function", "object"),
    "input_schema": (None, "function", "custom"),
    "inputSchema": (None, "function"),
}
# Members of Anthropic's tools and of the Model Context Protocol that the model does not read.
_IGNORED = {
    *("cache_control", "title", "annotations", "execution", "icons"),
    *("outputSchema", "output_schema", "_meta", "meta"),
}
_HINT = (
    'A tool is {"type": "function", "function": {"name": …, "description": …, "parameters": …}}, '
    '{"type": "custom", "custom": {"name": …, "description": …, "format": …}}, a pydantic model '
    "or dataclass, a Python function, or a Tool."
)
_STARS: dict[Any, str] = {
    inspect.Parameter.POSITIONAL_ONLY: "",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def resolve_tool(source: Any) -> Tool:
    """Return the tool for a ``Tool``, a dict, a function, or a class as ``tool_from_type`` accepts.

    A tool of the package ``mcp`` has no function; see :mod:`proxy_engine.integrations.mcp`.

    Raises:
        InvalidToolError: It is none of these, or invalid.
        ToolSchemaError: Its schema is refused.
    """
    if isinstance(source, Tool):
        return source
    if isinstance(source, Mapping):
        return tool_from_dict(source)
    if is_tool_type(source):
        return tool_from_type(source)
    if isinstance(source, pydantic.BaseModel) and (found := _mcp_members(source)):
        return tool_from_dict(found)
    if callable(source) and not isinstance(source, type):
        return tool_from_function(source)
    what = f"the class {source.__name__}" if isinstance(source, type) else short_repr(source)
    raise InvalidToolError(f"{what} is not a tool", hint=_HINT)


def tool_from_dict(
    definition: Mapping[str, Any], function: Callable[..., Any] | None = None
) -> Tool:
    """Return a tool from a dict.

    ===================================================================  =====================
    dict                                                                 used by
    ===================================================================  =====================
    ``{"type": "function", "function": {"name": …, "parameters": …}}``   OpenAI's chat API
    ``{"type": "function", "name": …, "parameters": …}``                 OpenAI's Responses API
    ``{"name": …, "parameters": …}``                                     OpenAI's ``functions``
    ``{"name": …, "input_schema": …}``                                   Anthropic
    ``{"name": …, "inputSchema": …}``                                    Model Context Protocol
    ``{"name": …, "type": "object", "properties": …}``                   schemas with a name
    ``{"type": "custom", "custom": {"name": …, "format": …}}``           OpenAI's custom tools
    ``{"type": "custom", "name": …, "format": …}``                       OpenAI's Responses API
    ===================================================================  =====================

    ``description`` and ``strict`` may be added. Members that do not concern the model, such as
    ``cache_control``, have no effect, and neither have unknown members beside the schema, which are
    logged. Without a schema, an unknown member is an error, because it may be a misspelt schema.

    Args:
        definition: The dict.
        function: The function to call.

    Raises:
        InvalidToolError: The dict is malformed.
    """
    members = _flat(definition)
    kind = members.pop("type", None)
    key = next((key for key in _TYPES if key in members), None)
    is_custom = kind == "custom" and key != "input_schema"
    if is_custom:
        _refuse_extra(members, {"name", "description", "format"}, "a custom tool")
    elif key is not None and kind in _TYPES[key]:
        _refuse_extra(
            {name: members[name] for name in ("name", *_TYPES) if name in members}, {"name", key}
        )
        _log_ignored(members, _KEYS - {"parameters"} | {key})
        members = {name: members[name] for name in (*_KEYS, key) if name in members}
        members["parameters"] = members.pop(key)
    elif key is None and kind == "object":
        schema = {name: value for name, value in members.items() if name not in _KEYS}
        members = {name: value for name, value in members.items() if name in _KEYS}
        members["parameters"] = {"type": "object", **schema}
    elif key is not None or kind != "function":
        raise _unknown_type(members, kind)
    else:
        _refuse_extra(members, _KEYS)
    name = members.get("name")
    if name is None:
        raise InvalidToolError("the tool has no name", hint=_HINT)
    if is_custom:
        try:
            members["input"] = input_format_from_dict(members.pop("format", None))
        except InvalidToolError as error:
            raise error.named(str(name)) from error
    known = {key: value for key, value in members.items() if key not in _IGNORED}
    return Tool(**known, function=function)


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
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name in bound:
            continue
        if parameter.kind in _STARS:
            raise InvalidToolError(
                f"parameter {_STARS[parameter.kind]}{parameter.name} cannot be passed by name",
                tool=tool,
                hint="A tool's parameters are ordinary or keyword-only ones.",
            )
        parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
        default = pydantic.Field() if parameter.default is parameter.empty else parameter.default
        info = FieldInfo.from_annotated_attribute(hints.get(parameter.name, Any), default)
        described = [entry for entry in info.metadata if isinstance(entry, str)]
        description_of = described[0] if described else documented.pop(parameter.name, None)
        if description_of is not None:
            documented[_property_name(info.validation_alias) or parameter.name] = description_of

    def collect(**arguments: Any) -> dict[str, Any]:
        return arguments

    # Pydantic validates calls of functions by these attributes.
    collect.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    collect.__annotations__ = hints
    if any(uses_msgspec(hints.get(parameter.name)) for parameter in parameters):
        read, schema = _schema_of(arguments_type(parameters, hints, tool=tool), tool, documented)
        read = functools.partial(read_arguments, read)
    else:
        read, schema = _schema_of(collect, tool, documented)
    return Tool(
        tool,
        text if description is None else description,
        schema,
        strict,
        function,
        read,
    )


def _property_name(alias: str | pydantic.AliasPath | pydantic.AliasChoices | None) -> str | None:
    """Return the property that a parameter with an alias is read from, if it has a name."""
    match alias:
        case pydantic.AliasChoices(choices=[str(name), *_]) | str(name):
            return name
    return None


def is_tool_type(source: Any) -> bool:
    """Return whether ``tool_from_type`` accepts ``source``."""
    return isinstance(source, type) and (
        issubclass(source, pydantic.BaseModel)
        or dataclasses.is_dataclass(source)
        or uses_msgspec(source)
    )


def tool_from_type(
    source: type[Any],
    *,
    function: Callable[[Any], Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
) -> Tool:
    """Return a tool whose arguments are an instance of ``source``.

    Args:
        source: A pydantic model, a dataclass, a ``Struct`` of msgspec, or a class of attrs.
        function: Called with the instance. Default: the instance itself, if it is callable.
        name: Default: the class's name.
        description: Default: the class's docstring.
        strict: OpenAI's field; every schema is enforced here.

    Raises:
        InvalidToolError: ``source`` is none of these, or its library has no schema for it.
    """
    if not is_tool_type(source):
        raise InvalidToolError(
            f"{short_repr(source)} is neither a pydantic model nor a dataclass, a Struct or a "
            "class of attrs"
        )
    tool = name or source.__name__
    docstring = vars(source).get("__doc__") or ""
    # The default docstring of a dataclass is its signature.
    is_written = not docstring.startswith(f"{source.__name__}(")
    text, documented = read_docstring(docstring if is_written else None)
    read, parameters = _schema_of(source, tool, documented)
    # Not `getattr`: a class is callable even if its instances are not.
    calls = (vars(base)["__call__"] for base in source.__mro__ if "__call__" in vars(base))
    return Tool(
        tool,
        text if description is None else description,
        parameters,
        strict,
        next(calls, None) if function is None else function,
        read,
    )


def _flat(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without ``null``, and without the inner object of the chat API.

    Some clients write ``null`` for a missing value.
    """
    members = _stated(definition)
    if not isinstance(members.get("type"), str | None):
        raise _unknown_type(members, members["type"])
    for kind in ("function", "custom"):
        if kind in members:
            if members.get("type") != kind:
                raise _unknown_type(members[kind], members.get("type"))
            _refuse_extra(members, {"type", kind})
            if not isinstance(members[kind], Mapping):
                raise InvalidToolError(f"{kind!r} is not an object", hint=_HINT)
            # Some clients repeat the type in the inner object.
            return {"type": kind, **_stated(members[kind])}
    return members


def _stated(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _unknown_type(members: Any, kind: object) -> InvalidToolError:
    what = "a tool without a type" if kind is None else f"a tool of type {short_repr(kind)}"
    return InvalidToolError(f"{what} is not known", tool=_name(members), hint=_HINT)


def _refuse_extra(
    members: Mapping[str, Any], known: set[str], what: str = "a tool's definition"
) -> None:
    extra = [key for key in members if key not in known and key not in _IGNORED]
    if extra:
        raise InvalidToolError(
            f"{what} has no {', '.join(map(short_repr, extra))}",
            tool=_name(members.get("function") or members.get("custom") or members),
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )


def _log_ignored(members: Mapping[str, Any], known: set[str]) -> None:
    extra = [key for key in members if key not in known and key not in _IGNORED]
    if extra:
        names = ", ".join(map(short_repr, extra))
        _log.info("the tool %r has the unknown %s, which is ignored", _name(members), names)


def _mcp_members(source: pydantic.BaseModel) -> dict[str, Any]:
    """Return the members of a tool of the package ``mcp``; none of another object."""
    key = next((key for key in ("input_schema", "inputSchema") if hasattr(source, key)), None)
    if key is None:
        return {}
    return {name: getattr(source, name, None) for name in ("name", "description", key)}


def _name(members: Any) -> str | None:
    name = members.get("name") if isinstance(members, Mapping) else None
    return name if isinstance(name, str) else None


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


class _ToolJsonSchema(OptionalDefaults):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles that repeat the name, which would cost prompt tokens."""
        return False


def _schema_of(
    target: Any, tool: str, documented: Mapping[str, str]
) -> tuple[ReadArguments, dict[str, Any]]:
    """Return a type's reader, and its schema with descriptions of properties without one."""
    read: ReadArguments
    library = "msgspec" if uses_msgspec(target) else "pydantic"
    try:
        if library == "msgspec":
            reader = type_reader(target, write_defaults=False)
            read, schema = functools.partial(_read_value, reader), reader.schema
        else:
            adapter = pydantic.TypeAdapter(target)
            read = functools.partial(_read_instance, adapter)
            described = pydantic_schema(adapter, generator=_ToolJsonSchema)
            warn_of_left_out(f"calls of the tool {tool!r}", described)
            schema = described.schema
    except MissingExtraError:
        raise
    except Exception as error:
        # A type's own code, called for its schema, may raise anything.
        raise InvalidToolError(
            f"{library} has no schema for the parameters: {error}", tool=tool
        ) from error
    schema.pop("title", None)
    schema.pop("description", None)
    for name, inner in schema.get("properties", {}).items():
        if name in documented:
            inner.setdefault("description", documented[name])
    return read, schema


def _read_value(reader: TypeReader[Any], arguments: Mapping[str, Any]) -> Any:
    return reader.read(written(arguments))


def _read_instance(adapter: pydantic.TypeAdapter[Any], arguments: Mapping[str, Any]) -> Any:
    """Return arguments as an instance of a type; raises ``ValueError`` if they are invalid."""
    try:
        # As text: even in strict mode, pydantic reads dates, sets and tuples from JSON.
        return read_json(adapter, written(arguments))
    except pydantic.ValidationError as error:
        problems = problems_in(error, arguments)
        places = (".".join(map(str, problem.location)) for problem in problems)
        lines = (f"{place} {p.what}".strip() for place, p in zip(places, problems, strict=True))
        raise ValueError("; ".join(lines)) from error
