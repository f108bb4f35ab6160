"""The tools of a request, and the tool choice: whether a model may, must or must not call them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from state_machines.tool_calls import ToolSignature

from ..checks import as_list, short_repr, suggestion
from ..conversation.content import ToolCall
from ..conversation.interaction import Interaction, Role
from ..errors import InvalidOptionError, InvalidToolError
from .tool import Tool

ToolChoiceMode: TypeAlias = Literal["auto", "required", "none", "named"]

EXACT_JSON = json.JSONDecoder(parse_float=Decimal)
"""A float would be another number than one with more digits, which could be repeated."""


def resolve_tools(source: Iterable[Any] | None) -> tuple[Tool, ...]:
    """Return the tools of a mixed list, in order; none for ``None``.

    Raises:
        InvalidToolError: An item is no tool, or its name occurs twice; ``index`` is its
        position.
    """
    if source is None:
        return ()
    items = as_list(source)
    if items is None:
        raise InvalidToolError(
            f"tools should be a list, not {type(source).__name__}",
            hint="Put a single tool in brackets.",
        )
    # Deferred: a request without tools reads no types.
    from .definitions import resolve_tool  # noqa: PLC0415

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


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """The tool choice of a request.

    Attributes:
        mode: ``"auto"``: the model answers or calls tools. ``"required"``: it calls tools.
            ``"none"``: it answers. ``"named"``: it calls the only tool in ``tools``.
        tools: The tools that may be called.
        excluded: Arguments that no call has, by the tool's name.
    """

    mode: ToolChoiceMode
    tools: tuple[Tool, ...]
    excluded: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def signatures(self) -> list[ToolSignature]:
        """The tools' names, parameters and excluded arguments, for the grammar of calls."""
        return [
            replace(tool.signature, excluding=tuple(self.excluded.get(tool.name, ())))
            for tool in self.tools
        ]

    def excluding(self, arguments: Mapping[str, Sequence[Any]]) -> ToolChoice:
        """Return the same choice without calls that have some arguments, by the tool's name."""
        return replace(self, excluded=arguments)

    @property
    def may_answer(self) -> bool:
        """Whether an answer without a call is allowed."""
        return self.mode in ("auto", "none")

    @property
    def may_call(self) -> bool:
        """Whether a call is allowed."""
        return bool(self.tools)

    @classmethod
    def of(cls, choice: Any, tools: Sequence[Tool]) -> ToolChoice:
        """Return the tool choice that ``choice`` means for ``tools``.

        Args:
            choice: ``"auto"`` (also ``None``), ``"required"``, ``"none"``, the name of a tool,
                ``{"type": "function", "function": {"name": …}}`` or ``{"type": "function", "name":
                …}``. A tool named like one of the three words needs a dict. OpenAI's ``{"type":
                "allowed_tools", "allowed_tools": {"mode": "auto", "tools": […]}}``, also without
                the inner object, permits some of the tools; the other mode is ``"required"``.
                Custom tools have the type ``"custom"``.
            tools: The tools.

        Raises:
            InvalidOptionError: It is none of these; the option is ``tool_choice``.
        """
        match choice:
            case ToolChoice():
                return cls(choice.mode, tuple(_named(tool.name, tools) for tool in choice.tools))
            case None:
                return cls("auto", tuple(tools))
            case str("none"):
                return cls("none", ())
            case str("required") if not tools:
                raise _invalid("'required' is for requests with tools, and there are none")
            case str("auto" | "required"):
                return cls(choice, tuple(tools))
            case str():
                return cls("named", (_named(choice, tools),))
            case {"type": str("allowed_tools"), "allowed_tools": allowed, **rest}:
                _refuse_extra(rest)
                return cls._allowed(allowed, tools)
            case {"type": str("allowed_tools"), **members}:
                return cls._allowed(members, tools)
            case Mapping():
                return cls("named", (_referenced(choice, tools),))
        raise _invalid(
            f"a value of type {type(choice).__name__} is not known",
            "Known are 'auto', 'required', 'none', and the name of a tool.",
        )

    @classmethod
    def _allowed(cls, choice: Any, tools: Sequence[Tool]) -> ToolChoice:
        match choice:
            case {"mode": str("auto" | "required") as mode, "tools": [_, *_] as allowed, **rest}:
                _refuse_extra(rest)
                found = {
                    tool.name: tool for tool in (_referenced(entry, tools) for entry in allowed)
                }
                return cls("auto" if mode == "auto" else "required", tuple(found.values()))
        raise _invalid(
            "allowed_tools is malformed",
            'It is {"mode": "auto" or "required", "tools": [{"type": "function", …}]}.',
        )


def answered_arguments(conversation: Sequence[Interaction]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the arguments of the calls that have a result, by the tool's name.

    Only calls since the last message of the user count: a new question may need the same call.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    pending: list[ToolCall] = []
    for turn in conversation:
        if turn.role is Role.USER:
            found, pending = {}, []
        elif turn.role is Role.TOOL:
            call = next((call for call in pending if _answers(turn, call)), None)
            if call is None:
                continue
            pending.remove(call)
            # A call that was cut short was not run.
            if not (turn.metadata or {}).get("is_cut_short"):
                found.setdefault(call.name, []).append(exact_arguments(call))
        elif turn.tool_calls:
            pending = list(turn.tool_calls)
    return found


def _answers(result: Interaction, call: ToolCall) -> bool:
    """Whether a result belongs to a call. Clients write the id, the name, both or neither."""
    if result.tool_call_id is not None:
        return result.tool_call_id == call.id
    return result.name in (None, call.name)


def exact_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call; where they are JSON, with all digits of its numbers."""
    for brace in re.finditer("{", call.raw):
        # A decimal has a largest exponent, which a text may exceed.
        with suppress(ValueError, ArithmeticError, RecursionError):
            exact, end = EXACT_JSON.raw_decode(call.raw, brace.start())
            if json.loads(call.raw[brace.start() : end]) == call.arguments:
                found: Mapping[str, Any] = exact
                return found
    return call.arguments


def requires_call(choice: Any) -> bool:
    """Return whether a tool choice, in any form, permits no answer without a call."""
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        inner = choice.get("allowed_tools", choice)
        return not isinstance(inner, Mapping) or inner.get("mode") != "auto"
    return choice not in (None, "auto", "none")


def _named(name: str, tools: Sequence[Tool]) -> Tool:
    for tool in tools:
        if tool.name == name:
            return tool
    known = dict.fromkeys([*(tool.name for tool in tools), "auto", "required", "none"])
    hint = suggestion(name, known) if tools else "No tools were given."
    if tools and name == "any":
        # The name of Anthropic and LangChain.
        hint = "Did you mean 'required'?"
    raise _invalid(f"there is no tool {short_repr(name)}", hint)


def _referenced(choice: Any, tools: Sequence[Tool]) -> Tool:
    """Return the tool that an OpenAI-style dict names."""
    match choice:
        case {"type": str("function") as kind, "function": {"name": str(name), **more}, **rest} | {
            "type": str("custom") as kind,
            "custom": {"name": str(name), **more},
            **rest,
        }:
            _refuse_extra({**more, **rest})
        case {"type": str("function" | "custom") as kind, "name": str(name), **rest}:
            _refuse_extra(rest)
        case _:
            raise _invalid(
                f"{short_repr(choice)} is not known",
                'A tool is named by {"type": "function", "function": {"name": …}}.',
            )
    tool = _named(name, tools)
    actual = "function" if tool.input is None else "custom"
    if actual != kind:
        raise _invalid(f"{short_repr(name)} is a tool of type {actual!r}, not {kind!r}")
    return tool


def _refuse_extra(keys: Mapping[object, object]) -> None:
    if keys:
        raise _invalid(
            f"a tool choice has only the name of a tool, not {', '.join(map(short_repr, keys))}"
        )


def _invalid(what: str, hint: str = "") -> InvalidOptionError:
    return InvalidOptionError(f"tool_choice: {what}", option="tool_choice", hint=hint)
