"""Definitions of tools in requests, as the engine takes them.

- The members of a *namespace* (OpenAI's ``{"type": "namespace"}``) are tools whose names begin with
  that of the namespace.
- *Hosted tools*, such as ``{"type": "web_search"}``, run on the servers of OpenAI or Anthropic.
  They constrain nothing, so they are left out.
- Schemas are repaired where they break JSON Schema's syntax and have one reading.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..checks import short_repr
from ..errors import InvalidToolError
from ..tools import Tool, resolve_tool
from ..tools.schema_repairs import repaired_schema
from .unknown_fields import is_constraint

CALLABLE = (None, "function", "custom", "object")
"""The types of tools that a model can call."""

# Members that concern the model. The model reads no others.
_MEMBERS = {
    *("type", "name", "description", "strict", "format"),
    *("parameters", "input_schema", "inputSchema"),
}
_NAMES = {"name", "description", "strict"}
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
# Members of tools that change no call.
_NO_EFFECT = {
    *("cache_control", "title", "annotations", "icons", "_meta", "execution", "async"),
    *("output_schema", "outputSchema", "defer_loading", "eager_input_streaming"),
    "allowed_callers",
}
_MAX_NAME = 64
_NO_NAME = re.compile(r"[^a-zA-Z0-9_.-]")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of a request.

    Attributes:
        tool: The tool, with the name that the model reads.
        name: The client's name.
        namespace: The namespace that contains it; ``None`` for other tools.
    """

    tool: Tool
    name: str
    namespace: str | None = None


def hosted_fields(tools: Any, choice: Any = None) -> Iterator[str]:
    """Yield the fields of a request that are hosted tools, or members that no model reads.

    Args:
        tools: The definitions.
        choice: The tool choice.
    """
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from unread_members(tool, f"tools[{index}]")
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools", choice)
        entries = inner.get("tools") if isinstance(inner, Mapping) else None
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if is_hosted(entry):
                yield f"tool_choice.tools[{index}]"


def shown_name(name: str, namespace: str) -> str:
    """Return the name that the model reads for a tool of a namespace."""
    joined = f"{namespace}{'' if namespace.endswith('_') else '__'}{name}"
    text = _NO_NAME.sub("_", joined)
    if len(text) <= _MAX_NAME and text == joined:
        return text
    digest = hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:7]
    return f"{text[: _MAX_NAME - 8]}_{digest}"


class ToolReader:
    """Reads definitions one by one.

    Args:
        deferred: The names of tools that the prompt does not describe by itself.

    Attributes:
        listed: The tools, by the name that the model reads.
        hosted: The types and names of hosted tools.
        refused: The errors of other tools, by the client's name.
    """

    def __init__(self, deferred: set[str]) -> None:
        self._deferred = deferred
        self.listed: dict[str, ListedTool] = {}
        self.hosted: set[str] = set()
        self.refused: dict[str, InvalidToolError] = {}

    def add(
        self,
        definition: Mapping[str, Any],
        index: int | None,
        namespace: str | None = None,
        *,
        is_described: bool = True,
        about: str = "",
    ) -> None:
        """Add the tool of a definition, or the tools of a namespace."""
        kind, name = definition.get("type"), _name(definition)
        if kind == "namespace":
            # The first member describes the namespace.
            about = str(definition.get("description") or "")
            for member in _members(definition):
                self.add(member, index, str(name), is_described=is_described, about=about)
                about = ""
        elif is_hosted(definition):
            self.hosted |= {str(kind), str(name or kind)}
        else:
            try:
                shown = self._shown_name(name, namespace)
                tool = _tool(definition, shown, f"{namespace}: {about}\n\n" if about else "")
                if tool.name in self.listed:
                    raise InvalidToolError("another tool has the same name", tool=tool.name)
            except InvalidToolError as error:
                if index is None and name is not None and self._has(name, namespace):
                    # A message repeats a tool of the list.
                    return
                at = error if index is None else error.at(index)
                self.refused[label(name or f"tools[{index}]", namespace)] = at
                return
            if not is_described or tool.name in self._deferred:
                tool = replace(tool, is_described=False)
            self.listed[tool.name] = ListedTool(tool, name or tool.name, namespace)

    def _shown_name(self, name: str | None, namespace: str | None) -> str | None:
        """Return a name that no tool of another namespace has."""
        if name is None or namespace is None:
            return name
        shown, number = shown_name(name, namespace), 1
        while (other := self.listed.get(shown)) is not None:
            if (other.name, other.namespace) == (name, namespace):
                break
            number += 1
            shown = shown_name(f"{name}_{number}", namespace)
        return shown

    def _has(self, name: str, namespace: str | None) -> bool:
        return any(
            (listed.name, listed.namespace) == (name, namespace) for listed in self.listed.values()
        )


def _tool(definition: Mapping[str, Any], name: str | None, about: str) -> Tool:
    """Return the tool of a definition, without members that no model reads.

    Raises:
        InvalidToolError: The definition is malformed, or has an unknown member that could constrain
            the calls.
    """
    given = _flat(definition)
    members = {key: value for key, value in given.items() if key in _MEMBERS}
    if given.get("type") == "object":
        # The schema's keywords stand beside the name.
        schema, repairs = repaired_schema({key: given[key] for key in given if key not in _NAMES})
        members = {**{key: given[key] for key in given if key in _NAMES}, **schema}
    else:
        unknown = (key for key, value in _unknown(given) if value not in (False, "", [], {}))
        if (key := next(filter(is_constraint, unknown), None)) is not None:
            raise InvalidToolError(f"a tool has no {short_repr(key)}", tool=name)
        repairs = []
        for key in _SCHEMAS:
            if isinstance(members.get(key), Mapping):
                members[key], repairs = repaired_schema(members[key])
            elif key in members and not members[key]:
                # PHP writes an empty list for an empty object.
                members[key] = {}
    if repairs:
        fields = {"tool": name, "pointers": repairs[:8]}
        _logger.info("repaired the schema of a tool", extra={"fields": fields})
    if name is not None:
        members["name"] = name
    if about:
        members["description"] = about + str(members.get("description") or "")
    return resolve_tool(members)


def _flat(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's definition as one object, without the inner object of chat completions."""
    kind = definition.get("type")
    inner = definition.get(kind) if isinstance(kind, str) else None
    if isinstance(inner, Mapping):
        outer = {key: value for key, value in definition.items() if key != kind}
        return {**outer, **{key: value for key, value in inner.items() if value is not None}}
    return dict(definition)


def _unknown(members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members that are not known, and their values."""
    for key, value in members.items():
        if value is not None and key not in _MEMBERS and key not in _NO_EFFECT:
            yield key, value


def unread_members(tool: Any, field: str) -> Iterator[str]:
    """Yield the field of a hosted tool, or the fields that no model reads."""
    if not isinstance(tool, Mapping):
        return
    if tool.get("type") == "namespace":
        for index, member in enumerate(_members(tool)):
            yield from unread_members(member, f"{field}.tools[{index}]")
    elif is_hosted(tool):
        yield field
    elif (members := _flat(tool)).get("type") != "object":
        for key, _ in _unknown(members):
            yield f"{field}.{key}"


def is_hosted(definition: Any) -> bool:
    """Return whether a definition describes a hosted tool, which runs on its vendor's servers."""
    if not isinstance(definition, Mapping):
        return False
    kind = definition.get("type")
    has_schema = any(isinstance(definition.get(key), Mapping) for key in _SCHEMAS[1:])
    return isinstance(kind, str) and kind not in (*CALLABLE, "namespace") and not has_schema


def _members(namespace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    members = namespace.get("tools")
    return (
        [member for member in members if isinstance(member, Mapping)]
        if isinstance(members, list)
        else []
    )


def _name(definition: Mapping[str, Any]) -> str | None:
    name = _flat(definition).get("name")
    return name if isinstance(name, str) else None


def label(name: str, namespace: str | None) -> str:
    """Return the client's name of a tool with its namespace."""
    return name if namespace is None else f"{namespace}.{name}"
