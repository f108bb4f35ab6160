"""The tool choice: whether a model may, must or must not call tools."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..checks.texts import short_repr
from ..errors import InvalidOptionError
from .tool import Tool

ToolChoiceMode: TypeAlias = Literal["auto", "required", "none", "named"]


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request.

    Attributes:
        mode: ``"auto"``: the model answers or calls tools. ``"required"``: it calls tools.
            ``"none"``: it answers. ``"named"``: it calls the only tool in ``tools``.
        tools: The tools that may be called.
    """

    mode: ToolChoiceMode
    tools: tuple[Tool, ...]

    @property
    def may_answer(self) -> bool:
        """Whether an answer without a call is allowed."""
        return self.mode in ("auto", "none")

    @property
    def may_call(self) -> bool:
        """Whether a call is allowed."""
        return bool(self.tools)

    @classmethod
    def of(cls, given: Any, tools: Sequence[Tool]) -> ToolChoice:
        """Return the tool choice that ``given`` means for ``tools``.

        Args:
            given: ``"auto"`` (also ``None``), ``"required"``, ``"none"``, the name of a tool,
                ``{"type": "function", "function": {"name": …}}`` or ``{"type": "function", "name":
                …}``. A tool named like one of the three words needs a dict. OpenAI's ``{"type":
                "allowed_tools", "allowed_tools": {"mode": "auto", "tools": […]}}``, also without
                the inner object, permits some of the tools; the other mode is ``"required"``.
                Custom tools have the type ``"custom"``.
            tools: The tools.

        Raises:
            InvalidOptionError: It is none of these; the option is ``tool_choice``.
        """
        if isinstance(given, ToolChoice):
            return cls(given.mode, tuple(_named(tool.name, tools) for tool in given.tools))
        match given:
            case None:
                return cls("auto", tuple(tools))
            case str(name):
                return cls._of_name(name, tools)
            case {"type": "allowed_tools", "allowed_tools": Mapping() as allowed_tools, **rest}:
                _refuse_extra(rest)
                return cls._allowed(allowed_tools, tools)
            case {"type": "allowed_tools", **allowed}:
                return cls._allowed(allowed, tools)
            case Mapping() if (reference := _reference_in(given)) is not None:
                return cls("named", (_referenced(reference, tools),))
            case Mapping():
                raise _invalid(
                    f"{short_repr(given)} is not known",
                    'A tool is named by {"type": "function", "function": {"name": …}}.',
                )
        raise _invalid(
            f"a value of type {type(given).__name__} is not known",
            "Known are 'auto', 'required', 'none', and the name of a tool.",
        )

    @classmethod
    def _allowed(cls, given: Mapping[Any, Any], tools: Sequence[Tool]) -> ToolChoice:
        """Return the choice among some of the tools."""
        match given:
            case {"mode": "auto" | "required" as mode, "tools": [_, *_] as allowed, **rest}:
                _refuse_extra(rest)
                references = [_reference_in(one) for one in allowed]
                known = [one for one in references if one is not None]
                if len(known) == len(allowed):
                    found = tuple(_referenced(one, tools) for one in dict.fromkeys(known))
                    return cls("required" if mode == "required" else "auto", found)
        raise _invalid(
            "allowed_tools is malformed",
            'It is {"mode": "auto" or "required", "tools": [{"type": "function", …}]}.',
        )

    @classmethod
    def _of_name(cls, name: str, tools: Sequence[Tool]) -> ToolChoice:
        match name:
            case "auto":
                return cls("auto", tuple(tools))
            case "none":
                return cls("none", ())
            case "required":
                if not tools:
                    raise _invalid("'required' is for requests with tools, and there are none")
                return cls("required", tuple(tools))
        return cls("named", (_named(name, tools),))


def requires_call(given: Any) -> bool:
    """Return whether a tool choice, in any form, permits no answer without a call."""
    if isinstance(given, Mapping) and given.get("type") == "allowed_tools":
        inner = given.get("allowed_tools", given)
        return not isinstance(inner, Mapping) or inner.get("mode") != "auto"
    return given not in (None, "auto", "none")


def _named(name: str, tools: Sequence[Tool]) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    known = [tool.name for tool in tools]
    # Comparing a long text would take long.
    close = difflib.get_close_matches(
        name[:80], [*known, "auto", "required", "none"], n=1, cutoff=0.5
    )
    if close:
        hint = f"Did you mean {close[0]!r}?"
    else:
        hint = f"Known are {', '.join(map(repr, known))}." if known else "No tools were given."
    raise _invalid(f"there is no tool {short_repr(name)}", hint)


def _referenced(reference: tuple[str, str], tools: Sequence[Tool]) -> Tool:
    """Return the tool of a type and a name."""
    kind, name = reference
    tool = _named(name, tools)
    own = "function" if tool.input is None else "custom"
    if own != kind:
        raise _invalid(f"{short_repr(name)} is a tool of type {own!r}, not {kind!r}")
    return tool


def _reference_in(given: Any) -> tuple[str, str] | None:
    """Return type and name of an OpenAI-style reference to a tool; ``None`` if it is none."""
    match given:
        case {"type": "function", "function": {"name": str(name), **more}, **rest}:
            _refuse_extra({**more, **rest})
            return "function", name
        case {"type": "custom", "custom": {"name": str(name), **more}, **rest}:
            _refuse_extra({**more, **rest})
            return "custom", name
        case {"type": "function" | "custom" as kind, "name": str(name), **rest}:
            _refuse_extra(rest)
            return kind, name
    return None


def _refuse_extra(keys: Mapping[object, object]) -> None:
    if keys:
        raise _invalid(
            f"a tool choice has only the name of a tool, not {', '.join(map(short_repr, keys))}"
        )


def _invalid(what: str, hint: str = "") -> InvalidOptionError:
    return InvalidOptionError(f"tool_choice: {what}", option="tool_choice", hint=hint)
