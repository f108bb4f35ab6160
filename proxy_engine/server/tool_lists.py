"""The tools of a request, as the engine takes them, and as the client names them.

A client names a tool of a namespace by two names; the model reads a single one. Tools that cannot
be read are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ..checks import short_repr
from ..errors import InvalidToolError
from ..tools import Tool
from .errors import ApiError
from .tool_definitions import CALLABLE, ListedTool, ToolReader, label, shown_name


@dataclass(frozen=True, slots=True)
class ToolList:
    """The tools of a request, and its tool choice.

    Attributes:
        listed: The tools that the engine gets.
        given_choice: The tool choice, as OpenAI's interfaces have it.
        hosted: The types and names of hosted tools.
        refused: Why tools are left out, by the client's name.
    """

    listed: tuple[ListedTool, ...] = ()
    given_choice: Any = None
    hosted: frozenset[str] = frozenset()
    refused: Mapping[str, InvalidToolError] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        definitions: Sequence[Mapping[str, Any] | None] | None,
        choice: Any = None,
        *,
        added: Iterable[Mapping[str, Any]] = (),
        deferred: Iterable[str] = (),
    ) -> Self:
        """Read definitions of tools, as OpenAI's interfaces have them.

        Args:
            definitions: The definitions. ``None`` stands for one that is left out.
            choice: The tool choice.
            added: Definitions of tools that messages describe.
            deferred: The names of further tools that the prompt does not describe by itself.

        Raises:
            InvalidToolError: No tool can be read, or the choice names one that cannot.
        """
        reader = ToolReader({*deferred})
        for index, definition in enumerate(definitions or ()):
            if definition is not None:
                reader.add(definition, index)
        for definition in added:
            reader.add(definition, None, is_described=False)
        made = cls(tuple(reader.listed.values()), choice, frozenset(reader.hosted), reader.refused)
        made._check(next(iter(reader.refused.values()), None))
        return made

    @property
    def tools(self) -> list[Tool]:
        """The tools for the engine."""
        return [listed.tool for listed in self.listed]

    @property
    def choice(self) -> Any:
        """The tool choice for the engine, which checks its form.

        Raises:
            ApiError: It names hosted tools alone, or a name of several namespaces.
            InvalidToolError: It names a tool that is left out.
        """
        match self.given_choice:
            case str("auto" | "none" | "required") | None:
                return self.given_choice
            case str(name):
                return self._referenced({"type": "function", "name": name})["name"]
            case {"type": "allowed_tools", "allowed_tools": {"tools": list()} as inner, **rest}:
                # The engine refuses other members.
                return self._allowed(dict(inner) | {str(key): rest[key] for key in rest})
            case {"type": "allowed_tools", "tools": list()}:
                return self._allowed(self.given_choice)
            case {"type": "allowed_tools"}:
                return self.given_choice
            case Mapping():
                return self._referenced(self.given_choice)
        return self.given_choice

    def shown_name(self, name: str, namespace: str | None = None) -> str:
        """Return the name that the model reads for a client's tool, even if the tool is unknown."""
        found = self._named(name, namespace)
        if len(found) == 1:
            return found[0].tool.name
        return name if namespace is None else shown_name(name, namespace)

    def client_name(self, shown: str) -> tuple[str, str | None]:
        """Return the client's name of a tool, and its namespace."""
        for listed in self.listed:
            if listed.tool.name == shown:
                return listed.name, listed.namespace
        return shown, None

    def without(self, error: InvalidToolError) -> ToolList:
        """Return the list without the tools that the engine refuses.

        Raises:
            InvalidToolError: No tool is left, or the choice names one of them, or the error names
                no tool of the list.
        """
        errors = {refusal.tool: refusal for refusal in (error, *error.others)}
        left = tuple(listed for listed in self.listed if listed.tool.name not in errors)
        if len(left) == len(self.listed):
            raise error
        refused = {
            label(listed.name, listed.namespace): errors[listed.tool.name]
            for listed in self.listed
            if listed.tool.name in errors
        }
        shorter = replace(self, listed=left, refused={**self.refused, **refused})
        shorter._check(error)
        return shorter

    def _check(self, error: InvalidToolError | None) -> None:
        if error is not None and not self.listed:
            raise error
        # Raises for a tool that is left out.
        _ = self.choice

    def _named(self, name: str, namespace: str | None) -> list[ListedTool]:
        found = [listed for listed in self.listed if listed.name == name]
        exact = [listed for listed in found if listed.namespace == namespace]
        # Some clients write no namespace.
        return exact or (found if namespace is None else [])

    def _referenced(self, reference: Mapping[str, Any]) -> Any:
        """Return a reference to a tool with the name that the model reads."""
        kind = reference.get("type")
        members = reference.get(kind) if isinstance(kind, str) else None
        name = (members if isinstance(members, Mapping) else reference).get("name")
        if isinstance(kind, str) and kind not in ("function", "custom"):
            raise self._hosted_error(kind)
        if not isinstance(name, str):
            return reference
        namespace = reference.get("namespace")
        found = self._named(name, namespace)
        named = label(name, namespace if isinstance(namespace, str) else None)
        if len(found) > 1:
            spaces = ", ".join(repr(listed.namespace) for listed in found)
            raise _choice_error(f"{name!r} is a tool of {spaces}. Add the 'namespace'.")
        if not found and named in self.refused:
            raise self.refused[named]
        if not found and name in self.hosted:
            raise self._hosted_error(name)
        if found and found[0].namespace is not None:
            return {"type": kind, "name": found[0].tool.name}
        return reference

    def _allowed(self, allowed: Mapping[str, Any]) -> Any:
        """Return a choice of some tools. Tools that are left out are not among them."""
        references: list[Any] = []
        refused: InvalidToolError | None = None
        for entry in allowed["tools"]:
            kind = entry.get("type") if isinstance(entry, Mapping) else None
            if kind == "namespace":
                members = [
                    listed.tool for listed in self.listed if listed.namespace == entry.get("name")
                ]
                references += [_reference(tool) for tool in members]
            elif kind in CALLABLE or not isinstance(kind, str):
                try:
                    references.append(self._referenced(entry) if kind else entry)
                except InvalidToolError as error:
                    refused = error
        if references or not allowed["tools"]:
            return {"type": "allowed_tools", **allowed, "tools": references}
        if refused is not None:
            raise refused
        if allowed.get("mode") == "auto":
            return "none"
        raise self._hosted_error("allowed_tools")

    def _hosted_error(self, kind: str) -> ApiError:
        names = ", ".join(repr(label(listed.name, listed.namespace)) for listed in self.listed[:8])
        return _choice_error(
            f"the tool choice {short_repr(kind)} names no tool that this server can call: hosted "
            f"tools do not run here. {f'Known are {names}.' if names else 'No tools were given.'}"
        )


def _reference(tool: Tool) -> dict[str, Any]:
    return {"type": "function" if tool.input is None else "custom", "name": tool.name}


def _choice_error(message: str) -> ApiError:
    return ApiError(400, message, code="invalid_value", param="tool_choice")
