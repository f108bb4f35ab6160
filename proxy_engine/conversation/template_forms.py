"""The conversations that chat templates accept: the order of roles, and the form of tool calls.

Some templates raise, or silently omit messages, unless the roles of user and assistant alternate,
the user begins, or the only system message is the first one. Some take no system message.

Their forms of calls differ: arguments as objects or as JSON text, one call per message or several,
a string or ``null`` beside the calls, ids of nine characters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from .control_tokens import unmarked

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")

USER_PLACEHOLDER = "..."
"""The user's message before an assistant that begins. An empty one is omitted by some templates."""

ASSISTANT_PLACEHOLDER = "OK."
"""The answer between the result of a tool and a message of the user."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """The order of roles that a chat template accepts.

    Attributes:
        system: Where it accepts system messages: anywhere, one as the first message, or nowhere.
        user_first: The first message that is no system message must be the user's.
        alternating: The roles of user and assistant must alternate.
        omits_system: It omits the system message unless the last message is the user's.
    """

    system: Literal["anywhere", "first", "nowhere"] = "anywhere"
    user_first: bool = False
    alternating: bool = False
    omits_system: bool = False

    def allow(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether messages satisfy the rules.

        ``False`` is not certain, since a template's rules can be less strict than their
        description. Rendering the messages decides.
        """
        roles = [message["role"] for message in messages]
        systems = [index for index, role in enumerate(roles) if role == "system"]
        if systems and self.system != "anywhere" and (self.system == "nowhere" or systems != [0]):
            return False
        if systems and self.omits_system and roles[-1] != "user":
            return False
        turns = [role for role in roles if role != "system"]
        if "user" not in turns or (self.user_first and turns[0] != "user"):
            return False
        return not self.alternating or not any(
            after == before != "tool" or (before, after) == ("tool", "user")
            for before, after in pairwise(turns)
        )

    def adapt(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return messages that satisfy the rules and have the same content in the same order.

        * Leading system messages become one. If the template accepts or writes none, they become
          the beginning of the user's first message.
        * Later system messages become text of the user where they are, so that the prompt before
          them does not change.
        * Consecutive messages of a role become one, separated by a blank line.
        * A placeholder precedes an assistant that begins.
        """
        if self.omits_system and messages[-1]["role"] != "user":
            return replace(self, system="nowhere", omits_system=False).adapt(messages)
        written: list[dict[str, Any]] = []
        was_moved = False
        for message in messages:
            role = message["role"]
            is_moved = role == "system" and not self._keeps_system(written)
            if is_moved:
                role = "user"
            is_leading_system = role == "system" and self.system == "first"
            must_join = self.alternating or is_moved or was_moved or is_leading_system
            if written and must_join and _can_join(written[-1], {**message, "role": role}):
                written[-1] = _joined(written[-1], message)
                was_moved = is_moved
                continue
            written += self._placeholder(written, role)
            written.append({**message, "role": role})
            was_moved = is_moved
        if all(message["role"] == "system" for message in written):
            # Without a turn, the instructions are the question.
            written = [{**message, "role": "user"} for message in written]
        return written

    def _keeps_system(self, before: Sequence[Mapping[str, Any]]) -> bool:
        if self.system == "first":
            return all(message["role"] == "system" for message in before)
        return self.system == "anywhere"

    def _placeholder(self, before: Sequence[Mapping[str, Any]], role: str) -> list[dict[str, Any]]:
        """Return the message that has to stand between ``before`` and a message of ``role``."""
        is_first = all(message["role"] == "system" for message in before)
        if is_first and self.user_first and role not in ("system", "user"):
            return [{"role": "user", "content": USER_PLACEHOLDER}]
        if self.alternating and role == "user" and before and before[-1]["role"] == "tool":
            return [{"role": "assistant", "content": ASSISTANT_PLACEHOLDER}]
        return []


STRICTEST = TurnRules("nowhere", user_first=True, alternating=True, omits_system=True)
"""A conversation that these rules allow is accepted by every template."""


def _can_join(before: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Return whether two messages can become one: of one role, and text does not follow calls."""
    if before["role"] != message["role"] or message["role"] == "tool":
        return False
    return not before.get("tool_calls") or bool(message.get("tool_calls"))


def _joined(before: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    joined = {**before, "content": _paragraphs(before["content"], message["content"])}
    if reasoning := message.get("reasoning_content"):
        joined["reasoning_content"] = _paragraphs(before.get("reasoning_content", ""), reasoning)
    if calls := message.get("tool_calls"):
        joined["tool_calls"] = [*before.get("tool_calls", ()), *calls]
    return joined


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(text for text in texts if text)


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
