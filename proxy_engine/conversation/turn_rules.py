"""The order of roles that a chat template accepts, and conversations that are adapted to it.

Some templates raise, or silently omit messages, unless the roles of user and assistant alternate,
the user begins, or the only system message is the first one. Some take no system message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

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
