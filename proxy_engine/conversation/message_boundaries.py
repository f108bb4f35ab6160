"""The prefixes of a prompt that other conversations share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import PromptError
from ..prompt_cache.store import common_prefix, token_array

_INSTRUCTIONS = ("system", "developer")


def message_boundaries(
    messages: Sequence[Mapping[str, Any]],
    prompt_ids: Sequence[int],
    encode: Callable[[Sequence[Mapping[str, Any]]], Sequence[int]],
) -> tuple[int, ...]:
    """Return the lengths of prefixes that other conversations share with a prompt, in ascending
    order.

    Three other conversations are encoded: the same instructions with another first message, the
    same conversation with another last message, and its continuation after an answer. The common
    prefixes of their tokens and the prompt's are independent of how a template writes messages. A
    conversation that ``encode`` refuses is left out. Needed only if a cache cannot be cut; needs
    the tokenizer, but no model.

    Args:
        messages: The conversation.
        prompt_ids: Its token ids.
        encode: Encodes a conversation in the same way; called up to three times.

    Returns:
        Lengths from 1 to below ``len(prompt_ids)``.
    """
    if not messages:
        return ()
    count = len(messages)
    instructions = 0
    while instructions < count - 1 and messages[instructions]["role"] in _INSTRUCTIONS:
        instructions += 1
    others = [[*messages[:k], _other(messages[k])] for k in {instructions, count - 1}]
    answered = messages[-1]["role"] == "assistant"
    continuation = [{"role": "user", "content": "?"}]
    if not answered:
        continuation.insert(0, {"role": "assistant", "content": "?"})
    others.append([*messages, *continuation])
    ids = token_array(prompt_ids)
    found = set()
    for other in others:
        try:
            encoded = token_array(encode(other))
        except PromptError:
            continue
        # The last token always needs a forward pass, for its logits.
        found.add(min(common_prefix(ids, encoded), len(ids) - 1))
    return tuple(sorted(length for length in found if length > 0))


def _other(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of the same role that differs from its first character on."""
    said = str(message.get("content") or "")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "!" if said.lstrip().startswith("?") else "?"}
