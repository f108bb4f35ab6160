"""Logits processors for mlx-lm: ``generate``, ``stream_generate``, ``batch_generate``.

::

    text = mlx_lm.generate(
        model, tokenizer, prompt, logits_processors=[logits_processor(Person, tokenizer)]
    )
"""

from __future__ import annotations

from typing import Any

from state_machines.processors.arguments import EndTokens, vocabulary_of

from .mlx_processors import LogitsProcessor, make_processor

__all__ = ["LogitsProcessor", "logits_processor"]


def logits_processor(
    output: Any,
    tokenizer: Any,
    *,
    max_tokens: int | None = None,
    end_token_ids: EndTokens = None,
) -> LogitsProcessor:
    """Return a logits processor that allows only the texts of an output.

    Args:
        output: A response format of ``InferenceEngine.generate``: a pydantic model, a type, a JSON
            Schema, a state machine or a composition.
        tokenizer: The tokenizer that ``mlx_lm.load`` returns, or a vocabulary.
        max_tokens: Number of tokens within which the text is complete, end tokens not counted. Give
            the loop's ``max_tokens``; ``None``: texts are not limited.
        end_token_ids: Replaces the tokenizer's end tokens; they must end the loop.

    Raises:
        InvalidResponseFormatError: ``output`` is of no accepted kind, or free text.
        SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        VocabularyError: The tokenizer is not supported.
    """
    return make_processor(output, vocabulary_of(tokenizer, end_token_ids), max_tokens)
