"""Convert a prompt of any form to interactions, and these to the messages of chat templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import PromptError
from ..text_checks import listed
from .content import ToolCall
from .interaction import Interaction, Role, openai_tool_call, read_interaction
from .raw_prompt import RawPrompt

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI message, or an interaction as ``Interaction.to_dict`` writes it."""

Prompt: TypeAlias = str | Interaction | Sequence[Message | Interaction] | RawPrompt
"""A message of the user, a conversation, or a prompt that bypasses the chat template."""


def to_interactions(prompt: Prompt) -> list[Interaction]:
    """Return ``prompt`` as interactions.

    A tool call without an id gets one that depends on its position only: equal prompts must become
    equal tokens, so that the prompt cache finds them.

    Raises:
        PromptError: The prompt is malformed; its message is named by its index.
    """
    if isinstance(prompt, str):
        return [Interaction(Role.USER, prompt)]
    if isinstance(prompt, Interaction):
        return [prompt]
    if isinstance(prompt, RawPrompt):
        raise PromptError("a raw prompt has no messages")
    items = listed(prompt)
    if items is None:
        raise PromptError(
            f"a prompt of type {type(prompt).__name__} is not known",
            hint="Give a string, a list of messages, or a list of interactions.",
        )
    return [_interaction(item, index) for index, item in enumerate(items)]


def template_messages(prompt: Prompt) -> list[dict[str, Any]]:
    """Return ``prompt`` as messages for a chat template.

    ``content`` is a string. The arguments of tool calls are objects. The result of a tool has
    ``tool_call_id`` and ``name`` if the conversation determines them: clients write one of the two.
    Results are in the order of their calls, since some templates write no ids.

    Raises:
        PromptError: The prompt is malformed, or has content that no language model reads.
    """
    messages = []
    for index, interaction in enumerate(to_interactions(prompt)):
        try:
            messages.append(_template_message(interaction))
        except PromptError as error:
            raise _located(error, index) from error
    _link_results(messages)
    return _in_order_of_calls(messages)


def _interaction(item: Message | Interaction, index: int) -> Interaction:
    if isinstance(item, Interaction):
        return item
    try:
        return read_interaction(item, lambda call: f"call{index % 1000:03}{call % 100:02}")
    except PromptError as error:
        raise _located(error, index) from error


def _located(error: PromptError, index: int) -> PromptError:
    return PromptError(f"message {index}: {error.what}", hint=error.hint)


def _template_message(interaction: Interaction) -> dict[str, Any]:
    texts = (part.to_text() for part in interaction.content if not isinstance(part, ToolCall))
    calls = [openai_tool_call(call, call.to_dict()["arguments"]) for call in interaction.tool_calls]
    more = {
        # Some templates test whether the key exists, not whether there is a call.
        "tool_calls": calls or None,
        "reasoning_content": interaction.reasoning,
        "tool_call_id": interaction.tool_call_id,
        "name": interaction.name,
    }
    message = {"role": interaction.role.value, "content": "".join(texts)}
    return message | {key: value for key, value in more.items() if value is not None}


def _link_results(messages: list[dict[str, Any]]) -> None:
    """Complete the ids and names of results. A result without either is the first call's."""
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
    """Sort each run of results by the calls before it."""
    ordered: list[dict[str, Any]] = []
    places: dict[str, int] = {}
    start = 0
    for message in [*messages, {"role": ""}]:
        if message["role"] != "tool":
            # Sorting is stable: results without a call stay behind the others.
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
