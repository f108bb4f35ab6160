"""Convert a prompt of any form to interactions, and these to the messages of chat templates."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from numbers import Integral
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from state_machines.errors import has_surrogate

from ..checks import as_list, short_repr
from ..errors import MediaError, PromptError
from .content import AudioContent, Content, ImageContent, ToolCall
from .interaction import Interaction, Role, function_call, read_interaction
from .parsing import json_copy, present

if TYPE_CHECKING:
    from mlx_lm.tokenizer_utils import TokenizerWrapper


@dataclass(frozen=True, slots=True)
class RawPrompt:
    """Text or token ids that the model continues.

    Attributes:
        content: Text, which the tokenizer encodes with its begin token unless it begins with that;
            or token ids.
    """

    content: str | Sequence[int] | npt.NDArray[np.integer[Any]]

    def token_ids(
        self,
        tokenizer: TokenizerWrapper,
        vocabulary_size: int,
        encode: Callable[..., Iterable[int]] | None = None,
    ) -> list[int]:
        """Return the token ids. The text may spell control tokens.

        Args:
            tokenizer: The tokenizer.
            vocabulary_size: Ids are below it.
            encode: Encodes the text in place of ``tokenizer.encode``.

        Raises:
            PromptError: The content is empty, or an id is outside the vocabulary.
        """
        content: object = self.content
        if isinstance(content, str):
            if has_surrogate(content):
                raise PromptError("the prompt has a lone surrogate, which UTF-8 cannot encode")
            begin = str(getattr(tokenizer, "bos_token", None) or "")
            # As in `mlx_lm.stream_generate`: a rendered chat template has the begin token already.
            has_begin = bool(begin) and content.startswith(begin)
            found = (encode or tokenizer.encode)(content, add_special_tokens=not has_begin)
            ids = list(map(int, found))
        else:
            items = as_list(content)
            if items is None:
                raise PromptError(
                    f"a raw prompt should be a string or token ids, not {short_repr(content)}"
                )
            ids = [_token_id(token_id, vocabulary_size) for token_id in items]
        if not ids:
            raise PromptError("the prompt is empty")
        return ids


Message: TypeAlias = Mapping[str, Any]
"""An OpenAI message, or an interaction as ``Interaction.to_dict`` writes it."""

Prompt: TypeAlias = str | Interaction | Sequence[Message | Interaction] | RawPrompt
"""A message of the user, a conversation, or a prompt that bypasses the chat template."""

MediaInHistory: TypeAlias = Literal["placeholder", "error"]

# Letters and digits are not escaped by templates, JSON encoders and tool notations. The number is
# secret, and texts that contain it are refused, so no text is taken for a marker.
_NONCE = f"medium{secrets.token_hex(16)}"
_MARKER = re.compile(f"{_NONCE}n([0-9]+)n")

_HINTS = {
    "image": "Load a model that reads images, such as "
    "'mlx-community/Qwen2.5-VL-3B-Instruct-4bit', or describe the image in words.",
    "audio": "Load a model that reads audio, or transcribe the recording first.",
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
            f"a prompt of type {None if prompt is None else type(prompt).__name__} is not known",
            hint="Put the message in a list."
            if isinstance(prompt, Mapping)
            else "Give a string, a list of messages, or a list of interactions.",
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
    # An answer that is to be continued is not the last one.
    answers = (i for i, turn in enumerate(interactions[:-1]) if turn.role is Role.ASSISTANT)
    history_end = max(answers, default=0)
    messages = [_template_message(turn, index) for index, turn in enumerate(interactions)]
    written = TemplateMessages(_linked(messages))
    for message in written.messages:
        check_no_marker(repr(message))
        index = message["content"]
        # The model wrote the parts of an answer as one text.
        separator = "" if message["role"] == Role.ASSISTANT else part_separator
        unread = media_in_history if index < history_end else None
        parts = interactions[index].content
        message["content"] = _content(parts, index, written, reads, unread, separator)
    return written


def _content(
    parts: Sequence[Content],
    index: int,
    written: TemplateMessages,
    reads: Collection[str],
    unread: MediaInHistory | None,
    part_separator: str,
) -> str:
    """Return the text of a message, and add its media to ``written``.

    Args:
        parts: The content of the message.
        index: The number of the message in the prompt.
        written: Receives the media.
        reads: The kinds of media that the model reads.
        unread: What becomes of other media; ``None`` in the newest turn.
        part_separator: Written between two parts of text.
    """
    pieces: list[tuple[str, str]] = []
    for kind, run in groupby(enumerate(parts), key=lambda item: _unread_kind(item[1], reads)):
        items = list(run)
        if kind is not None:
            if unread != "placeholder":
                where = f"messages[{index}].content[{items[0][0]}]"
                raise _unread_error(kind, where, is_history=unread is not None)
            pieces.append(("placeholder", _placeholder(kind, len(items))))
            continue
        for at, part in items:
            where = f"messages[{index}].content[{at}]"
            if isinstance(part, ImageContent | AudioContent):
                pieces.append(("medium", media_marker(len(written.media))))
                written.media.append(part)
                written.locations.append(where)
            elif not isinstance(part, ToolCall):
                # The template writes calls.
                try:
                    pieces.append(("text", part.to_text()))
                    check_no_marker(pieces[-1][1])
                except PromptError as error:
                    raise error.at(where) from error
    text, before = "", ""
    for piece_kind, piece in filter(itemgetter(1), pieces):
        if text and not (text[-1].isspace() or piece[0].isspace()):
            # A line feed separates a placeholder from anything else, nothing text from media.
            kinds = {before, piece_kind}
            text += "\n" if "placeholder" in kinds else "" if "medium" in kinds else part_separator
        text, before = text + piece, piece_kind
    return text


def _unread_kind(part: Content, reads: Collection[str]) -> str | None:
    """Return the kind of a medium that is not read; ``None`` for other parts."""
    is_medium = isinstance(part, ImageContent | AudioContent)
    return part.kind if is_medium and part.kind not in reads else None


def _unread_error(kind: str, where: str, *, is_history: bool) -> MediaError:
    hint = _HINTS[kind]
    if is_history:
        hint = f"With media_in_history='placeholder', '{_placeholder(kind, 1)}' replaces it."
    return MediaError(f"the model does not read {kind} content", where=where, hint=hint)


def _placeholder(kind: str, count: int) -> str:
    name = "audio recording" if kind == "audio" else kind
    return f"[{count} {name}{'' if count == 1 else 's'}]"


def _interaction(item: Message | Interaction, index: int) -> Interaction:
    if isinstance(item, Interaction):
        return item
    try:
        return read_interaction(item, lambda call: f"call{index % 1000:03}{call % 100:02}")
    except PromptError as error:
        raise error.at(f"messages[{index}]") from error


def _template_message(interaction: Interaction, index: int) -> dict[str, Any]:
    """Return a message whose ``content`` is written once the order of messages is known."""
    calls = [function_call(call, json_copy(call.arguments)) for call in interaction.tool_calls]
    more = {
        # Some templates test whether the key exists, not whether there is a call.
        "tool_calls": calls or None,
        "reasoning_content": interaction.reasoning,
        "tool_call_id": interaction.tool_call_id,
        "name": interaction.name,
    }
    return {"role": interaction.role.value, "content": index} | present(more)


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


def _token_id(value: object, vocabulary_size: int) -> int:
    # NumPy integers are accepted, Booleans are not.
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or not 0 <= int(value) < vocabulary_size:  # type: ignore[call-overload]
        raise PromptError(f"{short_repr(value)} is no token id below {vocabulary_size}")
    return int(value)  # type: ignore[call-overload,no-any-return]
