"""Items of the Responses interface as messages, and stored responses.

One assistant message corresponds to several items: reasoning, text, and one for each tool call.

Items of OpenAI's own tools have further types. A call with a ``call_id``, and its output, become a
call of a tool and its result. Definitions of tools become text. Other items say nothing that a
model can read, and are left out.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..checks import short_repr
from ..errors import PromptError
from .errors import ApiError
from .message_content import media_part, readable_arguments

_MAX_BYTES = 256 << 20

ConversationItem: TypeAlias = dict[str, Any]
"""An item of a conversation. Stored items are never changed."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The conversation up to the end of a response.

    Attributes:
        items: The items of the conversation.
        outputs: The number of items at the end that are the response's own output.
        size: The size of all items as JSON, in bytes.
    """

    items: tuple[ConversationItem, ...] = ()
    outputs: int = 0
    size: int = 0

    @classmethod
    def after(
        cls,
        earlier: StoredResponse | None,
        inputs: Sequence[ConversationItem],
        outputs: Sequence[ConversationItem],
    ) -> StoredResponse:
        """Return a response that continues the conversation of an earlier one.

        Args:
            earlier: The earlier response; ``None`` for a new conversation.
            inputs: The new items before its output.
            outputs: The items of its output.
        """
        before = earlier or cls()
        added = (*inputs, *outputs)
        size = before.size + sum(len(to_json(item)) for item in added)
        return cls((*before.items, *added), len(outputs), size)

    @property
    def own_items(self) -> tuple[ConversationItem, ...]:
        """The items of its output."""
        return self.items[len(self.items) - self.outputs :]


class ResponseStore:
    """The latest ``capacity`` responses, up to 256 MiB. Thread-safe.

    The oldest responses are dropped first. Each counts with its whole conversation,
    although the responses of a conversation share its items.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._responses: dict[str, StoredResponse] = {}
        self._items: dict[str, ConversationItem] = {}
        self._lock = threading.Lock()
        self.stored_bytes = 0
        """The size of everything stored, as JSON."""

    @property
    def is_enabled(self) -> bool:
        """Whether anything is stored."""
        return self._capacity > 0

    def response(self, id: str) -> StoredResponse | None:
        """Return the response of that id; ``None`` if it is not stored."""
        return self._responses.get(id)

    def item(self, id: str) -> ConversationItem | None:
        """Return the item of that id; ``None`` if no stored response has it in its output."""
        return self._items.get(id)

    def put(self, id: str, response: StoredResponse) -> None:
        """Store a response under a new id."""
        with self._lock:
            self._responses[id] = response
            self._items |= {item["id"]: item for item in response.own_items}
            self.stored_bytes += response.size
            while len(self._responses) > self._capacity or self.stored_bytes > _MAX_BYTES:
                self._drop(next(iter(self._responses)))

    def _drop(self, id: str) -> None:
        response = self._responses.pop(id)
        self.stored_bytes -= response.size
        for item in response.own_items:
            self._items.pop(item["id"], None)


ITEM_KEYS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"role", "content", "phase"}),
    "function_call": frozenset({"call_id", "name", "namespace", "arguments", "parsed_arguments"}),
    "function_call_output": frozenset({"call_id", "output", "name", "namespace"}),
    "custom_tool_call": frozenset({"call_id", "name", "namespace", "input"}),
    "custom_tool_call_output": frozenset({"call_id", "output", "name", "namespace"}),
    "reasoning": frozenset({"content", "summary", "encrypted_content"}),
    "item_reference": frozenset(),
}
"""By type: keys of items. Clients send back the output of a response with keys that no model reads.
All types have ``type``, ``id`` and ``status``."""


_COMMON_PART_KEYS = {"type", "id", "status", "cache_control"}
_PART_KEYS = {
    "text": {"text"},
    "input_text": {"text"},
    "output_text": {"text", "annotations", "logprobs", "parsed"},
    "reasoning_text": {"text"},
    "summary_text": {"text"},
    "refusal": {"refusal"},
    "input_image": {"image_url", "detail"},
    "image_url": {"image_url"},
    "input_audio": {"input_audio"},
    "input_file": {"file_data", "filename", "detail"},
}


_RESULTS = ("function_call_output", "custom_tool_call_output")
_COMMON_KEYS = {"type", "id", "status", "call_id"}
# Items with definitions of tools.
_DEFINITIONS = ("additional_tools", "tool_search_output")

ShownName: TypeAlias = Callable[[str, str | None], str]
"""Returns the name that the model reads for a tool, from the client's name and the namespace."""


def _same_name(name: str, namespace: str | None) -> str:
    return name


def input_items(
    given: str | Sequence[ConversationItem] | None, store: ResponseStore
) -> list[ConversationItem]:
    """Return the input of a request as items without null members.

    A text is one message of the user. Stored items are in place of references to them.

    Args:
        given: The input.
        store: Finds items by id.

    Raises:
        ApiError: An item is not stored.
    """
    found = []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    for index, members in enumerate(items):
        item = {name: value for name, value in members.items() if value is not None}
        # The type of a reference is optional.
        if item.get("type") == "item_reference" or [*item] == ["id"]:
            id = item.get("id")
            stored = store.item(id) if isinstance(id, str) else None
            if stored is None:
                raise ApiError(
                    400,
                    f"item {short_repr(id)} not found; it may have been dropped",
                    code="item_not_found",
                    param=f"input[{index}]",
                )
            item = stored
        found.append(item)
    return found


def is_known_item(item: Mapping[str, Any]) -> bool:
    """Return whether an item is of a known type; items of other types are left out."""
    kind = item.get("type", "message")
    return not isinstance(kind, str) or kind in ITEM_KEYS or _kind_of_hosted(item) is not None


def defined_tools(
    items: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the definitions of tools in items.

    Returns:
        The tools before the first message of the conversation, which the prompt lists with the
        tools of the request; and later tools, which messages describe.
    """
    head = _head(items)
    return [*_definitions(items[:head])], [*_definitions(items[head:])]


def _head(items: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of items with tools at the start."""
    return sum(1 for _ in takewhile(_lists_tools, items))


def _lists_tools(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "additional_tools"


def _definitions(items: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        tools = item.get("tools") if item.get("type") in _DEFINITIONS else None
        if isinstance(tools, list):
            yield from (tool for tool in tools if isinstance(tool, Mapping))


def messages_of_items(
    items: Sequence[Mapping[str, Any]], names: Sequence[str], shown_name: ShownName = _same_name
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return items as messages, and for each message the field with its content parts.

    Args:
        items: The items.
        names: The field of the request that each item is.
        shown_name: Names the tools of calls as the prompt lists them.

    Raises:
        ApiError: An item is of no known type, or has an invalid value.
    """
    messages: list[dict[str, Any]] = []
    fields: list[str] = []
    head = _head(items)
    for item, name in zip(items[head:], names[head:], strict=True):
        try:
            _add_item(messages, item, shown_name)
        except PromptError as error:
            raise ApiError(400, str(error), code="invalid_prompt", param=name) from error
        # An item adds to the last message, or adds one.
        key = "output" if item.get("type") in _RESULTS else "content"
        fields += [f"{name}.{key}"] * (len(messages) - len(fields))
    return messages, fields


def _add_item(
    messages: list[dict[str, Any]], item: Mapping[str, Any], shown_name: ShownName
) -> None:
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        raise PromptError(f"an item of type {short_repr(kind)} is not supported")
    if kind not in ITEM_KEYS:
        _add_hosted(messages, item)
        return
    namespace = item.get("namespace")
    match kind, item:
        case "message", {"role": "assistant" | "agent", "content": content}:
            _add_text(messages, _content(content))
        case "message", {"role": "user" | "system" | "developer" as role, "content": content}:
            messages.append({"role": role, "content": _content(content)})
        case "function_call", {"name": str(name), "arguments": str(arguments)}:
            shown = shown_name(name, namespace if isinstance(namespace, str) else None)
            function = {"name": shown, "arguments": readable_arguments(shown, arguments)}
            _add_call(messages, item.get("call_id"), {"type": "function", "function": function})
        case "custom_tool_call", {"name": str(name), "input": str(text)}:
            shown = shown_name(name, namespace if isinstance(namespace, str) else None)
            custom = {"name": shown, "input": text}
            _add_call(messages, item.get("call_id"), {"type": "custom", "custom": custom})
        case "function_call_output" | "custom_tool_call_output", {
            "call_id": str(id),
            "output": output,
        }:
            messages.append({"role": "tool", "tool_call_id": id, "content": _content(output)})
        case "reasoning", _:
            parts = _parts(item.get("content") or item.get("summary") or [])
            _add_reasoning(messages, "".join(part.get("text", "") for part in parts))
        case _:
            raise PromptError(
                f"an item of type {short_repr(kind)} lacks a key, or has a value of a wrong type"
            )


def _kind_of_hosted(item: Mapping[str, Any]) -> str | None:
    """Return whether an item of OpenAI's own tools is a call, its result, or definitions of tools.

    ``None`` stands for an item that says nothing to a model.
    """
    kind = str(item.get("type"))
    if isinstance(item.get("call_id"), str):
        if kind.endswith("_output"):
            return "result"
        if kind.endswith("_call"):
            return "call"
    return "definitions" if kind in _DEFINITIONS else None


def _add_hosted(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    """Add an item of OpenAI's own tools, unless it says nothing to a model."""
    rest = {key: value for key, value in item.items() if key not in _COMMON_KEYS}
    match _kind_of_hosted(item):
        case "call":
            given = rest["arguments"] if [*rest] == ["arguments"] else rest
            name = str(item["type"]).removesuffix("_call")
            arguments = given if isinstance(given, str) else json.dumps(given)
            function = {"name": name, "arguments": readable_arguments(name, arguments)}
            _add_call(messages, item["call_id"], {"type": "function", "function": function})
        case "result":
            output = rest.get("output", rest)
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": text})
        case "definitions":
            tools = json.dumps(rest.get("tools"), ensure_ascii=False)
            messages.append(
                {"role": "system", "content": f"You can call these tools too:\n{tools}"}
            )


def _content(content: Any) -> Any:
    """Return the content of a message: its text if it has no other part, or else its parts."""
    match parts := _parts(content):
        case [{"type": "text", "text": text}]:
            return text
    return parts


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise PromptError("content should be text or a list of parts")
    return [_part(part) for part in content]


def _part(part: Any) -> dict[str, Any]:
    """Return a part as it is in messages of chat completions."""
    part = media_part(part)
    kind = part.get("type") if isinstance(part, Mapping) else None
    what = f"a content part of type {short_repr(kind)}"
    if not isinstance(kind, str) or kind not in _PART_KEYS:
        raise PromptError(f"{what} is not supported")
    known = _COMMON_PART_KEYS | _PART_KEYS[kind]
    # Clients send responses back with `null` for each absent field.
    unknown = [key for key, value in part.items() if key not in known and value is not None]
    if unknown:
        raise PromptError(
            f"{what} has no {', '.join(map(short_repr, unknown))}",
            hint=f"Known are {', '.join(map(repr, sorted(known)))}.",
        )
    match part:
        case {"text": str(text)} | {"refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"image_url": str(url)} | {"image_url": {"url": str(url)}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case {"input_audio": Mapping() as audio}:
            return {"type": "input_audio", "input_audio": audio}
        case {"file_data": str(data)}:
            return {"type": "file", "file": {"file_data": data, "filename": part.get("filename")}}
    raise PromptError(f"{what} lacks a key, or has a value of a wrong type")


def _add_text(messages: list[dict[str, Any]], content: Any) -> None:
    message = _assistant_message(messages)
    if not message.get("tool_calls"):
        _message_before_content(messages)["content"] = content
        return
    # Text after calls belongs to their message: the results of the calls follow it.
    before = message["content"] or ""
    if isinstance(before, str) and isinstance(content, str):
        message["content"] = before + content
    else:
        message["content"] = [*_parts_of(before), *_parts_of(content)]


def _parts_of(content: Any) -> list[Any]:
    """Return the content of a message as parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content)


def _add_reasoning(messages: list[dict[str, Any]], text: str) -> None:
    if text:
        message = _message_before_content(messages)
        message["reasoning_content"] = message.get("reasoning_content", "") + text


def _add_call(messages: list[dict[str, Any]], id: Any, call: dict[str, Any]) -> None:
    if isinstance(id, str):
        call["id"] = id
    _assistant_message(messages).setdefault("tool_calls", []).append(call)


def _assistant_message(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last message if it is the assistant's, or else a new one."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    return messages[-1]


def _message_before_content(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an assistant message that has neither content nor calls yet."""
    message = _assistant_message(messages)
    if message.get("content") or message.get("tool_calls"):
        message = {"role": "assistant", "content": None}
        messages.append(message)
    return message
