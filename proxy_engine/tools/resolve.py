"""Tools from dicts, and from lists of tools in any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..checks.texts import as_list, short_repr
from ..errors import InvalidToolError
from .input_format import input_format_from_dict
from .python_tools import is_tool_type, tool_from_function, tool_from_type
from .tool import Tool

_KEYS = {"name", "description", "parameters", "strict"}
# The members that hold the schema, each with the types that tools with it have.
_TYPES: Mapping[str, tuple[str | None, ...]] = {
    "parameters": (None, "function", "object"),
    "input_schema": (None, "function", "custom"),
    "inputSchema": (None, "function"),
}
# Members of Anthropic's tools and of the Model Context Protocol that the model does not read.
_IGNORED = {"cache_control", "title", "annotations", "outputSchema", "icons", "_meta"}
_HINT = (
    'A tool is {"type": "function", "function": {"name": …, "description": …, "parameters": …}}, '
    '{"type": "custom", "custom": {"name": …, "description": …, "format": …}}, a pydantic model '
    "or dataclass, a Python function, or a Tool."
)


def resolve_tool(given: Any) -> Tool:
    """Return the tool for a ``Tool``, a dict, a pydantic model, a dataclass or a function.

    Raises:
        InvalidToolError: It is none of these, or invalid.
        ToolSchemaError: Its schema is refused.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        return tool_from_dict(given)
    if is_tool_type(given):
        return tool_from_type(given)
    if callable(given) and not isinstance(given, type):
        return tool_from_function(given)
    what = f"the class {given.__name__}" if isinstance(given, type) else short_repr(given)
    raise InvalidToolError(f"{what} is not a tool", hint=_HINT)


def resolve_tools(given: Iterable[Any] | None) -> tuple[Tool, ...]:
    """Return the tools of a mixed list, in order; none for ``None``.

    Raises:
        InvalidToolError: An item is no tool, or its name occurs twice; ``index`` is that of the
        item.
    """
    if given is None:
        return ()
    items = as_list(given)
    if items is None:
        raise InvalidToolError(
            f"tools should be a list, not {type(given).__name__}",
            hint="Put a single tool in brackets.",
        )
    tools: dict[str, Tool] = {}
    for index, item in enumerate(items):
        try:
            tool = resolve_tool(item)
        except InvalidToolError as error:
            raise error.at(index) from (error.__cause__ or error)
        if tool.name in tools:
            raise InvalidToolError(
                "another tool has the same name",
                tool=tool.name,
                index=index,
                hint=f"It is tool {list(tools).index(tool.name)}. Rename one of the two.",
            )
        tools[tool.name] = tool
    return tuple(tools.values())


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
    ``cache_control``, have no effect.

    Args:
        definition: The dict.
        function: The function to call.

    Raises:
        InvalidToolError: The dict is malformed.
    """
    given = _flat(definition)
    kind = given.pop("type", None)
    key = next((key for key in _TYPES if key in given), None)
    is_custom = kind == "custom" and key != "input_schema"
    if is_custom:
        _refuse_extra(given, {"name", "description", "format"}, "a custom tool")
    elif key is not None and kind in _TYPES[key]:
        _refuse_extra(given, _KEYS - {"parameters"} | {key})
        given["parameters"] = given.pop(key)
    elif key is None and kind == "object":
        schema = {name: value for name, value in given.items() if name not in _KEYS}
        given = {name: value for name, value in given.items() if name in _KEYS}
        given["parameters"] = {"type": "object", **schema}
    elif key is not None or kind != "function":
        raise _unknown_type(given, kind)
    else:
        _refuse_extra(given, _KEYS)
    name = given.get("name")
    if name is None:
        raise InvalidToolError("the tool has no name", hint=_HINT)
    if is_custom:
        try:
            given["input"] = input_format_from_dict(given.pop("format", None))
        except InvalidToolError as error:
            raise error.named(str(name)) from error
    known = {key: value for key, value in given.items() if key not in _IGNORED}
    return Tool(**known, function=function)


def _flat(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition without ``null`` and without the object inside that of the chat API.

    Some clients write ``null`` for a missing value.
    """
    given = _stated(definition)
    for kind in ("function", "custom"):
        if kind in given:
            if given.get("type") != kind:
                raise _unknown_type(given[kind], given.get("type"))
            _refuse_extra(given, {"type", kind})
            if not isinstance(given[kind], Mapping):
                raise InvalidToolError(f"{kind!r} is not an object", hint=_HINT)
            # Some clients repeat the type in the inner object.
            return {"type": kind, **_stated(given[kind])}
    return given


def _stated(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


def _unknown_type(given: Any, kind: object) -> InvalidToolError:
    what = "a tool without a type" if kind is None else f"a tool of type {short_repr(kind)}"
    return InvalidToolError(f"{what} is not known", tool=_name(given), hint=_HINT)


def _refuse_extra(
    given: Mapping[str, Any], known: set[str], what: str = "a tool's definition"
) -> None:
    extra = [key for key in given if key not in known and key not in _IGNORED]
    if extra:
        raise InvalidToolError(
            f"{what} has no {', '.join(map(short_repr, extra))}",
            tool=_name(given.get("function") or given.get("custom") or given),
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )


def _name(given: Any) -> str | None:
    name = given.get("name") if isinstance(given, Mapping) else None
    return name if isinstance(name, str) else None
