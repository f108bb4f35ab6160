"""Convert a prompt of any form to interactions, and these to the messages of chat templates."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeAlias

from ..checks.texts import as_list
from ..errors import MediaError, PromptError
from .content import AudioContent, Content, ImageContent, ToolCall, VideoContent
from .interaction import Interaction, Role, function_call, read_interaction
from .raw_prompt import RawPrompt
from .validated import json_copy

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI message, or an interaction as ``Interaction.to_dict`` writes it."""

Prompt: TypeAlias = str | Interaction | Sequence[Message | Interaction] | RawPrompt
"""A message of the user, a conversation, or a prompt that bypasses the chat template."""

MediaInHistory: TypeAlias = Literal["placeholder", "error"]
_PieceKind: TypeAlias = Literal["text", "medium", "placeholder"]

# Letters and digits are not escaped by templates, JSON encoders and tool notations. The number is
# secret, and texts that contain it are refused, so no text is taken for a marker.
_NONCE = f"medium{secrets.token_hex(16)}"
_MARKER = re.compile(f"{_NONCE}n([0-9]+)n")

_HINTS = {
    "image": "Load a model that reads images, such as "
    "'mlx-community/Qwen2.5-VL-3B-Instruct-4bit', or describe the image in words.",
    "audio": "Load a model that reads audio, or transcribe the recording first.",
    "video": "No model reads videos here. Give single frames as images.",
}


def media_marker(number: int) -> str:
    """Return the marker of the medium with a number. Markers differ between processes."""
    return f"{_NONCE}n{number}n"


def split_at_markers(text: str) -> list[str | int]:
    """Split a rendered text at its markers.

    Returns:
        The texts between markers, and the number of each marker, in order. No text is empty.
    """
    # The pattern has a group, so every second item is a match of the group.
    pieces = _MARKER.split(text)
    split = [int(piece) if index % 2 else piece for index, piece in enumerate(pieces)]
    return [piece for piece in split if piece != ""]


def check_no_marker(text: str) -> None:
    """Raise ``PromptError`` if a text of the prompt could be taken for a marker."""
    if _NONCE in text:
        raise PromptError("a text of the prompt has a marker of this process")


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
    items = as_list(prompt)
    if items is None:
        raise PromptError(
            f"a prompt of type {type(prompt).__name__} is not known",
            hint="Give a string, a list of messages, or a list of interactions.",
        )
    return [_interaction(item, index) for index, item in enumerate(items)]


@dataclass(frozen=True, slots=True)
class TemplateMessages:
    """Messages for a chat template, and the media in them.

    Attributes:
        messages: The messages. In their ``content``, a string, ``media_marker(i)`` stands for
            ``media[i]``.
        media: The images and recordings, in order of their markers.
        locations: The location of each medium in the prompt, such as ``"messages[3].content[1]"``.
    """

    messages: list[dict[str, Any]]
    media: list[ImageContent | AudioContent] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)

    @property
    def media_kinds(self) -> list[str]:
        """The kinds of the media: ``"image"`` or ``"audio"``."""
        return [medium.kind for medium in self.media]


def template_messages(
    prompt: Prompt,
    reads: Collection[str] = (),
    media_in_history: MediaInHistory = "placeholder",
    part_separator: str = "\n",
) -> TemplateMessages:
    """Return ``prompt`` as messages for a chat template.

    ``content`` is a string. The arguments of tool calls are objects. The result of a tool has
    ``tool_call_id`` and ``name`` if the conversation determines them: clients write one of the two.
    Results are in the order of their calls, since some templates write no ids.

    Args:
        prompt: The prompt.
        reads: The kinds of media that the model reads: ``"image"``, ``"audio"``.
        media_in_history: Whether other media before the last answer become text such as
            ``[1 image]``, or an error.
        part_separator: Written between two parts of text, unless there is whitespace. The parts of
            an answer are concatenated.

    Raises:
        MediaError: The newest turn has a medium that the model does not read.
        PromptError: The prompt is malformed, or has content that no language model reads.
    """
    interactions = to_interactions(prompt)
    messages = [_template_message(item, index) for index, item in enumerate(interactions)]
    written = TemplateMessages(_linked(messages))
    writer = _ContentWriter(written, reads, media_in_history, _history_end(interactions))
    for message in written.messages:
        check_no_marker(repr(message | {"content": ""}))
        # The model wrote the parts of an answer as one text.
        separator = "" if message["role"] == Role.ASSISTANT else part_separator
        message["content"] = writer.write(message["content"], separator)
    return written


def _history_end(interactions: Sequence[Interaction]) -> int:
    """Return the index of the last answer; an answer that is to be continued is not the last."""
    answers = (i for i, item in enumerate(interactions[:-1]) if item.role is Role.ASSISTANT)
    return max(answers, default=0)


@dataclass(frozen=True, slots=True)
class _MessageContent:
    """The content of a message before it is written: its index in the prompt, and its parts."""

    index: int
    parts: Sequence[Content]


@dataclass(frozen=True, slots=True)
class _ContentWriter:
    """Writes the content of messages, and collects the media that the model reads.

    Attributes:
        written: Receives the media.
        reads: The kinds of media that the model reads.
        media_in_history: What happens to others before ``history_end``.
        history_end: The index of the first message that is not history.
    """

    written: TemplateMessages
    reads: Collection[str]
    media_in_history: MediaInHistory
    history_end: int

    def write(self, content: _MessageContent, part_separator: str) -> str:
        """Return the text of a message; ``part_separator`` stands between its parts of text."""
        text = ""
        before: _PieceKind | None = None
        pieces: list[tuple[_PieceKind, str]]
        numbered = list(enumerate(content.parts))
        for unread, run in groupby(numbered, key=lambda item: self._unread_kind(item[1])):
            items = list(run)
            if unread is None:
                pieces = [(_kind(part), self._text(part, content.index, at)) for at, part in items]
            else:
                self._check_history(unread, content.index, items[0][0])
                pieces = [("placeholder", _placeholder(unread, len(items)))]
            for kind, piece in pieces:
                if piece:
                    text += _separator(text, piece, {before, kind}, part_separator) + piece
                    before = kind
        return text

    def _unread_kind(self, part: Content) -> str | None:
        if not isinstance(part, ImageContent | AudioContent | VideoContent):
            return None
        return None if part.kind in self.reads else part.kind

    def _text(self, part: Content, message: int, at: int) -> str:
        if isinstance(part, ImageContent | AudioContent):
            self.written.media.append(part)
            self.written.locations.append(_location(message, at))
            return media_marker(len(self.written.media) - 1)
        assert not isinstance(part, ToolCall)
        try:
            text = part.to_text()
            check_no_marker(text)
        except PromptError as error:
            raise error.at(_location(message, at)) from error
        return text

    def _check_history(self, kind: str, message: int, at: int) -> None:
        """Raise for a medium that the model does not read, unless a placeholder replaces it."""
        is_history = message < self.history_end
        if is_history and self.media_in_history == "placeholder":
            return
        hint = _HINTS[kind]
        if is_history:
            hint = f"With media_in_history='placeholder', '{_placeholder(kind, 1)}' replaces it."
        raise MediaError(
            f"the model does not read {kind} content", where=_location(message, at), hint=hint
        )


def _kind(part: Content) -> _PieceKind:
    return "medium" if isinstance(part, ImageContent | AudioContent) else "text"


def _separator(
    before: str, after: str, kinds: Collection[_PieceKind | None], part_separator: str
) -> str:
    """Return the text between two pieces of content of these kinds."""
    if not before or before[-1].isspace() or after[0].isspace():
        return ""
    # A line feed separates a placeholder from anything else. Nothing separates text from media.
    return "\n" if "placeholder" in kinds else "" if "medium" in kinds else part_separator


def _placeholder(kind: str, count: int) -> str:
    name = "audio recording" if kind == "audio" else kind
    return f"[{count} {name}{'' if count == 1 else 's'}]"


def _location(message: int, part: int) -> str:
    return f"messages[{message}].content[{part}]"


def _interaction(item: Message | Interaction, index: int) -> Interaction:
    if isinstance(item, Interaction):
        return item
    try:
        return read_interaction(item, lambda call: f"call{index % 1000:03}{call % 100:02}")
    except PromptError as error:
        raise error.at(f"messages[{index}]") from error


def _template_message(interaction: Interaction, index: int) -> dict[str, Any]:
    """Return a message whose ``content`` is to be written, once the order of messages is known."""
    parts = [part for part in interaction.content if not isinstance(part, ToolCall)]
    calls = [function_call(call, json_copy(call.arguments)) for call in interaction.tool_calls]
    more = {
        # Some templates test whether the key exists, not whether there is a call.
        "tool_calls": calls or None,
        "reasoning_content": interaction.reasoning,
        "tool_call_id": interaction.tool_call_id,
        "name": interaction.name,
    }
    message = {"role": interaction.role.value, "content": _MessageContent(index, parts)}
    return message | {key: value for key, value in more.items() if value is not None}


def _linked(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Complete the ids and names of results, and sort each run of them by the calls before it.

    A result without id and name is the first call's.
    """
    ordered: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for is_result, run in groupby(messages, key=lambda message: message["role"] == "tool"):
        items = list(run)
        if is_result:
            pending = list(calls)
            for message in items:
                call = next((call for call in pending if _answers(message, call)), None)
                if call is not None:
                    pending.remove(call)
                    message.setdefault("tool_call_id", call["id"])
                    message.setdefault("name", call["function"]["name"])
            # Sorting is stable: results without a call stay behind the others.
            places = {call["id"]: place for place, call in enumerate(calls)}
            items.sort(key=lambda result: places.get(result.get("tool_call_id"), len(places)))
        else:
            calls = items[-1].get("tool_calls", [])
        ordered += items
    return ordered


def _answers(message: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    if message.get("tool_call_id") is not None:
        return bool(message["tool_call_id"] == call["id"])
    return message.get("name") in (None, call["function"]["name"])
