"""Tools from OpenAI's dicts, in the forms of both of its APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InvalidToolError
from ..text_checks import short_repr
from .tool import Tool

__all__ = ["tool_from_openai"]

_KEYS = {"name", "description", "parameters", "strict"}
_HINT = (
    'A tool is {"type": "function", "function": {"name": …, "description": …, "parameters": …}}, '
    "a pydantic model or dataclass, a Python function, or a Tool."
)


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
