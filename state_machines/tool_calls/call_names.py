"""Names of tools and arguments as a tool format writes them.

A format such as ``lfm2`` writes calls as Python, which has no name ``get-weather``. The model then
reads and writes another name, in the description of the tool, in calls and in the history of a
conversation. Callers see the tool's own name. Properties are renamed in the same way, see
:mod:`state_machines.argument_notations.property_names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from state_machines.argument_notations.property_names import PropertyNames, alias_of
from state_machines.tool_calls.call import ToolSignature

if TYPE_CHECKING:
    from state_machines.tool_calls.tool_format import ToolFormat


class NamedTool(Protocol):
    """A tool with the JSON Schema of its arguments."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def parameters(self) -> Mapping[str, Any] | bool:
        """The JSON Schema."""


class CallNames:
    """The written names of the tools of a request, and of their properties.

    A name that the format can write stays as it is. Other names become similar ones that no tool
    has. The mapping is one to one.

    Args:
        tool_format: The format of the calls.
        tools: The tools that the model reads of.
        written: Written names that are known, by the tool's name.
    """

    def __init__(
        self,
        tool_format: ToolFormat,
        tools: Iterable[NamedTool] = (),
        written: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._format = tool_format
        self._tools = {tool.name: tool for tool in tools}
        self._written = {name: written.get(name, name) for name in self._tools}
        taken = {*self._written, *self._written.values()}
        for name, known in self._written.items():
            if known == name and not tool_format.can_write_name(name):
                alias = self._alias(name, taken)
                taken.add(alias)
                self._written[name] = alias
        self._names = {written: name for name, written in self._written.items()}
        self._properties: dict[str, PropertyNames] = {}

    def _alias(self, name: str, taken: Iterable[str] = ()) -> str:
        can_write = self._format.can_write_name
        return alias_of(name, lambda each: each not in taken and can_write(each))

    def write(self, name: str) -> str:
        """Return how the name of a tool is written, also of a tool of an earlier turn."""
        if name in self._written:
            return self._written[name]
        return name if self._format.can_write_name(name) else self._alias(name, self._names)

    def read(self, written: str) -> str:
        """Return the name of the tool that a written name stands for."""
        return self._names.get(written, written)

    def signatures(self, tools: Iterable[ToolSignature]) -> list[ToolSignature]:
        """Return tools with their written names."""
        return [replace(tool, written_name=self.write(tool.name)) for tool in tools]

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the name and the arguments of a call as they are written."""
        written = self._of_tool(name, {"properties": arguments}).write_members(arguments)
        return self.write(name), written

    def definition(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``{"type": "function", "function": {…}}`` with the written names."""
        function = dict(definition["function"])
        properties = self._of_tool(function["name"], function.get("parameters", {}))
        if properties:
            function["parameters"] = properties.write_schema(function["parameters"])
        return {**definition, "function": {**function, "name": self.write(function["name"])}}

    def messages(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages of a conversation with the written names in calls and results."""
        return [self._message(message) for message in messages]

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        changed = dict(message)
        if changed.get("tool_calls"):
            changed["tool_calls"] = [self._call(call) for call in changed["tool_calls"]]
        if changed.get("role") == "tool" and "name" in changed:
            changed["name"] = self.write(changed["name"])
        return changed

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        if isinstance(arguments, Mapping):
            name, arguments = self.call(name, arguments)
        else:
            name = self.write(name)
        return {**call, "function": {**function, "name": name, "arguments": arguments}}

    def _of_tool(self, name: str, schema: Mapping[str, Any]) -> PropertyNames:
        """Return the names of a tool's properties; a schema's properties if the tool is unknown."""
        notation, tool = self._format.notation, self._tools.get(name)
        if tool is None:
            return notation.property_names(schema)
        if name not in self._properties:
            self._properties[name] = notation.property_names(tool.parameters)
        return self._properties[name]
