"""A prompt of any form as plain message dicts, such as chat templates take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import PromptError
from ..text_checks import listed
from .content import ToolCall, check_text
from .interaction import Interaction, Role
from .openai_messages import (
    checked_message,
    from_openai_message,
    part_from_openai,
    read_tool_call,
)
from .raw_prompt import RawPrompt

__all__ = ["Message", "Prompt", "to_interactions", "to_messages"]

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI-style chat message: ``role``, ``content``, and what else OpenAI's messages have; or an
interaction as ``Interaction.to_dict`` writes it."""

Prompt: TypeAlias = str | Interaction | Sequence[Message | Interaction] | RawPrompt
"""One user message, or a conversation; or what is neither, and goes to the model as it is."""

_NAMES_OF_THE_ASSISTANT = {"agent": "assistant"}


def to_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """``prompt`` as new message dicts.

    Fields that are ``None`` are left out. ``content`` is a string. ``tool_calls`` all have an
    ``id``, ``type`` and ``function``, whose
    ``arguments`` are objects, as templates want them. A tool's message says which call it answers
    (``tool_call_id``) and of which tool (``name``), as far as the conversation tells: clients
    write one of the two. Raises ``PromptError``.
    """
    if isinstance(prompt, str):
        check_text("the prompt", prompt)
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, Interaction):
        return [prompt.to_message()]
    messages = [_message(item, index) for index, item in enumerate(_items(prompt))]
    _link_results(messages)
    return _in_order_of_calls(messages)


def to_interactions(prompt: Prompt) -> list[Interaction]:
    """``prompt`` as interactions, which are copied from messages and dicts of interactions.

    Messages may have only what OpenAI's have. Raises ``PromptError``.
    """
    if isinstance(prompt, str):
        return [Interaction(Role.USER, prompt)]
    if isinstance(prompt, Interaction):
        return [prompt]
    return [_interaction(item, index) for index, item in enumerate(_items(prompt))]


def _items(
    prompt: Sequence[Message | Interaction] | RawPrompt,
) -> Iterable[Message | Interaction]:
    if isinstance(prompt, RawPrompt):
        raise PromptError("a raw prompt is no conversation")
    items = listed(prompt)
    if items is None:
        raise PromptError(
            f"a prompt of type {type(prompt).__name__} is not known",
            hint="Give a string, a list of messages, or a list of interactions.",
        )
    return items


def _interaction(item: Message | Interaction, index: int) -> Interaction:
    if isinstance(item, Interaction):
        return item
    try:
        if isinstance(item, Mapping) and "created_at" in item:
            return Interaction.from_dict(item)
        return from_openai_message(item)
    except PromptError as error:
        raise PromptError(f"message {index}: {error.what}", hint=error.hint) from error


def _message(item: Message | Interaction, index: int) -> dict[str, Any]:
    try:
        if isinstance(item, Interaction):
            return item.to_message()
        if isinstance(item, Mapping) and "created_at" in item:
            return Interaction.from_dict(item).to_message()
        given = checked_message(item)
        role = given.pop("role")
        reasoning = given.pop("reasoning", None)
        message = {
            "role": _NAMES_OF_THE_ASSISTANT.get(role, role),
            "content": _content(given.pop("content", None)) + given.pop("refusal", ""),
            **given,
        }
        if reasoning is not None:
            message.setdefault("reasoning_content", reasoning)
        # Some templates ask whether the key is there, not whether there is a call.
        calls = message.pop("tool_calls", ())
        if calls:
            message["tool_calls"] = [
                _call(call, f"call{index % 1000:03}{place % 100:02}")
                for place, call in enumerate(calls)
            ]
        return message
    except PromptError as error:
        raise PromptError(f"message {index}: {error.what}", hint=error.hint) from error


def _content(content: Any) -> str:
    """A string, or a list of parts, of which a language model reads those that are text."""
    if content is None:
        return ""
    if isinstance(content, str):
        check_text("the content of a message", content)
        return content
    if isinstance(content, list | tuple):
        return "".join(_part_text(part) for part in content)
    raise PromptError(f"content of type {type(content).__name__} is not known")


def _part_text(part: Any) -> str:
    read = part_from_openai(part)
    if isinstance(read, ToolCall):
        raise PromptError("tool calls of a message are in its 'tool_calls', not in its content")
    return read.to_text()


def _call(call: Any, id_if_none: str) -> dict[str, Any]:
    id, name, arguments = read_tool_call(call)
    return {
        "id": id or id_if_none,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _link_results(messages: list[dict[str, Any]]) -> None:
    """Fill in what the tools' messages leave out: the first call without a result is meant."""
    pending: list[dict[str, Any]] = []
    for message in messages:
        if message.get("tool_calls"):
            pending = list(message["tool_calls"])
        if message["role"] != "tool":
            continue
        call = next((call for call in pending if _answers(message, call)), None)
        if call is not None:
            pending.remove(call)
            message.setdefault("tool_call_id", call["id"])
            message.setdefault("name", call["function"]["name"])


def _in_order_of_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results in the order of their calls: some templates show no identifiers."""
    ordered: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    start = 0
    for message in [*messages, {"role": ""}]:
        if message["role"] != "tool":
            # Sorting is stable: what answers no call stays behind those that do.
            ordered[start:] = sorted(
                ordered[start:],
                key=lambda result: places.get(str(result.get("tool_call_id")), len(places)),
            )
            calls = message.get("tool_calls", ())
            places = {call["id"]: place for place, call in enumerate(calls)}
            start = len(ordered) + 1
        ordered.append(message)
    return ordered[:-1]


def _answers(message: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    if message.get("tool_call_id") is not None:
        return bool(message["tool_call_id"] == call["id"])
    return message.get("name") in (None, call["function"]["name"])
