"""Where messages meet in a prompt: up to there, other prompts may be the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import PromptError
from ..prompt_cache import common_prefix, token_array

__all__ = ["message_boundaries"]

_INSTRUCTIONS = ("system", "developer")


def message_boundaries(
    messages: Sequence[Mapping[str, Any]],
    prompt_ids: Sequence[int],
    encode: Callable[[Sequence[Mapping[str, Any]]], Sequence[int]],
) -> tuple[int, ...]:
    """How many tokens of a prompt other conversations would share with it, in ascending order.

    Three others: one with the same instructions and something else after them; this one with
    another last message; and this one going on after it was answered. ``encode`` gives the token
    ids of a conversation as it gave ``prompt_ids`` for ``messages``; what is shared is read off
    its results, so nothing is assumed of how templates write messages, where they put tools, or
    what they leave out of what was said before. A conversation for which ``encode`` raises
    ``PromptError`` is left out. Lengths are at least 1 and less than ``len(prompt_ids)``.

    Runs ``encode`` up to three times: of use only where a cache cannot be shortened. To be called
    where the tokenizer may be used; needs no model.
    """
    if not messages:
        return ()
    count = len(messages)
    instructions = 0
    while instructions < count - 1 and messages[instructions]["role"] in _INSTRUCTIONS:
        instructions += 1
    others = [[*messages[:k], _other(messages[k])] for k in {instructions, count - 1}]
    answered = messages[-1]["role"] == "assistant"
    going_on = [{"role": "user", "content": "?"}]
    if not answered:
        going_on.insert(0, {"role": "assistant", "content": "?"})
    others.append([*messages, *going_on])
    ids = token_array(prompt_ids)
    found = set()
    for other in others:
        try:
            encoded = token_array(encode(other))
        except PromptError:
            continue
        # The last token is run in any case, for its logits.
        found.add(min(common_prefix(ids, encoded), len(ids) - 1))
    return tuple(sorted(length for length in found if length > 0))


def _other(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the same role that differs from the first character on."""
    said = str(message.get("content") or "")
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "!" if said.lstrip().startswith("?") else "?"}
