"""Facts about requests and results that several frameworks need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from state_machines import Vocabulary

from ..answers.composition import REASONING
from ..results.generation import GenerationResult
from ..results.parts import TokenLogprobs
from ..tools.choice import requires_call


def may_write_text(arguments: Mapping[str, Any]) -> bool:
    """Return whether an answer may be free text. The engine refuses stop strings otherwise.

    Args:
        arguments: The arguments of :meth:`InferenceEngine.generate`.
    """
    has_format = arguments.get("response_format") is not None
    return not has_format and not requires_call(arguments.get("tool_choice"))


def reasoning_tokens(vocabulary: Vocabulary, result: GenerationResult[Any]) -> int:
    """Return the number of tokens of the output that begin in the reasoning or its markers."""
    if not result.reasoning:
        return 0
    is_reasoning: list[bool] = []
    for part in result.parts:
        is_reasoning += [part.name == REASONING] * len(part.text.encode("utf-8"))
    count = position = 0
    for token_id in result.token_ids:
        if position >= len(is_reasoning):
            break
        count += is_reasoning[position]
        form = vocabulary.token_bytes[token_id] or b""
        position += len(form.removeprefix(Vocabulary.SPECIAL_MARK))
    return count


def openai_logprobs(vocabulary: Vocabulary, logprobs: tuple[TokenLogprobs, ...]) -> dict[str, Any]:
    """Return log-probabilities of tokens as ``logprobs`` of OpenAI's chat API."""

    def written(token_id: int, logprob: float) -> dict[str, Any]:
        form = vocabulary.token_bytes[token_id] or b""
        is_special = form.startswith(Vocabulary.SPECIAL_MARK)
        text = form.removeprefix(Vocabulary.SPECIAL_MARK).decode("utf-8", "replace")
        return {"token": text, "logprob": logprob, "bytes": None if is_special else list(form)}

    return {
        "content": [
            written(token.chosen.token_id, token.chosen.before_mask)
            | {
                "top_logprobs": [
                    written(top.token_id, top.before_mask) for top in token.top_before_mask
                ]
            }
            for token in logprobs
        ]
    }
