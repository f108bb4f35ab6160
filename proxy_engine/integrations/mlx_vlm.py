"""Logits processors for mlx-vlm: ``generate``, ``stream_generate``, ``batch_generate``.

::

    result = mlx_vlm.generate(
        model, processor, prompt, image, logits_processors=[logits_processor(Receipt, processor)]
    )
"""

from __future__ import annotations

from typing import Any

from state_machines import Vocabulary
from state_machines.processors.arguments import EndTokens

from . import mlx_lm
from .mlx_lm import LogitsProcessor

__all__ = ["LogitsProcessor", "logits_processor"]


def logits_processor(
    output: Any,
    processor: Any,
    *,
    max_tokens: int | None = None,
    end_token_ids: EndTokens = None,
) -> LogitsProcessor:
    """Return a logits processor that allows only the texts of an output.

    Args:
        output: A response format of ``InferenceEngine.generate``: a pydantic model, a type, a JSON
            Schema, a state machine or a composition.
        processor: The processor that ``mlx_vlm.load`` returns, its tokenizer, or a vocabulary.
        max_tokens: Number of tokens within which the text is complete, end tokens not counted. Give
            the loop's ``max_tokens``; ``None``: texts are not limited.
        end_token_ids: Replaces the end tokens; by default those of mlx-vlm's stopping criteria.

    Raises:
        InvalidResponseFormatError: ``output`` is of no accepted kind, or free text.
        SchemaError: A schema is invalid, unsatisfiable, or would not be enforced.
        MaxTokensTooSmallError: No text fits into ``max_tokens``.
        VocabularyError: The tokenizer is not supported.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if end_token_ids is None and not isinstance(tokenizer, Vocabulary):
        criteria = getattr(tokenizer, "stopping_criteria", None)
        end_token_ids = getattr(criteria, "eos_token_ids", None)
    return mlx_lm.logits_processor(
        output, tokenizer, max_tokens=max_tokens, end_token_ids=end_token_ids
    )
