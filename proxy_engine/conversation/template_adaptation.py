"""Adapt a conversation to chat templates that insist on the order of roles.

Some templates raise, or silently omit messages, unless the roles of user and assistant alternate,
the user begins, or the only system message is the first one. Some take no system message.
``turn_rules`` detects these rules by probes. A conversation that a template writes completely is
never adapted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from mlx_lm.tokenizer_utils import TokenizerWrapper

from .template_probe import once_per_template, rendered, writes

USER_PLACEHOLDER = "..."
"""The user's message before an assistant that begins. An empty one is omitted by some templates."""

ASSISTANT_PLACEHOLDER = "OK."
"""The answer between the result of a tool and a message of the user."""


_LONG_CONVERSATION = 101
"""Messages of a conversation from which no template leaves out a question for its length."""


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
        description. ``writes_completely`` decides.
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


@once_per_template
def turn_rules(tokenizer: TokenizerWrapper) -> TurnRules:
    """Return the rules of a tokenizer's chat template, detected once."""
    words = ("zqone", "zqtwo", "zqthree", "zqfour", "zqfive", "zqsix")

    def accepts(*roles: str) -> bool:
        messages = [
            {"role": role, "content": word} for role, word in zip(roles, words, strict=False)
        ]
        return writes(tokenizer, messages, words[: len(roles)])

    if not accepts("system", "user"):
        system: Literal["anywhere", "first", "nowhere"] = "nowhere"
    elif accepts("system", "system", "user", "assistant", "system", "user"):
        system = "anywhere"
    else:
        system = "first"
    return TurnRules(
        system,
        user_first=not (accepts("assistant", "user") and accepts("system")),
        alternating=not (
            accepts("user", "user") and accepts("user", "assistant", "assistant", "user")
        ),
        omits_system=not accepts("system", "user", "assistant"),
    )


def least_messages(tokenizer: TokenizerWrapper, roles_of_texts: Sequence[str]) -> int:
    """Return a number of messages that a chat template writes at least, each with a special token.

    Only messages of the user count: templates may leave out parts of an answer, and others.

    Args:
        tokenizer: Has the template.
        roles_of_texts: The roles of the messages that have a text.
    """
    if not _writes_each_question(tokenizer):
        return 0
    if not turn_rules(tokenizer).alternating:
        return roles_of_texts.count("user")
    # Consecutive messages of the user become one.
    return sum(after == "user" != before for before, after in pairwise(["", *roles_of_texts]))


@once_per_template
def _writes_each_question(tokenizer: TokenizerWrapper) -> bool:
    """Return whether special tokens separate the questions of a long conversation."""
    if not tokenizer.has_chat_template:
        return False
    words = [f"zq{index}zq" for index in range(_LONG_CONVERSATION)]
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": word} for at, word in enumerate(words)]
    text = rendered(tokenizer, messages) or ""
    places = [text.find(word) for word in words[::2]]
    special = set(tokenizer.all_special_tokens)
    return -1 not in places and all(
        any(token in text[start:end] for token in special) for start, end in pairwise(places)
    )


def adapt_to_template(
    messages: list[dict[str, Any]],
    tokenizer: TokenizerWrapper,
    written: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    keywords: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return messages that a chat template writes completely, if there is such a form of them.

    Args:
        messages: The messages.
        tokenizer: Has the template.
        written: Converts the tool calls of messages to the template's form.
        keywords: Other variables of the template.
    """
    # Fast path: most conversations satisfy the rules of every template.
    if STRICTEST.allow(messages):
        return written(messages)
    rules = turn_rules(tokenizer)
    # Some templates refuse system messages with media.
    if rules.allow(messages) and "media_kinds" not in keywords:
        return written(messages)
    adapted = rules.adapt(messages)
    for candidate in (messages, adapted, STRICTEST.adapt(messages)):
        form = written(candidate)
        if writes_completely(tokenizer, form, keywords):
            return form
    return written(adapted)


def writes_completely(
    tokenizer: TokenizerWrapper,
    messages: Sequence[Mapping[str, Any]],
    keywords: Mapping[str, Any],
) -> bool:
    """Return whether a chat template writes the content of all messages.

    Text beside tool calls is not checked, since some templates omit it on purpose.

    Args:
        tokenizer: Has the template.
        messages: The messages.
        keywords: Other variables of the template.
    """
    words = [f"zq{index}zq" for index in range(len(messages))]
    marked = [
        {**message, "content": f"{message['content']} {word}"}
        if message["content"] and not message.get("tool_calls")
        else message
        for message, word in zip(messages, words, strict=True)
    ]
    said = [
        word
        for message, word in zip(marked, words, strict=True)
        if str(message["content"]).endswith(word)
    ]
    return writes(tokenizer, marked, said, **keywords)


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
