"""Convert a list of tools in any form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidToolError
from ..text_checks import listed, short_repr
from .definitions import tool_from_openai
from .functions import tool_from_function
from .tool import Tool
from .types import is_tool_type, tool_from_type

__all__ = ["resolve_tool", "resolve_tools"]


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
