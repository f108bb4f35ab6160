"""Tools from OpenAI's dicts, and from lists of tools in any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import InvalidToolError
from ..text_checks import listed, short_repr
from .functions import tool_from_function
from .tool import Tool
from .types import is_tool_type, tool_from_type

_KEYS = {"name", "description", "parameters", "strict"}
_HINT = (
    'A tool is {"type": "function", "function": {"name": …, "description": …, "parameters": …}}, '
    "a pydantic model or dataclass, a Python function, or a Tool."
)


def resolve_tool(given: Any) -> Tool:
    """Return the tool for a ``Tool``, an OpenAI-style dict, a pydantic model, a dataclass or a
    function.

    Raises:
        InvalidToolError: It is none of these, or invalid.
        ToolSchemaError: Its schema is refused.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Mapping):
        return tool_from_openai(given)
    if is_tool_type(given):
        return tool_from_type(given)
    if callable(given) and not isinstance(given, type):
        return tool_from_function(given)
    what = f"the class {given.__name__}" if isinstance(given, type) else short_repr(given)
    raise InvalidToolError(
        f"{what} is not a tool",
        hint="Give an OpenAI-style dict, a pydantic model or dataclass, a function, or a Tool.",
    )


def resolve_tools(given: Iterable[Any] | None) -> tuple[Tool, ...]:
    """Return the tools of a mixed list, in order; none for ``None``.

    Raises:
        InvalidToolError: An item is no tool, or its name occurs twice; ``index`` is that of the
        item.
    """
    if given is None:
        return ()
    items = listed(given)
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


def tool_from_openai(
    definition: Mapping[str, Any], function: Callable[..., Any] | None = None
) -> Tool:
    """Return a tool from ``{"type": "function", "function": {…}}``, or the same without the inner
    object.

    Args:
        definition: The dict; ``parameters`` may be missing.
        function: The function to call.

    Raises:
        InvalidToolError: The dict is malformed.
    """
    kind = definition.get("type")
    if not isinstance(kind, str) or kind != "function":
        raise InvalidToolError(
            f"a tool of type {short_repr(kind)} is not known",
            tool=_name(definition),
            hint=_HINT,
        )
    inner = definition.get("function")
    if "function" in definition:
        _refuse_extra(definition, {"type", "function"})
        if not isinstance(inner, Mapping):
            raise InvalidToolError("'function' is not an object", hint=_HINT)
        given = inner
    else:
        given = {key: value for key, value in definition.items() if key != "type"}
    _refuse_extra(given, _KEYS)
    if given.get("name") is None:
        raise InvalidToolError("the tool has no name", hint=_HINT)
    # Some clients write `null` for a missing value.
    stated = {key: value for key, value in given.items() if value is not None}
    return Tool(**stated, function=function)


def _refuse_extra(given: Mapping[str, Any], known: set[str]) -> None:
    extra = [key for key in given if key not in known]
    if extra:
        raise InvalidToolError(
            f"a tool's definition has no {', '.join(map(short_repr, extra))}",
            tool=_name(given),
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )


def _name(given: Mapping[str, Any]) -> str | None:
    inner = given.get("function")
    name = inner.get("name") if isinstance(inner, Mapping) else given.get("name")
    return name if isinstance(name, str) else None
