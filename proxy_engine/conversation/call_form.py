"""The form in which a chat template takes tool calls and their results.

Templates differ: arguments as objects or as JSON text, one call per message or several, a string
or ``null`` beside the calls, ids of nine characters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .control_tokens import unmarked

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form in which a template accepts tool calls and results.

    Attributes:
        arguments_as_text: Arguments are JSON text, not objects.
        content_if_empty: The content of a message with calls only.
        one_call: Each message has one call, and its result follows.
        text: Where text before calls goes: into the message of the calls, into its own message
            (``"apart"``), or nowhere.
        short_ids: Ids have nine letters and digits.
        reasoning: The key of the reasoning before a call; ``None`` if it is not written.
    """

    arguments_as_text: bool = False
    content_if_empty: str | None = ""
    one_call: bool = False
    text: Literal["beside", "apart", "nowhere"] = "beside"
    short_ids: bool = False
    reasoning: Literal["reasoning_content", "thinking"] | None = "reasoning_content"

    def rewrite(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Convert messages of ``template_messages`` to this form."""
        written: list[dict[str, Any]] = []
        rest = [dict(message) for message in messages]
        while rest:
            message = rest.pop(0)
            if not message.get("tool_calls"):
                written.append(self._shortened(message))
                continue
            results: list[dict[str, Any]] = []
            while rest and rest[0]["role"] == "tool":
                results.append(rest.pop(0))
            written += map(self._shortened, self._turn(message, results))
        return written

    def _turn(self, message: dict[str, Any], results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        turn: list[dict[str, Any]] = []
        thoughts = message.pop("reasoning_content", None)
        # The only template with "thinking" refuses it in a message with text.
        refused = self.reasoning == "thinking" and message["content"]
        if thoughts is not None and self.reasoning is not None and not refused:
            message[self.reasoning] = thoughts
        if self.text == "apart" and message["content"]:
            turn.append({"role": "assistant", "content": message["content"]})
        if self.text != "beside":
            message["content"] = ""
        calls = message["tool_calls"]
        batches = [[call] for call in calls] if self.one_call else [calls]
        for batch in batches:
            turn.append({**message, "tool_calls": [self._call(call) for call in batch]})
            turn[-1]["content"] = message["content"] or self.content_if_empty
            ids = {call["id"] for call in batch}
            turn += [result for result in results if result.get("tool_call_id") in ids]
            results = [result for result in results if result.get("tool_call_id") not in ids]
            message = {"role": "assistant", "content": "", "tool_calls": []}
        return turn + results

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        if self.arguments_as_text:
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return {**call, "function": function}

    def _shortened(self, message: dict[str, Any]) -> dict[str, Any]:
        if not self.short_ids:
            return message
        if message.get("tool_call_id") is not None:
            message["tool_call_id"] = _short(message["tool_call_id"])
        if message.get("tool_calls"):
            message["tool_calls"] = [
                {**call, "id": _short(call["id"])} for call in message["tool_calls"]
            ]
        return message


def _short(id: str) -> str:
    if _SHORT_ID.fullmatch(id):
        return id
    return hashlib.sha256(unmarked(id).encode("utf-8")).hexdigest()[:9]
